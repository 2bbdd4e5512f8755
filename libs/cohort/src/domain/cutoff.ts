import { before } from './period.js';
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
