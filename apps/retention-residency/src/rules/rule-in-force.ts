import type { RuledStoreClass } from '../vocabulary.js';
import type { Grace } from './retention-rule.js';
import { type RetentionTerms, areSameTerms, milderTerms, underPlatform } from './retention-terms.js';

/** Terms of one layer and the grace that they may be in. */
export interface RuleLayer {
  /** Null: an override that was removed, whose removal may still be in its grace. */
  readonly terms: RetentionTerms | null;
  readonly grace: Grace | null;
}

/** The rules that decide about one tenant, store class and classification. */
export interface RuleLayers {
  readonly storeClass: RuledStoreClass;
  readonly platform: RuleLayer & { readonly terms: RetentionTerms };
  /** Null: the tenant never had one. */
  readonly override: RuleLayer | null;
}

/** A change that was asked for and has not taken force. */
export interface PendingTerms {
  readonly terms: RetentionTerms;
  readonly effectiveAt: Date;
}

/**
 * The terms in force at an instant: the platform's, shortened by the tenant's (G13). While a change is in its grace the
 * milder of what was in force and what was asked for holds, so that a lengthening counts at once and a shortening later (G32).
 * For audit it is always the platform's (G11): an override that fitted once must not shorten a rule that was raised since.
 */
export function termsInForce({ storeClass, platform, override }: RuleLayers, at: Date): RetentionTerms {
  const ceiling = withGrace(platform.terms, platform.grace, at);
  if (override === null || storeClass === 'audit') return ceiling;
  const before = override.grace && { ...override.grace, before: capped(override.grace.before, ceiling) };
  return withGrace(underPlatform(ceiling, override.terms), before, at);
}

/** The override says other days, and the platform's are in force instead. */
export function isCapped(layers: RuleLayers, at: Date): boolean {
  const days = layers.override?.terms?.retentionDays;
  if (days === undefined) return false;
  const ceiling = termsInForce({ ...layers, override: null }, at).retentionDays;
  return layers.storeClass === 'audit' ? days !== ceiling : days > ceiling;
}

/** The first change of the terms in force that lies ahead, or null. */
export function pendingTerms(layers: RuleLayers, at: Date): PendingTerms | null {
  const now = termsInForce(layers, at);
  for (const effectiveAt of graceEnds(layers, at)) {
    const terms = termsInForce(layers, effectiveAt);
    if (!areSameTerms(terms, now)) return { terms, effectiveAt };
  }
  return null;
}

function graceEnds({ platform, override }: RuleLayers, at: Date): Date[] {
  const ends = [platform.grace?.until, override?.grace?.until];
  return ends.filter((end) => end !== undefined && end > at).sort((a, b) => Number(a) - Number(b)) as Date[];
}

function withGrace(asked: RetentionTerms, grace: Grace | null, at: Date): RetentionTerms {
  return grace && at < grace.until ? milderTerms(grace.before, asked) : asked;
}

function capped(terms: RetentionTerms, ceiling: RetentionTerms): RetentionTerms {
  return { ...terms, retentionDays: Math.min(terms.retentionDays, ceiling.retentionDays) };
}
