import { Entity, Index, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import {
  Anonymise,
  AnonymiseMethod,
  AnonymiseWith,
  ErasureSubject,
  Retain,
  RetentionEntityId,
  RetentionTenant,
} from 'nestjs-cohort';
import { UnusedAddress } from './unused-address.js';

const REDACTED = '[redacted]';

/** A customer of the shop. Ages by the last invoice; without one never. */
@Retain('customers', 'lastInvoiceAt')
@RetentionEntityId('5d0c3f0a-6f0e-4b8e-9a51-2c7f4f0a9be1')
@Entity({ tableName: 'customers' })
// Partial: customers who are anonymised stay for ever, and no sweep should read them again.
@Index({
  name: 'customers_to_anonymise_idx',
  properties: ['representative', 'lastInvoiceAt'],
  where: 'anonymised_at is null',
})
export class Customer {
  @ErasureSubject('customer')
  @PrimaryKey({ type: 'integer', autoincrement: false })
  id!: number;

  @Anonymise(AnonymiseMethod.FixedLiteral, REDACTED)
  @Property({ type: 'text' })
  firstName!: string;

  @Anonymise(AnonymiseMethod.FixedLiteral, REDACTED)
  @Property({ type: 'text' })
  lastName!: string;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  company!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  address!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  city!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  state!: string | null;

  @Property({ type: 'text', nullable: true })
  country!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  postalCode!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  phone!: string | null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  fax!: string | null;

  @ErasureSubject('email', { normalise: 'lowercase' })
  @AnonymiseWith(UnusedAddress)
  @Property({ type: 'text', nullable: true })
  email!: string | null;

  @Property({ type: 'integer' })
  supportRepId!: number;

  /** The tenant: `rep-` and the id of the support representative. */
  @RetentionTenant()
  @Property({ type: 'text' })
  representative!: string;

  /** Set when the shop is loaded. */
  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
  lastInvoiceAt!: Date | null;

  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
  anonymisedAt!: Date | null;
}
