import { refuse } from './problem.js';

/** Store classes that have rules of their own. */
export const RULED_STORE_CLASSES = ['traces', 'runs', 'artifacts', 'audit', 'projections'] as const;
export type RuledStoreClass = (typeof RULED_STORE_CLASSES)[number];

/** Store classes that live as long as their source. */
const DERIVED_STORE_CLASSES = ['vector', 'graph', 'cache', 'memory'] as const;
export const STORE_CLASSES = [...RULED_STORE_CLASSES, ...DERIVED_STORE_CLASSES] as const;
export type StoreClass = (typeof STORE_CLASSES)[number];

export const CLASSIFICATIONS = ['public', 'internal', 'confidential', 'restricted'] as const;
export type Classification = (typeof CLASSIFICATIONS)[number];

/** From the mildest to the one that leaves nothing. */
export const EXPIRY_ACTIONS = ['archive', 'redact', 'delete'] as const;
export type ExpiryAction = (typeof EXPIRY_ACTIONS)[number];

export const MODEL_DATA_RESIDENCIES = ['same-region', 'allowed-regions', 'any'] as const;
export type ModelDataResidency = (typeof MODEL_DATA_RESIDENCIES)[number];

export const CANDIDATE_KINDS = ['store-binding', 'model-deployment', 'connector'] as const;
export type CandidateKind = (typeof CANDIDATE_KINDS)[number];

/** The tenant id of platform defaults and of what concerns no tenant. */
export const PLATFORM = '*';

/** Names are compared without case and surrounding blanks. */
export function canonical(name: string): string {
  return name.trim().toLowerCase();
}

export function isStoreClass(name: string): name is StoreClass {
  return (STORE_CLASSES as readonly string[]).includes(name);
}

/** A store class that may have a rule. Throws `unknown-store-class`, for derived classes too. */
export function ruledStoreClass(name: string, pointer: string): RuledStoreClass {
  const found = RULED_STORE_CLASSES.find((each) => each === name);
  if (found) return found;
  const known = RULED_STORE_CLASSES.join(', ');
  const why = isStoreClass(name)
    ? `The store class ${name} is derived and lives as long as its source; rules are for ${known}.`
    : `This store class is not known; rules are for ${known}.`;
  throw refuse('unknown-store-class', pointer, why);
}

/** Throws `validation`. */
export function classificationOf(name: string, pointer: string): Classification {
  const found = CLASSIFICATIONS.find((each) => each === name);
  if (found) return found;
  throw refuse('validation', pointer, `This classification is not known; known are ${CLASSIFICATIONS.join(', ')}.`);
}
