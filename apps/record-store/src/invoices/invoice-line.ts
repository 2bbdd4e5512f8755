import { Entity, Index, ManyToOne, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { Retain, RetentionEntityId, RetentionTenant } from 'nestjs-cohort';
import { Invoice } from './invoice.js';

/** One track on an invoice. */
@Retain('invoice-lines', 'invoiceDate')
@RetentionEntityId('b0a6c1d8-97f3-4e2a-8d55-6e9f0b7c3a14')
@Entity({ tableName: 'invoice_lines' })
@Index({ name: 'invoice_lines_representative_date_idx', properties: ['representative', 'invoiceDate'] })
export class InvoiceLine {
  @PrimaryKey({ type: 'integer', autoincrement: false })
  id!: number;

  @ManyToOne({
    entity: () => Invoice,
    mapToPk: true,
    fieldName: 'invoice_id',
    deleteRule: 'no action',
    updateRule: 'no action',
    index: 'invoice_lines_invoice_idx',
  })
  invoiceId!: number;

  @Property({ type: 'integer' })
  trackId!: number;

  @Property({ type: 'decimal', columnType: 'numeric(10,2)' })
  unitPrice!: string;

  @Property({ type: 'integer' })
  quantity!: number;

  /** The date of its invoice, copied when the shop is loaded: a line must age without a join. */
  @Property({ type: 'Date', columnType: 'timestamptz' })
  invoiceDate!: Date;

  /** The tenant: the representative of its invoice. */
  @RetentionTenant()
  @Property({ type: 'text' })
  representative!: string;
}
