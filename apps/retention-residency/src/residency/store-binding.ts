import type { ResidencyReason } from './evaluate-residency.js';

/** What StoreProfileService says of a binding. */
export interface BoundStore {
  readonly storeClass: string;
  readonly engine: string;
  readonly region: string;
}

/** What the residency rule says of it. */
export interface CheckedResidency {
  /** Nothing: allowed. */
  readonly reasons: readonly ResidencyReason[];
  readonly ruleVersion: number;
  readonly checkedAt: Date;
}

/** A store that is bound for a tenant, as last told, and as last checked. */
export class StoreBinding {
  storeClass!: string;
  engine!: string;
  region!: string;
  /** When the event about it happened: an older one that comes late changes nothing. */
  boundAt!: Date;
  allowed!: boolean;
  reasons: readonly ResidencyReason[] = [];
  checkedAt!: Date;
  ruleVersion!: number;

  constructor(
    readonly bindingId: string,
    readonly tenantId: string,
  ) {}

  bind({ storeClass, engine, region }: BoundStore, boundAt: Date): void {
    this.storeClass = storeClass;
    this.engine = engine;
    this.region = region;
    this.boundAt = boundAt;
  }

  /** True: it was allowed, or not known, and violates the rule now. */
  check({ reasons, ruleVersion, checkedAt }: CheckedResidency): boolean {
    const wasViolating = this.allowed === false;
    this.allowed = reasons.length === 0;
    this.reasons = reasons;
    this.ruleVersion = ruleVersion;
    this.checkedAt = checkedAt;
    return !this.allowed && !wasViolating;
  }
}
