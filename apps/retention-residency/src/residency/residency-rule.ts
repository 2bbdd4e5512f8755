import { Problem, pointerTo, refuse } from '../problem.js';
import { type ModelDataResidency, STORE_CLASSES, type StoreClass, canonical, isStoreClass } from '../vocabulary.js';

/** Engines by store class. A class that is not named may use none. */
export type AllowedEngines = Readonly<Partial<Record<StoreClass, readonly string[]>>>;

/** Where a tenant's data may be, and on what. Regions are in lower case. */
export interface ResidencyTerms {
  readonly region: string;
  readonly allowedRegions: readonly string[];
  /** Null: every engine, which only the default rule allows. */
  readonly allowedEngines: AllowedEngines | null;
  readonly modelDataResidency: ModelDataResidency;
}

/** Terms as they are asked for. */
export interface AskedResidency {
  readonly region: string;
  readonly allowedRegions: readonly string[];
  readonly allowedEngines: Readonly<Record<string, readonly string[]>>;
  readonly modelDataResidency?: ModelDataResidency;
}

/** A tenant's region and the regions and engines that its data may use. */
export class ResidencyRule implements ResidencyTerms {
  region!: string;
  allowedRegions!: string[];
  allowedEngines!: AllowedEngines;
  modelDataResidency!: ModelDataResidency;
  changedAt!: Date;
  version = 0;
  pendingRegion: string | null = null;
  migrationOrderId: string | null = null;

  constructor(readonly tenantId: string) {}

  /** Throws a Problem for another region (G22), which only a migration order may bring. */
  checkRegion(region: string): void {
    if (this.version === 0 || region === this.region) return;
    throw new Problem(
      'not-yet-available',
      `The region is ${this.region}. Moving a tenant to another one takes a migration order, which is not available yet.`,
      { faults: [{ pointer: '/region', detail: `Only ${this.region} is accepted.` }] },
    );
  }

  /** False: these are its terms already. Throws what `checkRegion` throws. */
  set(terms: ResidencyTerms & { allowedEngines: AllowedEngines }, now: Date): boolean {
    this.checkRegion(terms.region);
    if (this.version > 0 && areSameResidency(this, terms)) return false;
    this.region = terms.region;
    this.allowedRegions = [...terms.allowedRegions];
    this.allowedEngines = terms.allowedEngines;
    this.modelDataResidency = terms.modelDataResidency;
    this.changedAt = now;
    this.version++;
    return true;
  }
}

/** Terms as they are kept: regions in lower case, nothing twice. Throws a Problem. `offered` are the regions of the platform. */
export function readResidency(
  asked: AskedResidency,
  offered: readonly string[],
): ResidencyTerms & { allowedEngines: AllowedEngines } {
  const region = offeredRegion(asked.region, '/region', offered);
  const named = asked.allowedRegions.map((each, index) => offeredRegion(each, `/allowedRegions/${index}`, offered));
  const allowedRegions = [...new Set(named)];
  if (!allowedRegions.includes(region)) {
    throw refuse('validation', '/allowedRegions', `allowedRegions does not contain the region ${region}; add it.`);
  }
  const allowedEngines = readEngines(asked.allowedEngines);
  return { region, allowedRegions, allowedEngines, modelDataResidency: asked.modelDataResidency ?? 'same-region' };
}

function offeredRegion(name: string, pointer: string, offered: readonly string[]): string {
  const region = canonical(name);
  if (offered.includes(region)) return region;
  throw refuse('region-not-offered', pointer, `This region is not offered; offered are ${offered.join(', ')}.`);
}

function readEngines(asked: AskedResidency['allowedEngines']): AllowedEngines {
  const engines: Partial<Record<StoreClass, string[]>> = {};
  for (const [storeClass, names] of Object.entries(asked)) {
    const pointer = pointerTo('/allowedEngines', storeClass);
    if (!isStoreClass(storeClass)) {
      throw refuse(
        'unknown-store-class',
        pointer,
        `This store class is not known; known are ${STORE_CLASSES.join(', ')}.`,
      );
    }
    engines[storeClass] = [...new Set(names.map(canonical))].sort();
  }
  return engines;
}

function areSameResidency(a: ResidencyTerms, b: ResidencyTerms): boolean {
  return JSON.stringify(comparable(a)) === JSON.stringify(comparable(b));
}

/** In an order of its own: neither the order of regions nor that of members means anything. */
function comparable({ region, allowedRegions, allowedEngines, modelDataResidency }: ResidencyTerms): unknown {
  const engines = STORE_CLASSES.map((each) => allowedEngines?.[each] ?? null);
  return [region, [...allowedRegions].sort(), engines, modelDataResidency];
}
