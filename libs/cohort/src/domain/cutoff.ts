import { after, before } from './period.js';
import type { RetentionRule } from './retention-rule.js';

/** Rows with an anchor strictly before `at` are due. `period` is the one in effect. */
export interface Cutoff {
  readonly at: Date;
  readonly period: string;
}

/**
 * The cutoff of a sweep: the earlier of `now - period` and `now - legalMin`. Calendar periods have no fixed length,
 * so "the greater period" is decided by where each one ends.
 */
export function sweepCutoff(rule: RetentionRule, now: Date): Cutoff {
  const byPeriod: Cutoff = { at: before(now, rule.period), period: rule.period };
  if (rule.legalMin === undefined) return byPeriod;
  const byLegalMinimum: Cutoff = { at: before(now, rule.legalMin), period: rule.legalMin };
  return byLegalMinimum.at < byPeriod.at ? byLegalMinimum : byPeriod;
}

/** What an erasure has for a cutoff: none, but where the law wants rows kept for a time. */
export interface ErasureCutoff {
  readonly at: Date | null;
  readonly period: string;
}

/** The period of a rule is the host's own wish, and gives way; a positive legal minimum does not. */
export function erasureCutoff(rule: RetentionRule, now: Date): ErasureCutoff {
  const { legalMin = 'P0D' } = rule;
  return { at: legalMin === 'P0D' ? null : before(now, legalMin), period: legalMin };
}

const DAY_MS = 86_400_000;

/** The first instant at which an erasure would take a row with this anchor. In months of unequal length a few days late, never early. */
export function legalMinimumEnds(anchor: Date, legalMin: string): Date {
  let end = new Date(after(anchor, legalMin).getTime() + 1);
  while (before(end, legalMin) <= anchor) end = new Date(end.getTime() + DAY_MS);
  return end;
}
