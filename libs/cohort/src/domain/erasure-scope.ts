import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireText } from './arguments.js';

/** One identifier of a person: the kind that `@ErasureSubject` gave the columns, and the application's own value. */
export interface ErasureIdentifier {
  /** Default 'default'. */
  readonly kind?: string;
  readonly value: unknown;
}

export interface ErasureScopeOptions {
  /** Of a single identifier. Default 'default'. */
  readonly kind?: string;
  /** Without it a request that would only soft-delete is refused as a whole: the data would still be there. Default false. */
  readonly allowSoftDeleteAsErasure?: boolean;
  /** Count and write to the ledger, change nothing. Default false. */
  readonly dryRun?: boolean;
}

const DEFAULT_KIND = 'default';

/**
 * Whose data is to be erased within a tenant: one person, by one identifier or several that are all theirs, or everybody.
 * Nothing of it is printed, logged or stored but the kinds.
 */
export class ErasureScope {
  readonly allowSoftDeleteAsErasure: boolean;
  readonly dryRun: boolean;
  /** Names of the kinds asked for, sorted. Empty for a whole tenant. */
  readonly kinds: readonly string[];
  readonly #identifiers: readonly Required<ErasureIdentifier>[] | null;

  /** `subject` is a value of kind `options.kind`, or a list of identifiers, of which a row needs to carry any one. */
  constructor(subject: unknown, options: ErasureScopeOptions = {}) {
    requireOptions(options, ['kind', 'allowSoftDeleteAsErasure', 'dryRun'], 'erasure options');
    const { kind, allowSoftDeleteAsErasure = false, dryRun = false } = options;
    requireBoolean(allowSoftDeleteAsErasure, 'scope.allowSoftDeleteAsErasure');
    requireBoolean(dryRun, 'scope.dryRun');
    if (Array.isArray(subject) && kind !== undefined)
      throw new InvalidArgumentError('scope.kind', kind, 'no kind beside a list of identifiers, which have their own');
    const given = Array.isArray(subject) ? (subject as unknown[]) : [{ kind, value: subject }];
    this.#identifiers = subject === WHOLE_TENANT ? null : requireIdentifiers(given);
    this.kinds = Object.freeze([...new Set((this.#identifiers ?? []).map((each) => each.kind))].sort());
    this.allowSoftDeleteAsErasure = allowSoftDeleteAsErasure;
    this.dryRun = dryRun;
    Object.freeze(this);
  }

  /** Every row of the tenant, of every retained entity that is not exempt, whatever its period. */
  static tenant(options: Omit<ErasureScopeOptions, 'kind'> = {}): ErasureScope {
    requireOptions(options, ['allowSoftDeleteAsErasure', 'dryRun'], 'erasure options');
    return new ErasureScope(WHOLE_TENANT, options);
  }

  /** @internal What rows are compared with; null for a whole tenant. */
  identifiers(): readonly Required<ErasureIdentifier>[] | null {
    return this.#identifiers;
  }
}

const WHOLE_TENANT = Symbol('the whole tenant');

function requireIdentifiers(given: readonly unknown[]): Required<ErasureIdentifier>[] {
  if (given.length === 0) throw new InvalidArgumentError('scope.subject', given, 'at least one identifier');
  return given.map((each, index) => {
    const argument = given.length === 1 ? 'scope.subject' : `scope.subject[${index}]`;
    if (each === null || typeof each !== 'object') throw new InvalidArgumentError(argument, typeof each, WANTED);
    requireOptions(each, ['kind', 'value'], argument);
    const { kind = DEFAULT_KIND, value } = each as ErasureIdentifier;
    requireText(kind, `${argument}.kind`);
    // The value is personal: an error names its type alone.
    if (value === null || value === undefined || (typeof value === 'string' && value.trim() === ''))
      throw new InvalidArgumentError(
        argument,
        value === '' ? 'an empty text' : typeof value,
        'a value that is not blank',
      );
    if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed()))
      throw new InvalidArgumentError(argument, 'a text', 'one that PostgreSQL can store: no NUL, no lone surrogate');
    if (typeof value === 'symbol' || typeof value === 'function' || Number.isNaN(value))
      throw new InvalidArgumentError(argument, typeof value, 'a value of the marked property');
    return Object.freeze({ kind, value });
  });
}

const WANTED = '{ kind, value }';

function requireBoolean(value: unknown, argument: string): void {
  if (typeof value !== 'boolean') throw new InvalidArgumentError(argument, value, 'true or false');
}

/** Takes an ErasureScope. */
export function requireScope(value: unknown): ErasureScope {
  if (value instanceof ErasureScope) return value;
  throw new InvalidArgumentError('scope', typeof value, 'an ErasureScope');
}
