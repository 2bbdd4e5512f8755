import { PLATFORM } from '../vocabulary.js';
import type { RetentionRule, RuleSubject } from './retention-rule.js';
import type { RetentionTerms } from './retention-terms.js';
import { type PendingTerms, type RuleLayers, isCapped, pendingTerms, termsInForce } from './rule-in-force.js';

/** The rows that decide about one tenant, store class and classification. */
export class RuleSet {
  constructor(
    readonly tenantId: string,
    readonly platform: RetentionRule,
    /** The tenant's row, which may be inactive. Null for the platform's own set. */
    readonly own: RetentionRule | null,
  ) {}

  get override(): RetentionRule | null {
    return this.own?.active ? this.own : null;
  }

  /** Of whatever decides: it grows with each change of either row. */
  get version(): number {
    return this.platform.version + (this.own?.version ?? 0);
  }

  get deciding(): RetentionRule {
    return this.override ?? this.platform;
  }

  get layers(): RuleLayers {
    return {
      storeClass: this.platform.storeClass,
      platform: this.platform,
      override: this.own && { terms: this.override?.terms ?? null, grace: this.own.grace },
    };
  }

  inForce(at: Date): RetentionTerms {
    return termsInForce(this.layers, at);
  }

  isCapped(at: Date): boolean {
    return isCapped(this.layers, at);
  }

  pending(at: Date): PendingTerms | null {
    return pendingTerms(this.layers, at);
  }

  /** The terms that were told last: those of before a grace that has ended without being told yet. */
  told(at: Date): RetentionTerms {
    const ended = [this.platform.grace?.until, this.own?.grace?.until].filter(
      (until) => until && until <= at,
    ) as Date[];
    if (ended.length === 0) return this.inForce(at);
    return this.inForce(new Date(Math.min(...ended.map(Number)) - 1));
  }
}

/** One set for each platform rule, joined with the tenant's own. `tenantId` may be the platform. */
export function ruleSets(tenantId: string, rows: readonly RetentionRule[]): RuleSet[] {
  const keyOf = ({ storeClass, classification }: Omit<RuleSubject, 'tenantId'>) => `${storeClass} ${classification}`;
  const isOwn = (row: RetentionRule) => tenantId !== PLATFORM && row.tenantId === tenantId;
  const own = new Map(rows.filter(isOwn).map((row) => [keyOf(row), row]));
  return rows
    .filter((row) => row.isPlatform)
    .map((platform) => new RuleSet(tenantId, platform, own.get(keyOf(platform)) ?? null));
}
