import { AUDIT_FLOOR_DAYS, type RetentionTerms, areSameTerms } from './retention-terms.js';
import { type RuleLayers, isCapped, termsInForce } from './rule-in-force.js';

/** What one layer had to say. `outcome`: `decides`, `shortens`, `capped`, `waits`, `agrees`, `absent`. */
export interface ExplainedLayer {
  readonly layer: 'audit-floor' | 'platform' | 'tenant' | 'grace';
  readonly retentionDays: number | null;
  readonly outcome: 'decides' | 'shortens' | 'capped' | 'waits' | 'agrees' | 'absent';
  readonly why: string;
}

export interface ExplainedRule {
  readonly terms: RetentionTerms;
  readonly layers: readonly ExplainedLayer[];
}

/** The terms in force, and how they come about: layer upon layer, the last one that changes the value deciding. */
export function explainRule(layers: RuleLayers, at: Date): ExplainedRule {
  const { storeClass, platform, override } = layers;
  const ceiling = termsInForce({ ...layers, override: null }, at);
  const asked = termsInForce({ ...layers, override: override && { ...override, grace: null } }, at);
  const terms = termsInForce(layers, at);
  const explained: ExplainedLayer[] = [
    ...(storeClass === 'audit' ? [auditFloor()] : []),
    platformLayer(platform.terms, ceiling, platform.grace?.until),
    tenantLayer(override?.terms ?? null, ceiling, isCapped(layers, at)),
    ...(areSameTerms(terms, asked) ? [] : [graceLayer(terms, override?.grace?.until)]),
  ];
  return { terms, layers: explained };
}

function auditFloor(): ExplainedLayer {
  const why = 'Audit evidence is kept for seven years at least, and redacted then.';
  return { layer: 'audit-floor', retentionDays: AUDIT_FLOOR_DAYS, outcome: 'agrees', why };
}

function platformLayer(asked: RetentionTerms, ceiling: RetentionTerms, until: Date | undefined): ExplainedLayer {
  const waits = !areSameTerms(asked, ceiling);
  const why = waits
    ? `The platform's rule becomes ${asked.retentionDays} days and ${asked.expiryAction} at ${until?.toISOString()}.`
    : `The platform's rule is the ceiling for every tenant: ${asked.retentionDays} days, then ${asked.expiryAction}.`;
  return { layer: 'platform', retentionDays: ceiling.retentionDays, outcome: waits ? 'waits' : 'decides', why };
}

function tenantLayer(own: RetentionTerms | null, ceiling: RetentionTerms, capped: boolean): ExplainedLayer {
  if (own === null) {
    return { layer: 'tenant', retentionDays: null, outcome: 'absent', why: 'The tenant has no override.' };
  }
  const { retentionDays, expiryAction } = own;
  const said = `The tenant's override is ${retentionDays} days, then ${expiryAction}`;
  if (capped) {
    const why = `${said}; the platform's ${ceiling.retentionDays} days are in force instead.`;
    return { layer: 'tenant', retentionDays, outcome: 'capped', why };
  }
  const isShorter = retentionDays < ceiling.retentionDays;
  return { layer: 'tenant', retentionDays, outcome: isShorter ? 'shortens' : 'agrees', why: `${said}.` };
}

function graceLayer({ retentionDays }: RetentionTerms, until: Date | undefined): ExplainedLayer {
  const why = `A change takes force at ${until?.toISOString()}; until then what took less away stays in force.`;
  return { layer: 'grace', retentionDays, outcome: 'waits', why };
}
