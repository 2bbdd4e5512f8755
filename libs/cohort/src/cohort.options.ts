import { Temporal } from 'temporal-polyfill';
import { describeValue } from './cohort.errors.js';
import { unknownKeys } from './domain/arguments.js';
import type { RetentionRuleProvider } from './domain/rule-provider.js';
import type { StaticRules } from './domain/static-rules.js';
import type { EngineSettings } from './engine/context.js';
import { type ConventionNames, DEFAULT_CONVENTIONS } from './registry/describe-entry.js';

/** A duration as an ISO-8601 string such as 'PT30S', or in milliseconds. */
export type DurationOption = string | number;

/** Names of properties that play a role where no marker says otherwise. */
export interface ConventionOptions {
  /** Default 'id'. */
  readonly recordIdProperty?: string;
  /** Default 'tenantId'. */
  readonly tenantProperty?: string;
  /** Default 'isDeleted'. */
  readonly softDeleteProperty?: string;
  /** Default 'deletedAt'. */
  readonly deletedAtProperty?: string;
  /** Default 'anonymisedAt'. */
  readonly anonymisedAtProperty?: string;
}

/** How `onAfter` of row handlers is dispatched. */
export interface RowHandlerDispatchOptions {
  /** Between two looks at the queue, 1 ms to 1 d. Default PT10S. */
  readonly pollInterval?: DurationOption;
  /** Most work claimed at once, 1 to 10,000. Default 50. */
  readonly batchSize?: number;
  /** Handlers at work at the same time, 1 to 256; those of one row never. Default 4. */
  readonly maxParallelism?: number;
  /** After which work becomes a dead letter, 1 to 1,000. Default 10. */
  readonly maxAttempts?: number;
  /** Before the second attempt, doubled before each one after, 1 ms to 1 d. Default PT1S. */
  readonly baseBackoff?: DurationOption;
  /** Longest wait before an attempt, 1 ms to 30 d. Default PT1H. */
  readonly maxBackoff?: DurationOption;
  /** After which claimed work is taken for abandoned, 30 s to 1 d; a handler has nine tenths of it. Default PT5M. */
  readonly claimTimeout?: DurationOption;
  /** Without a sign of life for this long a run is recovered as failed, 1 min to 7 d. Default PT1H. */
  readonly sweepSettleTimeout?: DurationOption;
  /** After which a snapshot is cleared whether its work is done or not, 1 h to 10 y. Default P30D. */
  readonly payloadRetention?: DurationOption;
  /** How long a dead letter keeps its snapshot, so that it may be queued again, 0 to 10 y. Default 0: cleared at once. */
  readonly deadLetterPayloadRetention?: DurationOption;
}

export type RuleProviderClass = abstract new (...args: never[]) => RetentionRuleProvider;

export interface CohortOptions {
  /** A table of category to rule; or the host's provider, itself or its class, then one of the host's own providers. */
  readonly rules: RetentionRuleProvider | RuleProviderClass | StaticRules;
  /** MikroORM context to work in. Default: the unnamed one. */
  readonly contextName?: string;
  /** True: mutating sweeps are refused, dry runs work. Default false. */
  readonly dryRun?: boolean;
  /** Most rows locked and changed in one transaction, 1 to 100,000. Default 5000. */
  readonly sweepBatchSize?: number;
  /** Lanes (connections) of one pass, 1 to 16. The pool needs two more. Default 1. */
  readonly parallelism?: number;
  /** Longest statement of a batch, 1 s to 1 h. Default PT30S. */
  readonly batchTimeout?: DurationOption;
  /** Longest wait for a lock inside a batch, 10 ms to 10 s, below the server's deadlock_timeout. Default PT0.5S. */
  readonly lockTimeout?: DurationOption;
  /** After which an idle batch is ended by the server, 1 s to 1 h. Default PT30S. */
  readonly idleInTransactionTimeout?: DurationOption;
  /** Where to wait for word of new work, on a connection of its own; past a pooler that shares connections. Default null: polling alone. */
  readonly listenUrl?: string | null;
  readonly auditObservers?: {
    /** Longest wait for one observer and event, 1 ms to 1 h. Default PT5S. */
    readonly timeout?: DurationOption;
  };
  readonly rowHandlerDispatch?: RowHandlerDispatchOptions;
  readonly conventions?: ConventionOptions;
}

