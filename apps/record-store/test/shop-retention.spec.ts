import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Customer } from '../src/customers/customer.js';
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

// acceptance 143
test('gives every anonymised customer an address that nobody has, by the factory that the module provides', async () => {
  const shop = await openStore();
  try {
    await storeShop(shop.em, generateShop({ customers: 40, seed: 2, now: NOW }));
    const addresses = async () =>
      new Map(
        (await shop.em.fork().findAll(Customer)).map(({ id, email, anonymisedAt }) => [id, { email, anonymisedAt }]),
      );
    const before = await addresses();
    expect((await shop.retention.sweep(NOW, { actor: 'test' })).failures).toEqual([]);
    const after = [...(await addresses())];
    const made = after.flatMap(([, { email, anonymisedAt }]) => (anonymisedAt ? [email] : []));
    expect(made.length).toBeGreaterThan(1);
    expect(made.filter((email) => !/^[0-9a-f-]{36}@customer\.invalid$/.test(email!))).toEqual([]);
    expect(new Set(made).size).toBe(made.length);
    const kept = after.filter(([, { anonymisedAt }]) => !anonymisedAt);
    expect(kept.length).toBeGreaterThan(0);
    expect(kept).toEqual([...before].filter(([id]) => kept.some(([keptId]) => keptId === id)));
  } finally {
    await shop.close();
  }
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
