import { CohortConfigurationError, describeValue } from './cohort.errors.js';
import { type CohortOptions, type ResolvedOptions, resolveOptions } from './cohort.options.js';

/** What may change while the host runs. */
export type LiveOptions = Omit<
  CohortOptions,
  'rules' | 'tenants' | 'contextName' | 'conventions' | 'metrics' | 'listenUrl' | 'parallelism' | 'lockTimeout'
>;

/** These are held against the model, the pool and the server, once, at start. */
const FIXED = ['rules', 'tenants', 'contextName', 'conventions', 'metrics', 'listenUrl', 'parallelism', 'lockTimeout'];

/** What else speaks against options, known once the model is. */
type Check = (resolved: ResolvedOptions) => readonly string[];

/**
 * The options in force in this process. `update` changes them while the host runs; they are stored nowhere, so that a
 * restart has those of the module again.
 */
export class RetentionSettings {
  readonly #listeners = new Set<() => void>();
  #check: Check = () => [];
  #options: CohortOptions;
  #inForce: ResolvedOptions;

  /** Problems of the options that the module was given. Start-up names them with all others. */
  readonly problems: readonly string[];

  constructor(options: CohortOptions) {
    const problems: string[] = [];
    this.#inForce = resolveOptions(options, problems);
    this.#options = options;
    this.problems = problems;
  }

  /** The values in force. `settings` stays one object, so that whoever holds it sees every change. */
  get inForce(): ResolvedOptions {
    return this.#inForce;
  }

  /**
   * Changes what is named, and in a section what is named there; undefined changes nothing. A batch or a wait in progress
   * goes by the old values, whatever begins later by the new ones. Throws a CohortConfigurationError with every problem,
   * and then nothing has changed.
   */
  update(change: LiveOptions): void {
    const problems: string[] = [];
    const options = merged(this.#options, change, problems);
    const resolved = resolveOptions(options, problems);
    problems.push(...this.#check(resolved));
    if (problems.length > 0) throw new CohortConfigurationError(problems);
    this.#options = options;
    this.#inForce = { ...resolved, settings: Object.assign(this.#inForce.settings, resolved.settings) };
    for (const listener of this.#listeners) listener();
  }

  /** Holds later updates to what only the model tells. Returns what speaks against the options as they are. */
  require(check: Check): readonly string[] {
    this.#check = check;
    return check(this.#inForce);
  }

  /** Calls back after every update, until the function returned is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

function merged(options: CohortOptions, change: LiveOptions, problems: string[]): CohortOptions {
  if (!isSection(change)) {
    problems.push(`The change is ${describeValue(change)}; wanted: an object with the options to change.`);
    return options;
  }
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  for (const [key] of given.filter(([key]) => FIXED.includes(key)))
    problems.push(`${key} is fixed at start; change it in the options of CohortModule and restart.`);
  const current = options as unknown as Readonly<Record<string, unknown>>;
  const changed = given
    .filter(([key]) => !FIXED.includes(key))
    .map(([key, value]) => [key, isSection(value) ? { ...(current[key] as object), ...defined(value) } : value]);
  return { ...options, ...(Object.fromEntries(changed) as Partial<CohortOptions>) };
}

function defined(section: object): object {
  return Object.fromEntries(Object.entries(section).filter(([, value]) => value !== undefined));
}

function isSection(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
