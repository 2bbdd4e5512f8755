import 'reflect-metadata';
import { join } from 'node:path';
import { EntityManager } from '@mikro-orm/postgresql';
import type { INestApplicationContext } from '@nestjs/common';
import { Command } from 'commander';
import { StoppedError, fail, stopSignal, untilStopped } from 'local-stack';
import { createRecordStore } from './app.module.js';
import { openDatabase } from './database/open-database.js';
import { migrate } from './database/orm-options.js';
import { InvoiceDocuments } from './invoices/invoice-documents.js';
import { countShop } from './loading/count-shop.js';
import { type ShopOptions, openShop, withShopOptions } from './loading/shop-source.js';
import { storeShop } from './loading/store-shop.js';
import { ShopRetention } from './retention/shop-retention.js';
import { retentionTable } from './terminal/table.js';

/** At three every night, UTC. */
const NIGHTLY = '0 3 * * *';

function documentsFolder(env: NodeJS.ProcessEnv): string {
  return join(env.DATA_DIR || '.data', 'invoices');
}

/** `npm run start:record-store`: the record store on its database, swept once and then every night, until it is told to stop. */
async function start(options: ShopOptions, signal: AbortSignal): Promise<void> {
  const database = await openDatabase(process.env);
  try {
    console.log(`Database: ${database.place}`);
    for (const name of await migrate(database.url)) console.log(`Applied migration ${name}.`);
    const app = await createRecordStore(database.url, { documents: documentsFolder(process.env), schedule: NIGHTLY });
    try {
      await loadIfEmpty(app, options);
      await sweepOnce(app, signal);
      console.log('The record store is running and sweeps every night at 03:00 UTC. Ctrl-C stops it.');
      await untilStopped(signal);
    } finally {
      await app.close();
    }
  } finally {
    await database.close();
  }
}

async function loadIfEmpty(app: INestApplicationContext, options: ShopOptions): Promise<void> {
  const em = app.get(EntityManager);
  const before = await countShop(em);
  if (before.customers > 0) {
    console.log(`The store has ${before.customers} customers already; nothing was loaded.`);
    return;
  }
  if (options.data === undefined && process.env.NODE_ENV === 'production') {
    console.log('The store is empty. With NODE_ENV=production no shop is made up; load one with --data FOLDER.');
    return;
  }
  await storeShop(em, await openShop(options, new Date()));
  await app.get(InvoiceDocuments).writeAll();
  const { customers, invoices, invoiceLines } = await countShop(em);
  console.log(`Loaded ${customers} customers, ${invoices} invoices, ${invoiceLines} invoice lines.`);
}

async function sweepOnce(app: INestApplicationContext, signal: AbortSignal): Promise<void> {
  const { rows, failures } = await app.get(ShopRetention).sweep(new Date(), { actor: 'record-store', signal });
  if (rows.length > 0) console.log(`Sweep at start:\n${retentionTable(rows)}`);
  for (const failure of failures) console.error(`Sweep failed: ${failure}`);
}

const command = withShopOptions(new Command('npm run start:record-store --'))
  .description('Runs the record store on DATABASE_URL, or on a PostgreSQL of its own in DATA_DIR (default .data).')
  .parse();
try {
  await start(command.opts<ShopOptions>(), stopSignal());
} catch (error) {
  if (!(error instanceof StoppedError)) fail(error);
}
