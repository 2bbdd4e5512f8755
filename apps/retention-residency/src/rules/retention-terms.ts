import { type ExpiryAction, EXPIRY_ACTIONS } from '../vocabulary.js';

/** For how long data is kept, what happens then, and whether it happens under a legal hold too. */
export interface RetentionTerms {
  /** 1 to 36,500 days. */
  readonly retentionDays: number;
  readonly expiryAction: ExpiryAction;
  /** G20: data expires although it is held. */
  readonly legalHoldExempt: boolean;
}

export const MIN_RETENTION_DAYS = 1;
export const MAX_RETENTION_DAYS = 36_500;

/** Audit evidence is never redacted before seven years. */
export const AUDIT_FLOOR_DAYS = 2555;
export const AUDIT_FLOOR_YEARS = 7;

export function areSameTerms(a: RetentionTerms, b: RetentionTerms): boolean {
  return (
    a.retentionDays === b.retentionDays && a.expiryAction === b.expiryAction && a.legalHoldExempt === b.legalHoldExempt
  );
}

/** Of both terms what takes less away, later. It is what is in force while a change waits for its grace. */
export function milderTerms(a: RetentionTerms, b: RetentionTerms): RetentionTerms {
  return {
    retentionDays: Math.max(a.retentionDays, b.retentionDays),
    expiryAction: severity(a) < severity(b) ? a.expiryAction : b.expiryAction,
    legalHoldExempt: a.legalHoldExempt && b.legalHoldExempt,
  };
}

/** G13: what a tenant's own terms come to under a platform rule, which they shorten and never lengthen. */
export function underPlatform(platform: RetentionTerms, own: RetentionTerms | null): RetentionTerms {
  if (own === null) return platform;
  return {
    retentionDays: Math.min(platform.retentionDays, own.retentionDays),
    expiryAction: own.expiryAction,
    // A ceiling as well: data that the platform lets go under a hold is not kept by an override.
    legalHoldExempt: platform.legalHoldExempt || own.legalHoldExempt,
  };
}

function severity({ expiryAction }: RetentionTerms): number {
  return EXPIRY_ACTIONS.indexOf(expiryAction);
}
