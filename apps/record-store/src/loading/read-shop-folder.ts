import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CsvFileError } from './csv-file.error.js';
import {
  type CsvRow,
  type CsvTable,
  instant,
  money,
  optionalText,
  readCsvTable,
  text,
  wholeNumber,
} from './csv-table.js';
import type { CustomerRecord, InvoiceLineRecord, InvoiceRecord, ShopRecords } from './shop-records.js';

const employeeColumns = {
  employee_id: wholeNumber,
  last_name: text,
  first_name: text,
  title: optionalText,
  reports_to: optionalText,
  birth_date: optionalText,
  hire_date: optionalText,
  address: optionalText,
  city: optionalText,
  state: optionalText,
  country: optionalText,
  postal_code: optionalText,
  phone: optionalText,
  fax: optionalText,
  email: optionalText,
};

const customerColumns = {
  customer_id: wholeNumber,
  first_name: text,
  last_name: text,
  company: optionalText,
  address: optionalText,
  city: optionalText,
  state: optionalText,
  country: optionalText,
  postal_code: optionalText,
  phone: optionalText,
  fax: optionalText,
  email: optionalText,
  support_rep_id: wholeNumber,
};

const invoiceColumns = {
  invoice_id: wholeNumber,
  customer_id: wholeNumber,
  invoice_date: instant,
  billing_address: optionalText,
  billing_city: optionalText,
  billing_state: optionalText,
  billing_country: optionalText,
  billing_postal_code: optionalText,
  total: money,
};

const invoiceLineColumns = {
  invoice_line_id: wholeNumber,
  invoice_id: wholeNumber,
  track_id: wholeNumber,
  unit_price: money,
  quantity: wholeNumber,
};

/**
 * Reads employee.csv, customer.csv, invoice.csv and invoice_line.csv of a folder, and checks that ids are unique and
 * references lead somewhere. Throws CsvFileError.
 */
export async function readShopFolder(folder: string): Promise<ShopRecords> {
  if (!(await stat(folder).catch(() => undefined))?.isDirectory()) {
    throw new CsvFileError({ file: folder }, 'there is no such folder');
  }
  const employees = await readCsvTable(join(folder, 'employee.csv'), employeeColumns);
  const customers = await readCsvTable(join(folder, 'customer.csv'), customerColumns);
  const invoices = await readCsvTable(join(folder, 'invoice.csv'), invoiceColumns);
  const lines = await readCsvTable(join(folder, 'invoice_line.csv'), invoiceLineColumns);
  requireUnique(lines, 'invoice_line_id');
  requireReferences(
    customers,
    'support_rep_id',
    requireUnique(employees, 'employee_id'),
    'an employee_id of employee.csv',
  );
  requireReferences(invoices, 'customer_id', requireUnique(customers, 'customer_id'), 'a customer_id of customer.csv');
  requireReferences(lines, 'invoice_id', requireUnique(invoices, 'invoice_id'), 'an invoice_id of invoice.csv');
  return {
    customers: customers.rows.map(toCustomer),
    invoices: invoices.rows.map(toInvoice),
    lines: lines.rows.map(toInvoiceLine),
  };
}

function toCustomer({ values }: CsvRow<typeof customerColumns>): CustomerRecord {
  return {
    id: values.customer_id,
    firstName: values.first_name,
    lastName: values.last_name,
    company: values.company,
    address: values.address,
    city: values.city,
    state: values.state,
    country: values.country,
    postalCode: values.postal_code,
    phone: values.phone,
    fax: values.fax,
    email: values.email,
    supportRepId: values.support_rep_id,
  };
}

function toInvoice({ values }: CsvRow<typeof invoiceColumns>): InvoiceRecord {
  return {
    id: values.invoice_id,
    customerId: values.customer_id,
    invoiceDate: values.invoice_date,
    billingAddress: values.billing_address,
    billingCity: values.billing_city,
    billingState: values.billing_state,
    billingCountry: values.billing_country,
    billingPostalCode: values.billing_postal_code,
    total: values.total,
  };
}

function toInvoiceLine({ values }: CsvRow<typeof invoiceLineColumns>): InvoiceLineRecord {
  return {
    id: values.invoice_line_id,
    invoiceId: values.invoice_id,
    trackId: values.track_id,
    unitPrice: values.unit_price,
    quantity: values.quantity,
  };
}

/** A table as far as its ids go. */
type IdTable<K extends string> = Pick<CsvTable<never>, 'file'> & {
  readonly rows: readonly { readonly line: number; readonly values: { readonly [P in K]: number } }[];
};

function requireUnique<K extends string>({ file, rows }: IdTable<K>, column: K): ReadonlySet<number> {
  const seen = new Set<number>();
  for (const { line, values } of rows) {
    if (seen.has(values[column])) {
      throw new CsvFileError({ file, line, column }, `'${values[column]}' for the second time`, 'wanted: unique ids');
    }
    seen.add(values[column]);
  }
  return seen;
}

function requireReferences<K extends string>(
  { file, rows }: IdTable<K>,
  column: K,
  known: ReadonlySet<number>,
  wanted: string,
): void {
  const dangling = rows.find(({ values }) => !known.has(values[column]));
  if (!dangling) return;
  const { line, values } = dangling;
  throw new CsvFileError({ file, line, column }, `'${values[column]}'`, `wanted: ${wanted}`);
}
