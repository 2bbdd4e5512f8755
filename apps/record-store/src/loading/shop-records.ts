import type { Customer } from '../customers/customer.js';
import type { InvoiceLine } from '../invoices/invoice-line.js';
import type { Invoice } from '../invoices/invoice.js';

/** Rows as a shop keeps them, without what the store derives for retention. */
export type CustomerRecord = Omit<Customer, 'representative' | 'lastInvoiceAt' | 'anonymisedAt'>;
export type InvoiceRecord = Omit<Invoice, 'representative'>;
export type InvoiceLineRecord = Omit<InvoiceLine, 'representative' | 'invoiceDate'>;

/** A shop, or a part of one that is whole in itself: all invoices of its customers, all lines of its invoices. */
export interface ShopRecords {
  readonly customers: readonly CustomerRecord[];
  readonly invoices: readonly InvoiceRecord[];
  readonly lines: readonly InvoiceLineRecord[];
}
