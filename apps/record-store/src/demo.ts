import { fail, stopSignal } from 'local-stack';
import 'reflect-metadata';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withDemoDatabase } from './database/demo-database.js';
import { parseDemoOptions } from './demo/demo-options.js';
import { runDemo } from './demo/run-demo.js';
import { openShop } from './loading/shop-source.js';

async function withFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'record-store-'));
  return body(folder).finally(() => rm(folder, { recursive: true }));
}

const options = parseDemoOptions(process.argv);
const signal = stopSignal();
try {
  const shop = await openShop(options, options.now);
  const { result, failures } = await withDemoDatabase(process.env, (url) =>
    withFolder((documents) => runDemo({ url, documents, shop, options, signal })),
  );
  // Last, when all that was made is gone: whoever reads this may end the program.
  if (options.json) console.log(JSON.stringify(result));
  for (const failure of failures) console.error(`Sweep failed: ${failure}`);
  if (failures.length > 0) process.exitCode = 1;
} catch (error) {
  fail(error);
}
