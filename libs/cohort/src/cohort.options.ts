import { Temporal } from 'temporal-polyfill';
import type { Registry } from 'prom-client';
import { type CohortConfigurationError, describeValue } from './cohort.errors.js';
import { type CronSchedule, parseSchedule } from './cron-schedule.js';
import { unknownKeys } from './domain/arguments.js';
import { before } from './domain/period.js';
import type { RetentionRuleProvider } from './domain/rule-provider.js';
import type { StaticRules } from './domain/static-rules.js';
import type { RetentionTenantSource } from './domain/tenant-source.js';
import type { TenantContext } from './domain/tenant-context.js';
import type { EngineSettings } from './engine/context.js';
import type { HistoryRetention } from './engine/prune-history.js';
import type { MetricsSettings } from './metrics/cohort-metrics.js';
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
  /** How long a dead letter keeps its snapshot, so that it may be queued again, 0 to payloadRetention. Default 0: cleared at once. */
  readonly deadLetterPayloadRetention?: DurationOption;
}

export type RuleProviderClass = abstract new (...args: never[]) => RetentionRuleProvider;
export type TenantSourceClass = abstract new (...args: never[]) => RetentionTenantSource;

export interface CohortOptions {
  /** A table of category to rule; or the host's provider, itself or its class, then one of the host's own providers. */
  readonly rules: RetentionRuleProvider | RuleProviderClass | StaticRules;
  /**
   * Whom the worker sweeps: the host's source, itself or its class, then one of the host's own providers; or a list. Needed
   * with a schedule where an entity has a tenant.
   */
  readonly tenants?: RetentionTenantSource | TenantSourceClass | Iterable<TenantContext> | AsyncIterable<TenantContext>;
  /** When the worker sweeps: cron of 5 fields, or 6 with seconds first, in UTC. Default null: never. */
  readonly schedule?: string | null;
  /** True: the worker stops before its next batch and history pruning after its batch, and neither begins. Default false. */
  readonly killSwitch?: boolean;
  /** MikroORM context to work in. Default: the unnamed one. */
  readonly contextName?: string;
  /** True: scheduled sweeps are dry runs, mutating sweeps are refused. Default false. */
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
  readonly worker?: {
    /** How long a replica owns the slot that it sweeps without a sign of life, 1 s to 1 h. Default PT30S. */
    readonly slotLease?: DurationOption;
    /** How long the host's shutdown waits for what is in progress, 0 to 1 h. Default PT30S. */
    readonly shutdownTimeout?: DurationOption;
  };
  readonly auditObservers?: {
    /** Longest wait for one observer and event, 1 ms to 1 h. Default PT5S. */
    readonly timeout?: DurationOption;
  };
  /** What of the ledger goes after a while: periods of at least a day, also in months and years. Default null: nothing. */
  readonly historyPruning?: {
    /** Runs that succeeded, with all their handler calls. */
    readonly succeededRunRetention?: DurationOption | null;
    /** Runs that failed, wholly or in part, were cancelled, or have a dead letter. */
    readonly failedRunRetention?: DurationOption | null;
    /** Holds that were released or have expired. Questions about a time before that are then answered "not held". */
    readonly inactiveHoldRetention?: DurationOption | null;
  };
  /** Where the metrics go. Default: there are none. */
  readonly metrics?: {
    /** A registry of prom-client, such as its `register`. */
    readonly registry: Registry;
    /** Adds the label `tenant` to what is counted by run: as many series as there are tenants. Default false. */
    readonly tenantLabel?: boolean;
    /** How often the age of overdue rows and the handler queue are looked at, at most; 1 s to 1 d. Default PT1M. */
    readonly probeInterval?: DurationOption;
  };
  readonly rowHandlerDispatch?: RowHandlerDispatchOptions;
  readonly conventions?: ConventionOptions;
}

/** What `useClass` and `useExisting` of forRootAsync name. */
export interface CohortOptionsFactory {
  createCohortOptions(): Promise<CohortOptions> | CohortOptions;
}

/** What the worker is told by the options. */
export interface WorkerSettings {
  readonly schedule: CronSchedule | null;
  readonly killSwitch: boolean;
  readonly slotLeaseMs: number;
  readonly shutdownTimeoutMs: number;
}

