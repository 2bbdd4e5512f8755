import { afterEach, expect, test } from '@jest/globals';
import { Customer } from '../src/customers/customer.js';
import { type HoldOption, resolveHolds } from '../src/demo/hold-option.js';
import { countLedger, readLedger } from '../src/demo/read-ledger.js';
import { InvoiceLine } from '../src/invoices/invoice-line.js';
import { Invoice } from '../src/invoices/invoice.js';
import { countShop } from '../src/loading/count-shop.js';
import { readShopFolder } from '../src/loading/read-shop-folder.js';
import { storeShop } from '../src/loading/store-shop.js';
import type { RetentionRow } from '../src/retention/shop-retention.js';
import { CHINOOK, NOW, describeWithChinook } from './support/chinook.js';
import { openStore } from './support/store.js';

type Count = 'affected' | 'held' | 'skipped' | 'nullAnchor';

describeWithChinook('the Chinook shop at the end of November 2026', () => {
  const opened: (() => Promise<void>)[] = [];

  afterEach(async () => {
    for (const close of opened.splice(0)) await close();
  });

  async function setup(holds: readonly HoldOption[] = []) {
    const store = await openStore();
    opened.push(store.close);
    await storeShop(store.em, [await readShopFolder(CHINOOK)]);
    await store.holds.create(await resolveHolds(store.em, holds));
    return { ...store, sweep: () => store.retention.sweep(NOW, { actor: 'test' }) };
  }

  /** The numbers of one entity, rep-3 to rep-5. */
  const numbers = (rows: readonly RetentionRow[], entity: string, count: Count = 'affected') =>
    rows.filter((row) => row.entity === entity).map((row) => row[count]);
  const sum = (rows: readonly RetentionRow[], count: Count) => rows.reduce((total, row) => total + row[count], 0);

  test('loses exactly the rows that are due, and nothing the second time', async () => {
    const { em, retention, ledger, sweep } = await setup();
    const preview = await retention.preview(NOW);
    const first = await sweep();

    expect(first.failures).toEqual([]);
    expect(first.rows.map(({ tenant, entity }) => `${tenant} ${entity}`)).toEqual([
      ...['rep-3 Customer', 'rep-3 Invoice', 'rep-3 InvoiceLine'],
      ...['rep-4 Customer', 'rep-4 Invoice', 'rep-4 InvoiceLine'],
      ...['rep-5 Customer', 'rep-5 Invoice', 'rep-5 InvoiceLine'],
    ]);
    expect(numbers(first.rows, 'Invoice')).toEqual([86, 82, 74]);
    expect(numbers(first.rows, 'InvoiceLine')).toEqual([490, 400, 423]);
    expect(numbers(first.rows, 'Customer')).toEqual([18, 18, 16]);
    expect(preview).toEqual(first.rows);
    const remaining = { customers: 59, invoices: 170, invoiceLines: 927, anonymisedCustomers: 52 };
    expect(await countShop(em)).toEqual(remaining);
    expect(countLedger(await readLedger(ledger))).toEqual({ runs: 3, summaries: 9, succeeded: 3 });

    const second = await sweep();
    for (const count of ['affected', 'held', 'skipped', 'nullAnchor'] as const) expect(sum(second.rows, count)).toBe(0);
    expect(await countShop(em)).toEqual(remaining);
    expect(countLedger(await readLedger(ledger))).toEqual({ runs: 6, summaries: 18, succeeded: 6 });
  });

  test('counts in a dry run what it would lose, and loses nothing', async () => {
    const { em, retention } = await setup();
    const { rows } = await retention.sweep(NOW, { actor: 'test', dryRun: true });
    expect(numbers(rows, 'Invoice')).toEqual([86, 82, 74]);
    expect(await countShop(em)).toEqual({ customers: 59, invoices: 412, invoiceLines: 2240, anonymisedCustomers: 0 });
  });

  test('keeps the country of an anonymised customer, and nothing else of the person', async () => {
    const { em, sweep } = await setup();
    const before = await em.fork().findOneOrFail(Customer, { id: 2 });
    await sweep();
    const { id, country, supportRepId, representative, lastInvoiceAt } = before;
    expect({ ...(await em.fork().findOneOrFail(Customer, { id: 2 })) }).toEqual({
      ...{ id, country, supportRepId, representative, lastInvoiceAt },
      ...{ firstName: '[redacted]', lastName: '[redacted]' },
      ...{
        company: null,
        address: null,
        city: null,
        state: null,
        postalCode: null,
        phone: null,
        fax: null,
        email: expect.stringMatching(/^[0-9a-f-]{36}@customer\.invalid$/),
      },
      anonymisedAt: expect.any(Date),
    });
  });

  test('keeps a held invoice, and purges its lines', async () => {
    const { em, sweep } = await setup([{ kind: 'invoice', id: 1 }]);
    const { rows } = await sweep();
    expect(numbers(rows, 'Invoice')).toEqual([86, 82, 73]);
    expect(numbers(rows, 'Invoice', 'held')).toEqual([0, 0, 1]);
    expect(numbers(rows, 'InvoiceLine')).toEqual([490, 400, 423]);
    expect([sum(rows, 'held'), sum(rows, 'skipped')]).toEqual([1, 0]);
    expect(await em.fork().count(Invoice, { id: 1 })).toBe(1);
    expect(await em.fork().count(InvoiceLine, { invoiceId: 1 })).toBe(0);
  });

  test('keeps a held line, and skips its invoice', async () => {
    const { em, sweep } = await setup([{ kind: 'invoice-line', id: 1 }]);
    const { rows } = await sweep();
    expect(numbers(rows, 'InvoiceLine')).toEqual([490, 400, 422]);
    expect(numbers(rows, 'InvoiceLine', 'held')).toEqual([0, 0, 1]);
    expect(numbers(rows, 'Invoice')).toEqual([86, 82, 73]);
    expect(numbers(rows, 'Invoice', 'skipped')).toEqual([0, 0, 1]);
    expect([sum(rows, 'held'), sum(rows, 'skipped')]).toEqual([1, 1]);
    expect(await em.fork().find(InvoiceLine, { invoiceId: 1 })).toMatchObject([{ id: 1 }]);
    expect(await em.fork().count(Invoice, { id: 1 })).toBe(1);
  });

  test('keeps every field of a held customer', async () => {
    const { em, sweep } = await setup([{ kind: 'customer', id: 2 }]);
    const before = { ...(await em.fork().findOneOrFail(Customer, { id: 2 })) };
    const { rows } = await sweep();
    expect({ ...(await em.fork().findOneOrFail(Customer, { id: 2 })) }).toEqual(before);
    expect(numbers(rows, 'Customer')).toEqual([18, 18, 15]);
    expect(numbers(rows, 'Customer', 'held')).toEqual([0, 0, 1]);
    expect([sum(rows, 'held'), sum(rows, 'skipped')]).toEqual([1, 0]);
  });

  test('counts a row once, however many holds keep it', async () => {
    const hold = { kind: 'invoice', id: 1 } as const;
    const { retention, sweep } = await setup([hold, hold]);
    const preview = await retention.preview(NOW);
    expect([sum(preview, 'held'), sum((await sweep()).rows, 'held')]).toEqual([1, 1]);
  });
});