/** What `useClass` and `useExisting` of forRootAsync name. */
export interface CohortOptionsFactory {
  createCohortOptions(): Promise<CohortOptions> | CohortOptions;
}

export interface ResolvedOptions {
  readonly settings: EngineSettings;
  readonly conventions: ConventionNames;
}

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const DAY = 24 * HOUR;

/**
 * Checks every option and returns the values in force. Each problem names the key, the value seen and the range. Only
 * what is left out has a default: null is refused like any other wrong value. The rules check themselves.
 */
export function resolveOptions(given: CohortOptions, problems: string[]): ResolvedOptions {
  const options = isObject(given) ? given : ({} as CohortOptions);
  if (options !== given) {
    problems.push(`The options of CohortModule are ${describeValue(given)}; wanted: an object with rules.`);
  }
  complainOfUnknown(options, OPTION_KEYS, '', problems);
  const whole = (key: string, given: unknown, fallback: number, max: number): number => {
    const value = given === undefined ? fallback : given;
    if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max) return value as number;
    problems.push(`${key} is ${describeValue(value)}; wanted: a whole number from 1 to ${max}.`);
    return fallback;
  };
  const duration = (key: string, value: unknown, fallback: string, min: number, max: number): number => {
    const ms = toMilliseconds(value === undefined ? fallback : value);
    if (ms !== undefined && ms >= min && ms <= max) return ms;
    problems.push(
      `${key} is ${describeValue(value)}; wanted: an ISO-8601 duration or milliseconds, from ${min} ms to ${max} ms.`,
    );
    return toMilliseconds(fallback)!;
  };
  const section = <K extends keyof typeof SECTION_KEYS>(key: K): NonNullable<CohortOptions[K]> => {
    const { [key]: value = {} } = options;
    if (isObject(value)) {
      complainOfUnknown(value, SECTION_KEYS[key], `${key}.`, problems);
      return value as NonNullable<CohortOptions[K]>;
    }
    problems.push(`${key} is ${describeValue(value)}; wanted: an object, or nothing for the defaults.`);
    return {};
  };
  if (options.dryRun !== undefined && typeof options.dryRun !== 'boolean') {
    problems.push(`dryRun is ${describeValue(options.dryRun)}; wanted: true or false.`);
  }
  if (options.contextName !== undefined && (typeof options.contextName !== 'string' || options.contextName === '')) {
    problems.push(`contextName is ${describeValue(options.contextName)}; wanted: the name of a MikroORM context.`);
  }
  if (options.listenUrl != null && !isDatabaseUrl(options.listenUrl)) {
    // A wrong url may hold a password all the same.
    problems.push(
      `listenUrl is ${typeof options.listenUrl === 'string' ? 'no url' : describeValue(options.listenUrl)}; wanted: postgresql://…, or null.`,
    );
  }
  const dispatch = section('rowHandlerDispatch');
  const dispatchDuration = (key: keyof RowHandlerDispatchOptions, fallback: string, min: number, max: number) =>
    duration(`rowHandlerDispatch.${key}`, dispatch[key], fallback, min, max);
  const dispatchWhole = (key: keyof RowHandlerDispatchOptions, fallback: number, max: number) =>
    whole(`rowHandlerDispatch.${key}`, dispatch[key], fallback, max);
  return {
    settings: {
      sweepBatchSize: whole('sweepBatchSize', options.sweepBatchSize, 5000, 100_000),
      parallelism: whole('parallelism', options.parallelism, 1, 16),
      batchTimeoutMs: duration('batchTimeout', options.batchTimeout, 'PT30S', SECOND, HOUR),
      lockTimeoutMs: duration('lockTimeout', options.lockTimeout, 'PT0.5S', 10, 10 * SECOND),
      idleTimeoutMs: duration('idleInTransactionTimeout', options.idleInTransactionTimeout, 'PT30S', SECOND, HOUR),
      sweepSettleTimeoutMs: dispatchDuration('sweepSettleTimeout', 'PT1H', 60 * SECOND, 7 * DAY),
      observerTimeoutMs: duration('auditObservers.timeout', section('auditObservers').timeout, 'PT5S', 1, HOUR),
      listenUrl: options.listenUrl ?? null,
      dispatch: {
        pollIntervalMs: dispatchDuration('pollInterval', 'PT10S', 1, DAY),
        batchSize: dispatchWhole('batchSize', 50, 10_000),
        maxParallelism: dispatchWhole('maxParallelism', 4, 256),
        maxAttempts: dispatchWhole('maxAttempts', 10, 1000),
        baseBackoffMs: dispatchDuration('baseBackoff', 'PT1S', 1, DAY),
        maxBackoffMs: dispatchDuration('maxBackoff', 'PT1H', 1, 30 * DAY),
        claimTimeoutMs: dispatchDuration('claimTimeout', 'PT5M', 30 * SECOND, DAY),
        payloadRetentionMs: dispatchDuration('payloadRetention', 'P30D', HOUR, 3650 * DAY),
        deadLetterPayloadRetentionMs: dispatchDuration('deadLetterPayloadRetention', 'PT0S', 0, 3650 * DAY),
      },
      dryRun: options.dryRun === true,
    },
    conventions: conventionNames(section('conventions'), problems),
  };
}