export interface ResolvedOptions {
  readonly settings: EngineSettings;
  readonly worker: WorkerSettings;
  readonly pruning: HistoryRetention;
  readonly metrics: MetricsSettings | null;
  readonly conventions: ConventionNames;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 3600 * SECOND;
const DAY = 24 * HOUR;

/**
 * Checks every option and returns the values in force. Each problem names the key, the value seen and the range. Only
 * what is left out has a default: null is refused like any other wrong value, but where it means "never". The rules and
 * the tenants check themselves.
 */
export function resolveOptions(given: CohortOptions, problems: string[]): ResolvedOptions {
  const options = isObject(given) ? given : ({} as CohortOptions);
  if (options !== given) {
    problems.push(`The options of CohortModule are ${describeValue(given)}; wanted: an object with rules.`);
  }
  complainOfUnknown(options, OPTION_KEYS, '', problems);
  const { whole, duration, bool } = readerOf(options, '', problems);
  if (options.contextName !== undefined && (typeof options.contextName !== 'string' || options.contextName === '')) {
    problems.push(`contextName is ${describeValue(options.contextName)}; wanted: the name of a MikroORM context.`);
  }
  const dispatch = readerOf(section(options, 'rowHandlerDispatch', problems), 'rowHandlerDispatch.', problems);
  const worker = readerOf(section(options, 'worker', problems), 'worker.', problems);
  const observers = readerOf(section(options, 'auditObservers', problems), 'auditObservers.', problems);
  const pruning = readerOf(section(options, 'historyPruning', problems), 'historyPruning.', problems);
  const payloadRetentionMs = dispatch.duration('payloadRetention', 'P30D', HOUR, 3650 * DAY);
  return {
    settings: {
      sweepBatchSize: whole('sweepBatchSize', 5000, 100_000),
      parallelism: whole('parallelism', 1, 16),
      batchTimeoutMs: duration('batchTimeout', 'PT30S', SECOND, HOUR),
      lockTimeoutMs: duration('lockTimeout', 'PT0.5S', 10, 10 * SECOND),
      idleTimeoutMs: duration('idleInTransactionTimeout', 'PT30S', SECOND, HOUR),
      sweepSettleTimeoutMs: dispatch.duration('sweepSettleTimeout', 'PT1H', MINUTE, 7 * DAY),
      observerTimeoutMs: observers.duration('timeout', 'PT5S', 1, HOUR),
      listenUrl: listenUrlOf(options.listenUrl, problems),
      dispatch: {
        pollIntervalMs: dispatch.duration('pollInterval', 'PT10S', 1, DAY),
        batchSize: dispatch.whole('batchSize', 50, 10_000),
        maxParallelism: dispatch.whole('maxParallelism', 4, 256),
        maxAttempts: dispatch.whole('maxAttempts', 10, 1000),
        baseBackoffMs: dispatch.duration('baseBackoff', 'PT1S', 1, DAY),
        maxBackoffMs: dispatch.duration('maxBackoff', 'PT1H', 1, 30 * DAY),
        claimTimeoutMs: dispatch.duration('claimTimeout', 'PT5M', 30 * SECOND, DAY),
        payloadRetentionMs,
        deadLetterPayloadRetentionMs: dispatch.duration(
          'deadLetterPayloadRetention',
          'PT0S',
          0,
          payloadRetentionMs,
          ' (payloadRetention, which no snapshot outlives; raise that as well)',
        ),
      },
      dryRun: bool('dryRun'),
    },
    worker: {
      schedule: scheduleOf(options.schedule, problems),
      killSwitch: bool('killSwitch'),
      slotLeaseMs: worker.duration('slotLease', 'PT30S', SECOND, HOUR),
      shutdownTimeoutMs: worker.duration('shutdownTimeout', 'PT30S', 0, HOUR),
    },
    pruning: {
      succeededRuns: pruning.retention('succeededRunRetention'),
      failedRuns: pruning.retention('failedRunRetention'),
      inactiveHolds: pruning.retention('inactiveHoldRetention'),
    },
    metrics: metricsOf(options, problems),
    conventions: conventionNames(section(options, 'conventions', problems), problems),
  };
}

type Section = Exclude<keyof typeof SECTION_KEYS, 'metrics'>;

const OPTION_KEYS: readonly (keyof CohortOptions)[] = [
  ...(['rules', 'tenants', 'schedule', 'killSwitch', 'contextName', 'dryRun'] as const),
  ...(['sweepBatchSize', 'parallelism', 'batchTimeout', 'lockTimeout', 'idleInTransactionTimeout'] as const),
  ...(['listenUrl', 'worker', 'auditObservers', 'rowHandlerDispatch', 'historyPruning', 'metrics'] as const),
  'conventions',
];
const SECTION_KEYS = {
  worker: ['slotLease', 'shutdownTimeout'],
  auditObservers: ['timeout'],
  rowHandlerDispatch: [
    ...(['pollInterval', 'batchSize', 'maxParallelism', 'maxAttempts', 'baseBackoff', 'maxBackoff'] as const),
    ...(['claimTimeout', 'sweepSettleTimeout', 'payloadRetention', 'deadLetterPayloadRetention'] as const),
  ],
  historyPruning: ['succeededRunRetention', 'failedRunRetention', 'inactiveHoldRetention'],
  metrics: ['registry', 'tenantLabel', 'probeInterval'],
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

/** A section of the options, or an empty one where it is no object. */
function section<K extends Section>(
  options: CohortOptions,
  key: K,
  problems: string[],
): NonNullable<CohortOptions[K]> & object {
  const { [key]: value = {} } = options;
  if (isObject(value)) {
    complainOfUnknown(value, SECTION_KEYS[key], `${key}.`, problems);
    return value as NonNullable<CohortOptions[K]> & object;
  }
  problems.push(`${key} is ${describeValue(value)}; wanted: an object, or nothing for the defaults.`);
  return {} as NonNullable<CohortOptions[K]> & object;
}

/** Reads the values of one section, under their whole names. */
function readerOf(given: object, prefix: string, problems: string[]) {
  const values = given as Readonly<Record<string, unknown>>;
  const complain = (key: string, wanted: string) =>
    problems.push(`${prefix}${key} is ${describeValue(values[key])}; wanted: ${wanted}.`);
  return {
    whole(key: string, fallback: number, max: number): number {
      const { [key]: value = fallback } = values;
      if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max) return value as number;
      complain(key, `a whole number from 1 to ${max}`);
      return fallback;
    },
    duration(key: string, fallback: string, min: number, max: number, whyMax = ''): number {
      const { [key]: value = fallback } = values;
      const ms = toMilliseconds(value);
      if (ms !== undefined && ms >= min && ms <= max) return ms;
      complain(key, `an ISO-8601 duration or milliseconds, from ${min} ms to ${max} ms${whyMax}`);
      return toMilliseconds(fallback)!;
    },
    retention(key: string): string | null {
      const { [key]: value = null } = values;
      const period = value === null ? null : toRetention(value);
      if (period !== undefined) return period;
      complain(key, 'an ISO-8601 duration or milliseconds, at least one day; null keeps all');
      return null;
    },
    bool(key: string): boolean {
      const { [key]: value = false } = values;
      if (typeof value !== 'boolean') complain(key, 'true or false');
      return value === true;
    },
  };
}

function listenUrlOf(value: unknown, problems: string[]): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && /^postgres(ql)?:\/\//.test(value) && URL.canParse(value)) return value;
  // A wrong url may hold a password all the same.
  const seen = typeof value === 'string' ? 'no url' : describeValue(value);
  problems.push(`listenUrl is ${seen}; wanted: postgresql://…, or null.`);
  return null;
}

