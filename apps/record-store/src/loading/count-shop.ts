import type { EntityManager } from '@mikro-orm/postgresql';
import { Customer } from '../customers/customer.js';
import { InvoiceLine } from '../invoices/invoice-line.js';
import { Invoice } from '../invoices/invoice.js';

/** What the store holds. Anonymised customers are among the customers. */
export interface ShopCounts {
  readonly customers: number;
  readonly invoices: number;
  readonly invoiceLines: number;
  readonly anonymisedCustomers: number;
}

export async function countShop(em: EntityManager): Promise<ShopCounts> {
  const store = em.fork();
  return {
    customers: await store.count(Customer),
    invoices: await store.count(Invoice),
    invoiceLines: await store.count(InvoiceLine),
    anonymisedCustomers: await store.count(Customer, { anonymisedAt: { $ne: null } }),
  };
}
