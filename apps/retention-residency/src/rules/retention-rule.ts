import { refuse } from '../problem.js';
import { type Classification, PLATFORM, type RuledStoreClass } from '../vocabulary.js';
import {
  AUDIT_FLOOR_DAYS,
  MAX_RETENTION_DAYS,
  MIN_RETENTION_DAYS,
  type RetentionTerms,
  areSameTerms,
} from './retention-terms.js';

/** What a rule is about. */
export interface RuleSubject {
  /** `*` for a platform default. */
  readonly tenantId: string;
  readonly storeClass: RuledStoreClass;
  readonly classification: Classification;
}

/** Who changed a rule, when and why. `changedBy` is a client id. */
export interface RuleChange {
  readonly reason: string;
  readonly changedBy: string;
  readonly now: Date;
}

/** Terms that were in force when a change was asked for, until `until`, the end of its grace (G32). */
export interface Grace {
  readonly before: RetentionTerms;
  readonly until: Date;
}

/** A platform default or a tenant's override: the terms that were asked for, and the grace in which they are not yet in force. */
export class RetentionRule {
  retentionDays!: number;
  expiryAction!: RetentionTerms['expiryAction'];
  legalHoldExempt!: boolean;
  active = true;
  version = 0;
  reason!: string;
  changedBy!: string;
  changedAt!: Date;
  graceTerms: RetentionTerms | null = null;
  graceUntil: Date | null = null;

  readonly tenantId: string;
  readonly storeClass: RuledStoreClass;
  readonly classification: Classification;

  constructor(
    readonly ruleId: string,
    subject: RuleSubject,
  ) {
    this.tenantId = subject.tenantId;
    this.storeClass = subject.storeClass;
    this.classification = subject.classification;
  }

  get terms(): RetentionTerms {
    const { retentionDays, expiryAction, legalHoldExempt } = this;
    return { retentionDays, expiryAction, legalHoldExempt };
  }

  get isPlatform(): boolean {
    return this.tenantId === PLATFORM;
  }

  get grace(): Grace | null {
    return this.graceTerms && this.graceUntil ? { before: this.graceTerms, until: this.graceUntil } : null;
  }

  /** Terms that were checked by `checkTerms`; an override that was removed comes back. */
  set(terms: RetentionTerms, grace: Grace | null, change: RuleChange): void {
    this.active = true;
    this.retentionDays = terms.retentionDays;
    this.expiryAction = terms.expiryAction;
    this.legalHoldExempt = terms.legalHoldExempt;
    this.changed(grace, change);
  }

  /** G39: an override that is removed stays as a row. */
  deactivate(grace: Grace | null, change: RuleChange): void {
    this.active = false;
    this.changed(grace, change);
  }

  endGrace(): void {
    this.graceTerms = null;
    this.graceUntil = null;
  }

  private changed(grace: Grace | null, { reason, changedBy, now }: RuleChange): void {
    this.version++;
    this.reason = reason;
    this.changedBy = changedBy;
    this.changedAt = now;
    this.graceTerms = grace?.before ?? null;
    this.graceUntil = grace?.until ?? null;
  }
}

/** Terms that may be asked for. `platform` is the platform's rule, null when it is the one that is set. Throws a Problem. */
export function checkTerms(storeClass: RuledStoreClass, terms: RetentionTerms, platform: RetentionTerms | null): void {
  const { retentionDays } = terms;
  const isWhole = Number.isInteger(retentionDays);
  if (!isWhole || retentionDays < MIN_RETENTION_DAYS || retentionDays > MAX_RETENTION_DAYS) {
    const wanted = `a whole number from ${MIN_RETENTION_DAYS} to ${MAX_RETENTION_DAYS}`;
    throw refuse('validation', '/retentionDays', `retentionDays is ${retentionDays}; wanted is ${wanted}.`);
  }
  if (storeClass === 'audit') checkAuditTerms(terms, platform);
  if (platform && retentionDays > platform.retentionDays) {
    const ceiling = platform.retentionDays;
    const detail = `retentionDays is ${retentionDays}; the platform's rule is ${ceiling}, which a tenant may only shorten.`;
    throw refuse('retention-ceiling', '/retentionDays', detail);
  }
}

/** G11, G12, G20. */
function checkAuditTerms(terms: RetentionTerms, platform: RetentionTerms | null): void {
  const { retentionDays, expiryAction, legalHoldExempt } = terms;
  const floor = platform?.retentionDays ?? AUDIT_FLOOR_DAYS;
  if (retentionDays < floor) {
    const detail = `retentionDays is ${retentionDays}; audit evidence is kept for at least ${floor} days.`;
    throw refuse('retention-floor', '/retentionDays', detail);
  }
  if (expiryAction !== 'redact') {
    throw refuse(
      'retention-floor',
      '/expiryAction',
      `expiryAction is ${expiryAction}; audit evidence is only redacted.`,
    );
  }
  if (legalHoldExempt) {
    const detail = 'legalHoldExempt is true; audit evidence never expires under a legal hold.';
    throw refuse('retention-floor', '/legalHoldExempt', detail);
  }
}

/** A PUT with the current content changes nothing. */
export function isUnchanged(rule: RetentionRule | null, terms: RetentionTerms | null): boolean {
  if (rule === null || terms === null) return rule === terms;
  return areSameTerms(rule.terms, terms);
}
