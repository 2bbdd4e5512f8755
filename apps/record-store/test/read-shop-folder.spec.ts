import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { CsvFileError } from '../src/loading/csv-file.error.js';
import { readShopFolder } from '../src/loading/read-shop-folder.js';
import { temporaryFolder } from './support/temporary-folder.js';

const EMPLOYEE_HEADER =
  'employee_id,last_name,first_name,title,reports_to,birth_date,hire_date,address,city,state,country,postal_code,phone,fax,email';
const CUSTOMER_HEADER =
  'customer_id,first_name,last_name,company,address,city,state,country,postal_code,phone,fax,email,support_rep_id';
const INVOICE_HEADER =
  'invoice_id,customer_id,invoice_date,billing_address,billing_city,billing_state,billing_country,billing_postal_code,total';
const LINE_HEADER = 'invoice_line_id,invoice_id,track_id,unit_price,quantity';

const GOOD = {
  'employee.csv': [EMPLOYEE_HEADER, '3,Peacock,Jane,,,,,,,,,,,,'],
  'customer.csv': [CUSTOMER_HEADER, '1,Luís,"Gonçalves, filho",,,,,Brazil,,,,,3'],
  'invoice.csv': [INVOICE_HEADER, '10,1,2021-02-03 04:05:06,"Line one\nline two",,,Brazil,,5.9'],
  'invoice_line.csv': [LINE_HEADER, '100,10,7,0.99,2'],
};
type File = keyof typeof GOOD;

async function shopFolder(changed: Partial<Record<File, readonly string[] | Buffer>> = {}): Promise<string> {
  const folder = await temporaryFolder();
  for (const [file, content] of Object.entries({ ...GOOD, ...changed })) {
    await writeFile(join(folder, file), Buffer.isBuffer(content) ? content : `${content.join('\n')}\n`);
  }
  return folder;
}

describe('reading a shop from CSV files', () => {
  test('takes ids, texts, amounts and dates as they are, and an empty field as none', async () => {
    const { customers, invoices, lines } = await readShopFolder(await shopFolder());
    expect(customers).toMatchObject([
      { id: 1, firstName: 'Luís', lastName: 'Gonçalves, filho', company: null, country: 'Brazil', supportRepId: 3 },
    ]);
    expect(invoices).toMatchObject([
      { id: 10, customerId: 1, billingAddress: 'Line one\nline two', billingCity: null, total: '5.9' },
    ]);
    expect(invoices[0]!.invoiceDate.toISOString()).toBe('2021-02-03T04:05:06.000Z');
    expect(lines).toEqual([{ id: 100, invoiceId: 10, trackId: 7, unitPrice: '0.99', quantity: 2 }]);
  });

  test('takes a byte-order mark, CRLF and columns in another order', async () => {
    const folder = await shopFolder({
      'invoice_line.csv': ['\uFEFFquantity,invoice_line_id,invoice_id,track_id,unit_price\r', '2,100,10,7,0.99\r'],
    });
    expect((await readShopFolder(folder)).lines).toMatchObject([{ id: 100, quantity: 2 }]);
  });

  test.each<[string, File, readonly string[] | Buffer, string]>([
    [
      'a missing column',
      'invoice_line.csv',
      ['invoice_line_id,invoice_id', '1,10'],
      'line 1: columns invoice_line_id,invoice_id; wanted: invoice_line_id,invoice_id,track_id,unit_price,quantity',
    ],
    ['an empty file', 'invoice_line.csv', [], 'line 1: columns (none); wanted: invoice_line_id'],
    ['a short record', 'invoice_line.csv', [LINE_HEADER, '100,10,7'], 'expect 5, got 3 on line 2'],
    ['an open quote', 'invoice_line.csv', [LINE_HEADER, '"100,10,7,0.99,2'], 'Quote Not Closed'],
    [
      'an id that is no number',
      'invoice_line.csv',
      [LINE_HEADER, '100,10,7,0.99,2', 'x,10,7,0.99,2'],
      `line 3, column invoice_line_id: 'x'; wanted: a whole number`,
    ],
    [
      'an id beyond the column',
      'invoice_line.csv',
      [LINE_HEADER, '2147483648,10,7,0.99,2'],
      `column invoice_line_id: '2147483648'; wanted`,
    ],
    [
      'an id for the second time',
      'invoice_line.csv',
      [LINE_HEADER, '1,10,7,0.99,2', '1,10,8,0.99,2'],
      `line 3, column invoice_line_id: '1' for the second time; wanted: unique ids`,
    ],
    [
      'an amount of fractions of a cent',
      'invoice_line.csv',
      [LINE_HEADER, '1,10,7,0.999,2'],
      `column unit_price: '0.999'; wanted: an amount`,
    ],
    [
      'a day that does not exist',
      'invoice.csv',
      [INVOICE_HEADER, '10,1,2021-02-30 00:00:00,,,,,,1.00'],
      `line 2, column invoice_date: '2021-02-30 00:00:00'; wanted: a date and time in UTC`,
    ],
    [
      'a customer without a name',
      'customer.csv',
      [CUSTOMER_HEADER, '1,,Gonçalves,,,,,,,,,,3'],
      `line 2, column first_name: ''; wanted: a text that is not empty`,
    ],
    [
      'a customer without a representative',
      'customer.csv',
      [CUSTOMER_HEADER, '1,Luís,Gonçalves,,,,,,,,,,'],
      `column support_rep_id: ''; wanted: a whole number`,
    ],
    [
      'a representative who is no employee',
      'customer.csv',
      [CUSTOMER_HEADER, '1,Luís,Gonçalves,,,,,,,,,,9'],
      `line 2, column support_rep_id: '9'; wanted: an employee_id of employee.csv`,
    ],
    [
      'an invoice of nobody',
      'invoice.csv',
      [INVOICE_HEADER, '10,2,2021-02-03 00:00:00,,,,,,1.00'],
      `column customer_id: '2'; wanted: a customer_id of customer.csv`,
    ],
    [
      'a line of no invoice',
      'invoice_line.csv',
      [LINE_HEADER, '100,11,7,0.99,2'],
      `column invoice_id: '11'; wanted: an invoice_id of invoice.csv`,
    ],
    [
      'another encoding',
      'customer.csv',
      Buffer.from(`${CUSTOMER_HEADER}\n1,Luís,G,,,,,,,,,,3\n`, 'latin1'),
      'is not UTF-8',
    ],
    ['a zero byte', 'customer.csv', [CUSTOMER_HEADER, '1,Lu\0is,G,,,,,,,,,,3'], 'column first_name'],
  ])('refuses %s, and says where', async (_, file, content, message) => {
    const folder = await shopFolder({ [file]: content });
    const error = await readShopFolder(folder).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(CsvFileError);
    expect((error as Error).message).toContain(join(folder, file));
    expect((error as Error).message).toContain(message);
  });

  test('names the folder or the file that is missing', async () => {
    const folder = await temporaryFolder();
    await expect(readShopFolder(folder)).rejects.toThrow(`${join(folder, 'employee.csv')}: is missing`);
    await expect(readShopFolder(join(folder, 'none'))).rejects.toThrow(
      `${join(folder, 'none')}: there is no such folder`,
    );
  });
});
