import { describe, expect, test } from '@jest/globals';
import { generateShop } from './generate-shop.js';

const NOW = new Date('2026-11-30T00:00:00Z');
const size = { customers: 60, seed: 1, now: NOW };

describe('a generated shop', () => {
  test('is the same for the same size, seed and instant', () => {
    expect([...generateShop(size)]).toEqual([...generateShop(size)]);
  });

  test('is another one for another seed', () => {
    expect([...generateShop({ ...size, seed: 2 })]).not.toEqual([...generateShop(size)]);
  });

  test('is the same when two are made at once', () => {
    const [one, other] = [
      generateShop({ ...size, customers: 501 }),
      generateShop({ ...size, seed: 2, customers: 501 }),
    ];
    const parts = [one.next().value, other.next().value, one.next().value];
    expect([parts[0], parts[2]]).toEqual([...generateShop({ ...size, customers: 501 })]);
  });

  test('has as many customers as asked for, with unique ids over all parts', () => {
    const parts = [...generateShop({ ...size, customers: 1001 })];
    expect(parts).toHaveLength(3);
    for (const rows of [
      parts.flatMap((part) => part.customers),
      parts.flatMap((part) => part.invoices),
      parts.flatMap((part) => part.lines),
    ]) {
      expect(new Set(rows.map((row) => row.id)).size).toBe(rows.length);
    }
    expect(parts.flatMap((part) => part.customers)).toHaveLength(1001);
  });

  test('gives every customer invoices of the last five years, and every invoice lines that make its total', () => {
    const [shop] = [...generateShop(size)];
    const from = new Date('2021-11-30T00:00:00Z');
    for (const customer of shop!.customers) {
      expect(shop!.invoices.filter((invoice) => invoice.customerId === customer.id).length).toBeGreaterThan(0);
    }
    for (const invoice of shop!.invoices) {
      expect(invoice.invoiceDate.getTime()).toBeGreaterThanOrEqual(from.getTime());
      expect(invoice.invoiceDate.getTime()).toBeLessThanOrEqual(NOW.getTime());
      const lines = shop!.lines.filter((line) => line.invoiceId === invoice.id);
      const total = lines.reduce((sum, line) => sum + Number(line.unitPrice) * line.quantity, 0);
      expect(total.toFixed(2)).toBe(invoice.total);
    }
  });
});
