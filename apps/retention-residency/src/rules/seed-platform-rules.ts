import type { Database } from '../platform/database.js';
import type { TimeAndIds } from '../platform/time-and-ids.js';
import { CLASSIFICATIONS, PLATFORM, RULED_STORE_CLASSES, type RuledStoreClass } from '../vocabulary.js';
import { RetentionRule, checkTerms } from './retention-rule.js';
import { runSql } from '../platform/sql.js';

/** Days per store class that the configuration gives to platform defaults. */
export type PlatformDefaults = Readonly<Record<RuledStoreClass, number>>;

/** A stored rule that is not what the configuration says: the stored one wins (G37). */
export interface SeedDifference {
  readonly storeClass: RuledStoreClass;
  readonly classification: string;
  readonly stored: number;
  readonly configured: number;
}

/** Stores platform defaults that are missing, one for each store class and classification. */
export function seedPlatformRules(
  database: Database,
  defaults: PlatformDefaults,
  timeAndIds: TimeAndIds,
): Promise<SeedDifference[]> {
  return database.asPlatform(async (em) => {
    await runSql(em, `select pg_advisory_xact_lock(hashtextextended('data_foundations.seed', 0))`);
    const stored = await em.find(RetentionRule, { tenantId: PLATFORM });
    const now = timeAndIds.now();
    const differences: SeedDifference[] = [];
    for (const storeClass of RULED_STORE_CLASSES) {
      const configured = defaults[storeClass];
      for (const classification of CLASSIFICATIONS) {
        const rule = stored.find((each) => each.storeClass === storeClass && each.classification === classification);
        if (rule === undefined) {
          const seeded = new RetentionRule(timeAndIds.newId(), { tenantId: PLATFORM, storeClass, classification });
          const expiryAction = storeClass === 'audit' ? 'redact' : 'delete';
          const terms = { retentionDays: configured, expiryAction, legalHoldExempt: false } as const;
          checkTerms(storeClass, terms, null);
          seeded.set(terms, null, { reason: 'platform default', changedBy: 'retention-residency', now });
          em.persist(seeded);
        } else if (rule.retentionDays !== configured) {
          differences.push({ storeClass, classification, stored: rule.retentionDays, configured });
        }
      }
    }
    return differences;
  });
}
