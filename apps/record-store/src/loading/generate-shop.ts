import { faker } from '@faker-js/faker/locale/en';
import type { CustomerRecord, InvoiceLineRecord, InvoiceRecord, ShopRecords } from './shop-records.js';

/** What a generated shop depends on, and nothing else. */
export interface ShopSize {
  readonly customers: number;
  readonly seed: number;
  /** Invoices lie within the five years before. */
  readonly now: Date;
}

const CUSTOMERS_PER_PART = 500;
const YEARS = 5;
const REPRESENTATIVES = [3, 4, 5];
const UNIT_PRICES = ['0.99', '1.99'];

/** Makes a shop up, part by part, so that its size is not bounded by memory. The same size and seed give the same shop. */
export function* generateShop(size: ShopSize): Generator<ShopRecords, void, undefined> {
  const nextId = { invoice: 1, line: 1 };
  for (let first = 1; first <= size.customers; first += CUSTOMERS_PER_PART) {
    const part = {
      customers: [] as CustomerRecord[],
      invoices: [] as InvoiceRecord[],
      lines: [] as InvoiceLineRecord[],
    };
    for (let id = first; id < first + CUSTOMERS_PER_PART && id <= size.customers; id++) {
      // Seeded anew: the generator of random values is shared by the process, and whoever else uses it must not matter.
      faker.seed([size.seed, id]);
      const customer = makeCustomer(id);
      part.customers.push(customer);
      for (const invoiceDate of makeDates(size.now)) {
        const lines = makeLines(nextId);
        const total = lines.reduce((cents, line) => cents + Math.round(Number(line.unitPrice) * 100), 0);
        part.lines.push(...lines);
        part.invoices.push(makeInvoice(nextId.invoice++, customer, invoiceDate, (total / 100).toFixed(2)));
      }
    }
    yield part;
  }
}

function makeCustomer(id: number): CustomerRecord {
  const firstName = faker.person.firstName();
  const lastName = faker.person.lastName();
  return {
    id,
    firstName,
    lastName,
    company: faker.helpers.maybe(() => faker.company.name(), { probability: 0.2 }) ?? null,
    address: faker.location.streetAddress(),
    city: faker.location.city(),
    state: faker.location.state({ abbreviated: true }),
    country: faker.location.country(),
    postalCode: faker.location.zipCode(),
    phone: faker.phone.number(),
    fax: faker.helpers.maybe(() => faker.phone.number(), { probability: 0.2 }) ?? null,
    email: faker.internet.email({ firstName, lastName, provider: 'example.com' }),
    supportRepId: faker.helpers.arrayElement(REPRESENTATIVES),
  };
}

/** Most customers buy to this day, others stopped some time ago. */
function makeDates(now: Date): Date[] {
  const from = yearsBefore(now, YEARS);
  const to = faker.helpers.maybe(() => faker.date.between({ from, to: now }), { probability: 0.4 }) ?? now;
  return faker.helpers
    .multiple(() => faker.date.between({ from, to }), { count: { min: 3, max: 12 } })
    .sort((a, b) => a.getTime() - b.getTime());
}

function makeLines(nextId: { readonly invoice: number; line: number }): InvoiceLineRecord[] {
  return faker.helpers.multiple(
    () => ({
      id: nextId.line++,
      invoiceId: nextId.invoice,
      trackId: faker.number.int({ min: 1, max: 3500 }),
      unitPrice: faker.helpers.arrayElement(UNIT_PRICES),
      quantity: 1,
    }),
    { count: { min: 1, max: 10 } },
  );
}

function makeInvoice(id: number, customer: CustomerRecord, invoiceDate: Date, total: string): InvoiceRecord {
  return {
    id,
    customerId: customer.id,
    invoiceDate,
    billingAddress: customer.address,
    billingCity: customer.city,
    billingState: customer.state,
    billingCountry: customer.country,
    billingPostalCode: customer.postalCode,
    total,
  };
}

function yearsBefore(date: Date, years: number): Date {
  const before = new Date(date);
  before.setUTCFullYear(before.getUTCFullYear() - years);
  return before;
}
