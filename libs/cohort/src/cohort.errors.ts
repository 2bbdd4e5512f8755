/** Base of every error that Cohort throws on purpose. `code` is stable; messages may improve. */
export abstract class CohortError extends Error {
  abstract readonly code: string;

  protected constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The host is set up wrongly: every problem found, in one error. Nothing was read or changed. */
export class CohortConfigurationError extends CohortError {
  readonly code = 'configuration';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const unique = [...new Set(problems)].sort();
    super(`Cohort cannot run with this configuration:\n${unique.map((problem) => `- ${problem}`).join('\n')}`);
    this.problems = Object.freeze(unique);
  }
}

/** An argument is not what the call takes. Thrown before anything is read or changed. */
export class InvalidArgumentError extends CohortError {
  readonly code = 'invalid-argument';

  constructor(
    readonly argument: string,
    seen: unknown,
    wanted: string,
  ) {
    super(`${argument} is ${describeValue(seen)}; wanted: ${wanted}.`);
  }
}

/** No usable rule for a category: the provider returned none, threw, or used a strategy it had not declared. */
export class RuleResolutionError extends CohortError {
  readonly code = 'rule-resolution';

  constructor(
    readonly category: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`The rule of category '${category}' could not be resolved: ${reason}`, options);
  }
}

/** Categories that are aliases of each other: no rule stands at the end. `path` begins and ends with the same category. */
export class AliasCycleError extends CohortError {
  readonly code = 'alias-cycle';

  constructor(readonly path: readonly string[]) {
    super(`Categories form a cycle of aliases (${path.join(' > ')}); give one of them a rule of its own.`);
  }
}

/** A mutating call was refused because the host runs with `dryRun: true`. No run was written. */
export class DryRunOnlyError extends CohortError {
  readonly code = 'dry-run-only';

  constructor() {
    super(
      'Cohort is configured with dryRun: true, so a mutating call is refused. Pass { dryRun: true } or lift the option.',
    );
  }
}

/** An erasure would only have hidden rows. Nothing was changed, and no run was written. */
export class SoftDeleteErasureError extends CohortError {
  readonly code = 'erasure-soft-delete';

  constructor(readonly entities: readonly string[]) {
    super(
      `The rules only soft-delete ${entities.join(', ')}, which leaves the data there, so the erasure was refused as a whole. ` +
        'Give those categories another strategy, or accept it with { allowSoftDeleteAsErasure: true }.',
    );
  }
}

/** This process lost its run: another one recovered it as abandoned. What was committed before stays in the ledger. */
export class RunLostError extends CohortError {
  readonly code = 'run-lost';

  constructor(readonly passId: string) {
    super(
      `Pass ${passId} was recovered by another process because its heartbeat was too old; ` +
        'nothing more can be committed in it. Start a new sweep.',
    );
  }
}

/** Another replica sweeps a slot of the schedule: the lease of this one ran out. Nothing more can be committed for it here. */
export class SlotLostError extends CohortError {
  readonly code = 'slot-lost';

  constructor(readonly slot: Date) {
    super(`Slot ${slot.toISOString()} was taken over by another replica because the lease of this one had run out.`);
  }
}

/** Why a legal hold could not be created, released or read. */
export type HoldErrorCode =
  | 'hold-unknown-entity'
  | 'hold-tenant-mismatch'
  | 'hold-record-id-invalid'
  | 'hold-record-missing'
  | 'hold-exists'
  | 'hold-not-stored'
  | 'hold-not-active'
  | 'hold-busy'
  | 'hold-deadlock'
  | 'hold-serialization';

/** A hold call failed loudly; nothing was stored. `sqlState` is set when the database said so (40001, 40P01, 55P03, …). */
export class RetentionHoldError extends CohortError {
  readonly sqlState: string | undefined;

  constructor(
    readonly code: HoldErrorCode,
    message: string,
    options?: ErrorOptions & { sqlState?: string },
  ) {
    super(message, options);
    this.sqlState = options?.sqlState;
  }
}

/** Why a deletion of the application's own was not done. */
export type DeletionErrorCode =
  | 'deletion-unknown-entity'
  | 'deletion-tenant-mismatch'
  | 'deletion-record-id-invalid'
  | 'deletion-in-transaction'
  | 'deletion-busy'
  | 'deletion-deadlock';

/** A deletion was not done: nothing of it is stored. */
export class RetentionDeletionError extends CohortError {
  constructor(
    readonly code: DeletionErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** How a value reads in an error: short, quoted, never an object's content, and never an error of its own. */
export function describeValue(value: unknown): string {
  try {
    return described(value);
  } catch {
    // A proxy or a getter that throws.
    return `a value of type ${typeof value}`;
  }
}

function described(value: unknown): string {
  if (typeof value === 'string') {
    return value === '' ? 'an empty string' : `'${value.length > 80 ? `${value.slice(0, 80)}…` : value}'`;
  }
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean')
    return String(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString();
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value === 'function'
    ? `the function ${value.name || '(anonymous)'}`
    : `a value of type ${value.constructor?.name ?? 'object'}`;
}
