import { type CandidateKind, STORE_CLASSES, canonical, isStoreClass } from '../vocabulary.js';
import type { ResidencyTerms } from './residency-rule.js';

/** What is to be bound, deployed or connected, and where. Names as the caller spells them; '' where there is none. */
export interface Candidate {
  readonly kind: CandidateKind;
  readonly storeClass: string;
  readonly engine: string;
  readonly region: string;
}

export type ResidencyReasonCode =
  | 'REGION_NOT_ALLOWED'
  | 'ENGINE_NOT_ALLOWED'
  | 'MODEL_RESIDENCY'
  | 'UNKNOWN_STORE_CLASS'
  | 'UNKNOWN_REGION'
  | 'NO_RULE'
  | 'MOVE_IN_PROGRESS';

export interface ResidencyReason {
  readonly code: ResidencyReasonCode;
  /** What would have been allowed, separated by commas. */
  readonly expected: string;
  readonly actual: string;
}

/** What decides: the tenant's rule, or null where it has none and no default applies. */
export type DecidingRule = (ResidencyTerms & { readonly pendingRegion: string | null }) | null;

/**
 * Why a candidate is refused; nothing: it is allowed. A region that the platform does not offer is refused by every rule.
 * Stores and connectors stay in the allowed regions, model deployments where `modelDataResidency` says.
 */
export function evaluateResidency(
  rule: DecidingRule,
  candidate: Candidate,
  offeredRegions: readonly string[],
): ResidencyReason[] {
  if (rule === null) return [{ code: 'NO_RULE', expected: '', actual: '' }];
  const region = canonical(candidate.region);
  const isKnown = offeredRegions.includes(region);
  const place = isKnown ? refusedRegion(rule, candidate.kind, region) : unknownRegion(offeredRegions, candidate.region);
  const store = candidate.kind === 'store-binding' ? refusedStore(rule, candidate) : null;
  return [place, store].filter((reason) => reason !== null);
}

function unknownRegion(offered: readonly string[], actual: string): ResidencyReason {
  return { code: 'UNKNOWN_REGION', expected: offered.join(','), actual };
}

function refusedRegion(rule: NonNullable<DecidingRule>, kind: CandidateKind, region: string): ResidencyReason | null {
  // G22: the region that the tenant moves to is for the move alone.
  if (region === rule.pendingRegion) return { code: 'MOVE_IN_PROGRESS', expected: rule.region, actual: region };
  const isModel = kind === 'model-deployment';
  if (isModel && rule.modelDataResidency === 'any') return null;
  const allowed = isModel && rule.modelDataResidency === 'same-region' ? [rule.region] : rule.allowedRegions;
  if (allowed.includes(region)) return null;
  return { code: isModel ? 'MODEL_RESIDENCY' : 'REGION_NOT_ALLOWED', expected: allowed.join(','), actual: region };
}

function refusedStore(
  { allowedEngines }: NonNullable<DecidingRule>,
  { storeClass, engine }: Candidate,
): ResidencyReason | null {
  const name = canonical(storeClass);
  if (!isStoreClass(name)) {
    return { code: 'UNKNOWN_STORE_CLASS', expected: STORE_CLASSES.join(','), actual: storeClass };
  }
  if (allowedEngines === null) return null;
  const engines = allowedEngines[name] ?? [];
  if (engines.includes(canonical(engine))) return null;
  return { code: 'ENGINE_NOT_ALLOWED', expected: engines.join(','), actual: engine };
}
