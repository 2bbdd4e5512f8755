import { expect, test } from '@jest/globals';
import { invoicePdf } from './invoice-pdf.js';

const invoice = { id: 7, invoiceDate: new Date('2026-03-01'), total: '9.90', billingAddress: 'Weg (1) \\ Zürich' };

test('an invoice is a PDF whose cross references point at its objects', () => {
  const file = invoicePdf(invoice as never).toString('latin1');
  const start = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(file)![1]);
  expect(file.slice(start)).toMatch(/^xref\n0 6\n/);
  const offsets = [...file.slice(start).matchAll(/^(\d{10}) 00000 n $/gm)].map((entry) => Number(entry[1]));
  expect(offsets.map((offset) => file.slice(offset, offset + 7))).toEqual([1, 2, 3, 4, 5].map((n) => `${n} 0 obj`));
  expect(file).toContain(String.raw`(Weg \(1\) \\ Zurich)`);
  const [, length, content] = /<< \/Length (\d+) >>\nstream\n([^]*?)\nendstream/.exec(file)!;
  expect(content).toHaveLength(Number(length));
});
