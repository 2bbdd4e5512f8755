import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EntityManager } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import {
  type RetentionAfterContext,
  type RetentionBeforeContext,
  type RetentionRowHandler,
  RowHandler,
} from 'nestjs-cohort';
import { invoicePdf } from './invoice-pdf.js';
import { Invoice } from './invoice.js';

/** The folder with a PDF of every invoice. */
export const DOCUMENTS_FOLDER = Symbol('the folder of invoice documents');

const FILES_AT_ONCE = 100;

/** The PDFs of invoices: written when a shop is loaded, removed when their invoice has gone. */
@Injectable()
@RowHandler(Invoice, { identity: '6c1f9f64-6b0e-4e25-9d2f-0a4b8d1c7e35' })
export class InvoiceDocuments implements RetentionRowHandler<Invoice> {
  constructor(
    @Inject(DOCUMENTS_FOLDER) private readonly folder: string,
    private readonly em: EntityManager,
  ) {}

  /** Writes one for each invoice that there is. */
  async writeAll(): Promise<void> {
    await mkdir(this.folder, { recursive: true });
    const invoices = await this.em.fork().findAll(Invoice);
    for (let start = 0; start < invoices.length; start += FILES_AT_ONCE) {
      const some = invoices.slice(start, start + FILES_AT_ONCE);
      await Promise.all(some.map((invoice) => writeFile(join(this.folder, fileOf(invoice.id)), invoicePdf(invoice))));
    }
  }

  async count(): Promise<number> {
    const files = await readdir(this.folder).catch(() => []);
    return files.filter((file) => file.endsWith('.pdf')).length;
  }

  /** Once the row is gone, nobody knows any more which file was its own. */
  onBefore(invoice: Invoice, { snapshot }: RetentionBeforeContext): void {
    snapshot['file'] = fileOf(invoice.id);
  }

  /** May come twice: a file that is gone already is as well. */
  async onAfter({ snapshot }: RetentionAfterContext): Promise<void> {
    await rm(join(this.folder, snapshot['file'] as string), { force: true });
  }
}

function fileOf(id: number): string {
  return `invoice-${id}.pdf`;
}
