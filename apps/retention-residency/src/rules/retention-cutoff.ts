import { Temporal } from 'temporal-polyfill';
import type { RuledStoreClass } from '../vocabulary.js';
import { AUDIT_FLOOR_YEARS } from './retention-terms.js';

const DAY_MS = 86_400_000;

/**
 * Data from before this instant has expired: `now` less the days. For audit the earlier of that and seven calendar years in
 * UTC (G9), since 2555 days are one or two short of seven years.
 */
export function retentionCutoff(storeClass: RuledStoreClass, retentionDays: number, now: Date): Date {
  const byDays = now.getTime() - retentionDays * DAY_MS;
  if (storeClass !== 'audit') return new Date(byDays);
  const today = Temporal.Instant.fromEpochMilliseconds(now.getTime()).toZonedDateTimeISO('UTC');
  return new Date(Math.min(byDays, today.subtract({ years: AUDIT_FLOOR_YEARS }).epochMilliseconds));
}
