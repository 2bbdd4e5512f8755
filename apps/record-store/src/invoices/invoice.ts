import { Entity, Index, ManyToOne, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { ErasureSubject, Retain, RetentionEntityId, RetentionTenant } from 'nestjs-cohort';
import { Customer } from '../customers/customer.js';

/** An invoice. Its billing address is its own copy, and goes with it. */
@Retain('invoices', 'invoiceDate')
@RetentionEntityId('0f6b2f3e-41d5-4c53-8a34-d3b1c5a6e7f2')
@Entity({ tableName: 'invoices' })
@Index({ name: 'invoices_representative_date_idx', properties: ['representative', 'invoiceDate'] })
export class Invoice {
  @PrimaryKey({ type: 'integer', autoincrement: false })
  id!: number;

  @ErasureSubject('customer')
  @ManyToOne({
    entity: () => Customer,
    mapToPk: true,
    fieldName: 'customer_id',
    deleteRule: 'no action',
    updateRule: 'no action',
    index: 'invoices_customer_idx',
  })
  customerId!: number;

  @Property({ type: 'Date', columnType: 'timestamptz' })
  invoiceDate!: Date;

  @Property({ type: 'text', nullable: true })
  billingAddress!: string | null;

  @Property({ type: 'text', nullable: true })
  billingCity!: string | null;

  @Property({ type: 'text', nullable: true })
  billingState!: string | null;

  @Property({ type: 'text', nullable: true })
  billingCountry!: string | null;

  @Property({ type: 'text', nullable: true })
  billingPostalCode!: string | null;

  /** A decimal text: money never passes through a binary fraction. */
  @Property({ type: 'decimal', columnType: 'numeric(10,2)' })
  total!: string;

  /** The tenant: the representative of its customer. */
  @RetentionTenant()
  @Property({ type: 'text' })
  representative!: string;
}
