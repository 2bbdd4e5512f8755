import type { EntityManager } from '@mikro-orm/postgresql';
import { Customer } from '../customers/customer.js';
import { InvoiceLine } from '../invoices/invoice-line.js';
import { Invoice } from '../invoices/invoice.js';
import type { ShopRecords } from './shop-records.js';

/** 16 columns a row, and a statement takes at most 65,535 parameters. */
const ROWS_PER_INSERT = 1000;

/** Stores a shop in one transaction: all of it, or nothing. */
export async function storeShop(em: EntityManager, parts: Iterable<ShopRecords>): Promise<void> {
  await em.fork().transactional(async (tx) => {
    for (const part of parts) {
      const { customers, invoices, lines } = withDerivedColumns(part);
      await insertAll(customers, (rows) => tx.insertMany(Customer, rows));
      await insertAll(invoices, (rows) => tx.insertMany(Invoice, rows));
      await insertAll(lines, (rows) => tx.insertMany(InvoiceLine, rows));
    }
  });
}

/** Adds what retention needs on every row itself: the tenant, and the date by which the row ages. */
function withDerivedColumns({ customers, invoices, lines }: ShopRecords) {
  const customerById = new Map(customers.map((customer) => [customer.id, customer]));
  const lastInvoiceAt = new Map<number, Date>();
  for (const { customerId, invoiceDate } of invoices) {
    const last = lastInvoiceAt.get(customerId);
    if (!last || last < invoiceDate) lastInvoiceAt.set(customerId, invoiceDate);
  }
  const ownedInvoices = invoices.map((invoice) => ({
    ...invoice,
    representative: representativeOf(customerById.get(invoice.customerId)!.supportRepId),
  }));
  const invoiceById = new Map(ownedInvoices.map((invoice) => [invoice.id, invoice]));
  return {
    customers: customers.map((customer) => ({
      ...customer,
      representative: representativeOf(customer.supportRepId),
      lastInvoiceAt: lastInvoiceAt.get(customer.id) ?? null,
      anonymisedAt: null,
    })),
    invoices: ownedInvoices,
    lines: lines.map((line) => {
      const { representative, invoiceDate } = invoiceById.get(line.invoiceId)!;
      return { ...line, representative, invoiceDate };
    }),
  };
}

function representativeOf(supportRepId: number): string {
  return `rep-${supportRepId}`;
}

async function insertAll<T>(rows: readonly T[], insert: (rows: T[]) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < rows.length; start += ROWS_PER_INSERT) {
    await insert(rows.slice(start, start + ROWS_PER_INSERT));
  }
}