function scheduleOf(value: unknown, problems: string[]): CronSchedule | null {
  try {
    return parseSchedule(value);
  } catch (error) {
    problems.push(...(error as CohortConfigurationError).problems);
    return null;
  }
}

function metricsOf({ metrics }: CohortOptions, problems: string[]): MetricsSettings | null {
  if (metrics === undefined) return null;
  if (!isObject(metrics)) {
    problems.push(`metrics is ${describeValue(metrics)}; wanted: an object with a registry, or nothing.`);
    return null;
  }
  complainOfUnknown(metrics, SECTION_KEYS.metrics, 'metrics.', problems);
  const { registry } = metrics as Partial<MetricsSettings>;
  const isRegistry = typeof registry?.registerMetric === 'function' && typeof registry.getSingleMetric === 'function';
  if (!isRegistry) problems.push(`metrics.registry is ${describeValue(registry)}; wanted: a Registry of prom-client.`);
  const { bool, duration } = readerOf(metrics, 'metrics.', problems);
  const tenantLabel = bool('tenantLabel');
  const probeIntervalMs = duration('probeInterval', 'PT1M', SECOND, DAY);
  return isRegistry ? { registry, tenantLabel, probeIntervalMs } : null;
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

const ANY_DAY = new Date('2026-03-01T00:00:00Z');
/** The shortest month is longer: the choice of the day makes no difference. */
const A_DAY_BEFORE = new Date(ANY_DAY.getTime() - DAY);

/** A period of at least a day, in canonical spelling; months and years are welcome. */
function toRetention(value: unknown): string | undefined {
  try {
    const duration =
      typeof value === 'number'
        ? Temporal.Duration.from({ milliseconds: value })
        : Temporal.Duration.from(value as string);
    const period = duration.toString();
    return typeof value !== 'object' && before(ANY_DAY, period) <= A_DAY_BEFORE ? period : undefined;
  } catch {
    return undefined;
  }
}
