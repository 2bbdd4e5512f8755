import { Entity, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import {
  Anonymise,
  AnonymiseMethod,
  Retain,
  RetentionEntityId,
  RetentionTenantless,
  TenantContext,
} from 'nestjs-cohort';

export const NOTE_ID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';
export const CONTACT_ID = 'b7316df4-7db5-46ad-aea7-f65c4b430f73';
const TICKET_ID = 'c0ffee00-1111-4222-8333-444455556666';
export const SIGNAL_ID = 'd15ea5e0-1111-4222-8333-444455556666';

/** Purged. */
@Retain('session-notes', 'createdAt')
@RetentionEntityId(NOTE_ID)
@Entity({ tableName: 'session_notes' })
export class SessionNote {
  @PrimaryKey({ type: 'uuid' })
  id!: string;

  @Property({ type: 'text' })
  tenantId!: string;

  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
  createdAt: Date | null = null;

  @Property({ type: 'text' })
  body = '';
}

/** Anonymised. */
@Retain('case-contacts', 'createdAt')
@RetentionEntityId(CONTACT_ID)
@Entity({ tableName: 'case_contacts' })
export class CaseContact {
  @PrimaryKey({ type: 'uuid' })
  id!: string;

  @Property({ type: 'text' })
  tenantId!: string;

  @Property({ type: 'Date', columnType: 'timestamptz' })
  createdAt!: Date;

  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
  anonymisedAt: Date | null = null;

  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  email: string | null = null;

  @Anonymise(AnonymiseMethod.EmptyString)
  @Property({ type: 'text' })
  fullName = '';

  @Anonymise(AnonymiseMethod.FixedLiteral, '[redacted]')
  @Property({ type: 'text' })
  phone = '';

  @Property({ type: 'text' })
  country = '';
}

/** Soft-deleted. */
@Retain('tickets', 'closedAt')
@RetentionEntityId(TICKET_ID)
@Entity({ tableName: 'tickets' })
export class Ticket {
  @PrimaryKey({ type: 'int', autoincrement: false })
  id!: number;

  @Property({ type: 'text' })
  tenantId!: string;

  @Property({ type: 'Date', columnType: 'timestamptz' })
  closedAt!: Date;

  @Property({ type: 'boolean' })
  isDeleted = false;

  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
  deletedAt: Date | null = null;
}

/** Purged, without a tenant. */
@Retain('signals', 'seenAt')
@RetentionEntityId(SIGNAL_ID)
@RetentionTenantless()
@Entity({ tableName: 'signals' })
export class Signal {
  @PrimaryKey({ type: 'bigint' })
  id!: bigint;

  @Property({ type: 'Date', columnType: 'timestamptz' })
  seenAt!: Date;
}

export const NOW = new Date('2026-06-30T12:00:00.000Z');
export const ACME = new TenantContext('acme');
export const GLOBEX = new TenantContext('globex');

/** All four entities under simple rules. */
export const notesHost = {
  entities: [SessionNote, CaseContact, Ticket, Signal],
  options: {
    rules: {
      'session-notes': { period: 'P30D', strategy: 'purge' as const },
      'case-contacts': { period: 'P1Y', strategy: 'anonymise' as const },
      tickets: { period: 'P90D', strategy: 'softDelete' as const },
      signals: { period: 'P7D', strategy: 'purge' as const },
    },
  },
};

const DAY = 86_400_000;
export const daysBefore = (days: number, now = NOW) => new Date(now.getTime() - days * DAY);
