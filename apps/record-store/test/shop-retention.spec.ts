import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { InvoiceLine } from '../src/invoices/invoice-line.js';
import { generateShop } from '../src/loading/generate-shop.js';
import { storeShop } from '../src/loading/store-shop.js';
import { openStore } from './support/store.js';

const NOW = new Date('2026-11-30T00:00:00Z');
let store: Awaited<ReturnType<typeof openStore>>;

beforeAll(async () => {
  store = await openStore();
});

afterAll(() => store.close());

test('has nothing to do in an empty store', async () => {
  expect(await store.retention.preview(NOW)).toEqual([]);
  expect(await store.retention.sweep(NOW, { actor: 'test' })).toEqual({ rows: [], failures: [] });
});

test('names the run that did not succeed', async () => {
  await storeShop(store.em, generateShop({ customers: 30, seed: 1, now: NOW }));
  const oldest = await store.em
    .fork()
    .findOneOrFail(InvoiceLine, { invoiceDate: { $ne: null } }, { orderBy: { invoiceDate: 'asc' } });
  const connection = store.em.getConnection();
  await connection.execute(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$`,
  );
  await connection.execute(
    `create trigger refuse before delete on invoice_lines for each row when (old.id = ${oldest.id}) execute function refuse()`,
  );
  // What the engine says of it is not this test's, and long.
  Logger.overrideLogger(false);
  const { failures } = await store.retention.sweep(NOW, { actor: 'test' });
  expect(failures).toEqual([expect.stringMatching(`^${oldest.representative}: partiallyFailed; entity=InvoiceLine`)]);
});
