import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Customer } from '../src/customers/customer.js';
import { InvoiceLine } from '../src/invoices/invoice-line.js';
import { Invoice } from '../src/invoices/invoice.js';
import { countShop } from '../src/loading/count-shop.js';
import { generateShop } from '../src/loading/generate-shop.js';
import type { ShopRecords } from '../src/loading/shop-records.js';
import { storeShop } from '../src/loading/store-shop.js';
import { openStore } from './support/store.js';

const NOW = new Date('2026-11-30T00:00:00Z');
let store: Awaited<ReturnType<typeof openStore>>;

beforeAll(async () => {
  store = await openStore();
});

afterAll(() => store.close());

test('stores nothing of a shop that fails half way', async () => {
  const [shop] = [...generateShop({ customers: 3, seed: 1, now: NOW })];
  await expect(storeShop(store.em, [shop!, shop!])).rejects.toThrow(/duplicate key/);
  expect(await countShop(store.em)).toEqual({ customers: 0, invoices: 0, invoiceLines: 0, anonymisedCustomers: 0 });
});

test('gives every row its tenant and the date by which it ages', async () => {
  const [generated] = [...generateShop({ customers: 1, seed: 1, now: NOW })];
  const customer = generated!.customers[0]!;
  const dates = [new Date('2024-02-29T00:00:00Z'), new Date('2025-01-01T00:00:00Z'), new Date('2023-01-01T00:00:00Z')];
  const shop: ShopRecords = {
    customers: [
      { ...customer, id: 1, supportRepId: 4 },
      { ...customer, id: 2, supportRepId: 5 },
    ],
    invoices: dates.map((invoiceDate, index) => ({
      ...generated!.invoices[0]!,
      id: index + 1,
      customerId: 1,
      invoiceDate,
    })),
    lines: [{ ...generated!.lines[0]!, id: 1, invoiceId: 1 }],
  };
  await storeShop(store.em, [shop]);

  const em = store.em.fork();
  expect(await em.find(Customer, {}, { orderBy: { id: 'asc' } })).toMatchObject([
    { representative: 'rep-4', lastInvoiceAt: dates[1], anonymisedAt: null },
    { representative: 'rep-5', lastInvoiceAt: null },
  ]);
  expect(await em.findOne(Invoice, { id: 2 })).toMatchObject({ representative: 'rep-4', invoiceDate: dates[1] });
  expect(await em.findOne(InvoiceLine, { id: 1 })).toMatchObject({ representative: 'rep-4', invoiceDate: dates[0] });
});