const OPTION_KEYS: readonly (keyof CohortOptions)[] = [
  ...(['rules', 'contextName', 'dryRun', 'sweepBatchSize', 'parallelism'] as const),
  ...(['batchTimeout', 'lockTimeout', 'idleInTransactionTimeout', 'listenUrl'] as const),
  ...(['auditObservers', 'rowHandlerDispatch', 'conventions'] as const),
];
const SECTION_KEYS = {
  auditObservers: ['timeout'],
  rowHandlerDispatch: [
    ...(['pollInterval', 'batchSize', 'maxParallelism', 'maxAttempts', 'baseBackoff', 'maxBackoff'] as const),
    ...(['claimTimeout', 'sweepSettleTimeout', 'payloadRetention', 'deadLetterPayloadRetention'] as const),
  ],
  conventions: [
    'recordIdProperty',
    'tenantProperty',
    'softDeleteProperty',
    'deletedAtProperty',
    'anonymisedAtProperty',
  ],
} as const;

/** A misspelt option would be ignored, and what it asked for with it. */
function complainOfUnknown(given: object, known: readonly string[], prefix: string, problems: string[]): void {
  for (const key of unknownKeys(given, known)) {
    problems.push(`${prefix}${key} is no option; wanted: one of ${known.join(', ')}.`);
  }
}

function conventionNames(conventions: ConventionOptions, problems: string[]): ConventionNames {
  const name = (key: keyof ConventionOptions, fallback: string): string => {
    const { [key]: value = fallback } = conventions;
    if (typeof value === 'string' && value.trim() !== '') return value;
    problems.push(`conventions.${key} is ${describeValue(value)}; wanted: the name of a property.`);
    return fallback;
  };
  return {
    recordId: name('recordIdProperty', DEFAULT_CONVENTIONS.recordId),
    tenant: name('tenantProperty', DEFAULT_CONVENTIONS.tenant),
    softDelete: name('softDeleteProperty', DEFAULT_CONVENTIONS.softDelete),
    deletedAt: name('deletedAtProperty', DEFAULT_CONVENTIONS.deletedAt),
    anonymisedAt: name('anonymisedAtProperty', DEFAULT_CONVENTIONS.anonymisedAt),
  };
}

function isDatabaseUrl(value: unknown): boolean {
  return typeof value === 'string' && /^postgres(ql)?:\/\//.test(value) && URL.canParse(value);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function toMilliseconds(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value !== 'string') return undefined;
  try {
    // A calendar unit has no length in milliseconds; Temporal refuses it here.
    return Temporal.Duration.from(value).total('milliseconds');
  } catch {
    return undefined;
  }
}
