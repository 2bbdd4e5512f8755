import { Migrator } from '@mikro-orm/migrations';
import { MikroORM, defineConfig } from '@mikro-orm/postgresql';
import { recordStoreMigrations } from 'migrations';
import { cohortEntities, giveBackLostConnections } from 'nestjs-cohort';
import { Customer } from '../customers/customer.js';
import { InvoiceLine } from '../invoices/invoice-line.js';
import { Invoice } from '../invoices/invoice.js';

/** The MikroORM configuration of the record store on a database. */
export function ormOptions(url: string) {
  return defineConfig({
    clientUrl: url,
    driverOptions: { onPoolCreated: giveBackLostConnections },
    entities: [Customer, Invoice, InvoiceLine, ...cohortEntities({ schema: 'retention' })],
    discovery: { inferDefaultValues: false },
    extensions: [Migrator],
    migrations: { migrationsList: recordStoreMigrations, snapshot: false, silent: true },
    // Standard output belongs to what the programs were asked for.
    logger: (message) => console.error(message),
  });
}

/** Brings a database up to date, and creates it when the server does not have it yet. Returns the names of what was applied. */
export async function migrate(url: string): Promise<string[]> {
  const orm = await MikroORM.init(ormOptions(url));
  try {
    return (await orm.migrator.up()).map(({ name }) => name);
  } finally {
    await orm.close();
  }
}
