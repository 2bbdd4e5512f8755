import { type MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { CohortConfigurationError, describeValue } from '../cohort.errors.js';
import type { CohortOptions, ResolvedOptions } from '../cohort.options.js';
import { Strategy } from '../domain/strategy.js';
import type { Meter } from '../domain/meter.js';
import type { TenantContext } from '../domain/tenant-context.js';
import { RetentionRuleProvider } from '../domain/rule-provider.js';
import { RetentionTenantSource } from '../domain/tenant-source.js';
import { StaticRuleProvider } from '../domain/static-rules.js';
import {
  type EngineContext,
  type EngineLogger,
  type DispatchProbe,
  type Probe,
  inLedger,
  poolSize,
} from '../engine/context.js';
import { sqlStateOf } from '../engine/failure.js';
import { openRuleBook } from '../engine/rule-book.js';
import {
  loadTableFacts,
  orderByForeignKeys,
  ownTableProblems,
  scopeProblems,
  unindexedKeys,
} from '../engine/table-facts.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { CohortMetrics } from '../metrics/cohort-metrics.js';
import { buildRegistry, withEntries } from '../registry/retention-registry.js';
import { RetentionSettings } from '../retention-settings.js';
import { COHORT_TABLES } from '../schema/cohort-entities.js';
import { selectDeadlockTimeout, selectTables } from '../sql/catalog.js';
import { type ColumnRow, castText, selectColumns, selectUniqueIndexes } from '../sql/columns.js';
import { selectInstalled } from '../sql/own-tables.js';
import { checkColumns, columnsOf, withInstalled } from './check-columns.js';
import { resolveFactories } from './check-factories.js';
import { type HostProvider, resolveHandlers, resolveObservers } from './check-providers.js';
import { lockProblems } from './prove-locks.js';
import { checkContract } from './schema-contract.js';
import { checkStrategies } from './check-strategies.js';
import { checkRecordIdIsUnique, checkScrubsStayUnique, reservedByTrash } from './check-uniqueness.js';

/** Every instance of exactly this class among the host's own providers. */
export type FindInstances = (type: object) => readonly unknown[];

export interface ReadinessInput {
  readonly orm: MikroORM;
  readonly options: CohortOptions;
  readonly logger: EngineLogger;
  readonly newId: () => string;
  readonly findInstances: FindInstances;
  /** All of the host's providers, for those that a decorator marks. Default: none. */
  readonly providers?: (() => readonly HostProvider[]) | undefined;
  readonly probe?: Probe | undefined;
  readonly dispatchProbe?: DispatchProbe | undefined;
}

/**
 * Guards every operation: configuration, model and installed schema are checked before the first, all problems in one
 * error. A success is remembered for the life of the process, a failure never, so that an operator can mend the schema
 * and try again. Concurrent first callers share one check.
 */
export class Readiness {
  #ready: Promise<EngineContext> | undefined;
  readonly settings: RetentionSettings;

  readonly #meter: CohortMetrics | undefined;

  constructor(private readonly input: ReadinessInput) {
    this.settings = new RetentionSettings(input.options);
    const { metrics } = this.settings.inForce;
    // Once, and not at every attempt: a registry takes each name only once.
    this.#meter = metrics ? new CohortMetrics(metrics) : undefined;
  }

  context(): Promise<EngineContext> {
    this.#ready ??= this.#check().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #check(): Promise<EngineContext> {
    const problems: string[] = [];
    const ctx = await checkTables(checkModel(this.input, this.settings, this.#meter), problems);
    await checkSchema(ctx, this.settings.inForce, problems);
    if (problems.length > 0) throw new CohortConfigurationError(problems);
    this.#meter?.watch(ctx);
    return ctx;
  }
}

/** Everything that needs no database. */
function checkModel(input: ReadinessInput, live: RetentionSettings, meter: Meter | undefined): EngineContext {
  const { orm, options, logger, newId, findInstances, providers, probe, dispatchProbe } = input;
  const driver: object = orm.driver;
  if (!(driver instanceof PostgreSqlDriver)) {
    throw new CohortConfigurationError([
      `The MikroORM driver is ${driver.constructor.name}; Cohort works on PostgreSQL (@mikro-orm/postgresql).`,
    ]);
  }
  const problems: string[] = [...live.problems];
  const { settings, conventions } = live.inForce;
  const provider = collect(problems, () => ruleProviderOf(options?.rules, findInstances));
  const tenants = collect(problems, () => tenantSourceOf(options?.tenants, findInstances));
  const registry = buildRegistry(orm, conventions, problems);
  problems.push(...live.require((resolved) => scheduleProblems(resolved, registry.entries, options?.tenants)));
  checkPool(orm, settings.parallelism, problems);
  if (orm.config.get('sessionContext') === 'connection') {
    problems.push(
      "MikroORM's sessionContext is 'connection', which would put Cohort's own connections under the caller's role and variables; use 'transaction'.",
    );
  }
  const { query_timeout: queryTimeout } = (orm.config.get('driverOptions') ?? {}) as { query_timeout?: unknown };
  if (queryTimeout) {
    problems.push(
      `driverOptions.query_timeout is ${describeValue(queryTimeout)}: the driver would stop waiting and hand on a connection with our transaction still open; use statement_timeout.`,
    );
  }
  const rules = provider && openRuleBook(provider, registry, problems);
  if (rules)
    for (const entry of registry.entries) problems.push(...checkStrategies(entry, rules.strategiesOf(entry.category)));
  const strategiesOf = (category: string) => rules?.strategiesOf(category) ?? [];
  const factories = resolveFactories(registry.entries, strategiesOf, findInstances, problems);
  const marked = providers?.() ?? [];
  const handlers = resolveHandlers(registry, marked, problems);
  const observers = resolveObservers(marked, problems);
  if (problems.length > 0 || !rules) throw new CohortConfigurationError(problems);
  return {
    ...{ orm, registry, rules, settings, tenants, factories, handlers, observers },
    ...{ logger, newId, probe, dispatchProbe, meter },
  };
}

function ruleProviderOf(rules: CohortOptions['rules'], findInstances: FindInstances): RetentionRuleProvider {
  if (rules instanceof RetentionRuleProvider) return rules;
  if (typeof rules !== 'function') return new StaticRuleProvider(rules);
  const [instance, ...others] = findInstances(rules);
  if (instance instanceof RetentionRuleProvider && others.length === 0) return instance;
  throw new CohortConfigurationError([
    `rules is the class ${rules.name}; wanted: a RetentionRuleProvider that is registered once, in the default scope (seen: ${others.length + Number(instance !== undefined)}).`,
  ]);
}

function tenantSourceOf(
  tenants: CohortOptions['tenants'],
  findInstances: FindInstances,
): RetentionTenantSource | undefined {
  if (tenants === undefined || tenants instanceof RetentionTenantSource) return tenants;
  if (typeof tenants === 'function') {
    const [instance, ...others] = findInstances(tenants);
    if (instance instanceof RetentionTenantSource && others.length === 0) return instance;
    throw new CohortConfigurationError([
      `tenants is the class ${tenants.name}; wanted: a RetentionTenantSource that is registered once, in the default scope (seen: ${others.length + Number(instance !== undefined)}).`,
    ]);
  }
  if (isRepeatable(tenants)) return new ListedTenants(tenants);
  throw new CohortConfigurationError([
    `tenants is ${describeValue(tenants)}; wanted: a RetentionTenantSource, its class, or a list that can be read again for every slot (a generator cannot).`,
  ]);
}

type TenantList = Iterable<TenantContext> | AsyncIterable<TenantContext>;

class ListedTenants extends RetentionTenantSource {
  constructor(private readonly list: TenantList) {
    super();
  }

  override tenants(): TenantList {
    return this.list;
  }
}

/** An iterator that iterates over itself is at its end after the first slot. */
function isRepeatable(list: unknown): list is TenantList {
  if (typeof list !== 'object' || list === null) return false;
  const { [Symbol.asyncIterator]: async, [Symbol.iterator]: sync } = list as Partial<
    Iterable<unknown> & AsyncIterable<unknown>
  >;
  return typeof (async ?? sync) === 'function' && !('next' in list);
}

/** A schedule is of no use to entities of tenants that nobody names. */
function scheduleProblems(
  { worker }: ResolvedOptions,
  entries: readonly RetentionEntry[],
  tenants: CohortOptions['tenants'],
): string[] {
  const tenanted = entries.find((entry) => entry.tenant !== null);
  if (!worker.schedule || tenants !== undefined || !tenanted) return [];
  return [
    `schedule is '${worker.schedule.source}', but nothing says whose rows are swept; wanted: tenants, a RetentionTenantSource, for ${tenanted.entityName} and every other entity with a tenant.`,
  ];
}

/** The model's columns as they are installed. Tables that do not exist are left to the check of the schema. */
async function checkTables(ctx: EngineContext, problems: string[]): Promise<EngineContext> {
  const { entries } = ctx.registry;
  const asked = entries.flatMap((entry) => columnsOf(entry).map((column) => ({ entry, column })));
  const { tables, columns, indexes } = await inLedger(ctx, async (tx) => ({
    tables: await selectTables(tx, entries),
    columns: await selectColumns(
      tx,
      asked.map(({ entry, column }) => ({ schema: entry.schema, table: entry.table, column: column.name })),
    ),
    indexes: await selectUniqueIndexes(tx, entries),
  }));
  const installed = new Map(entries.map((entry) => [entry, new Map<string, ColumnRow>()]));
  for (const row of columns) {
    const { entry, column } = asked[row.ord]!;
    installed.get(entry)!.set(column.name, row);
  }
  const located = entries.map((entry, table) => {
    const found = installed.get(entry)!;
    if (tables[table]!.oid === null) return entry;
    const own = indexes.filter((index) => index.table === table);
    const strategies = ctx.rules.strategiesOf(entry.category);
    problems.push(...checkColumns(entry, found, strategies), ...checkRecordIdIsUnique(entry, own));
    if (strategies.includes(Strategy.Anonymise)) problems.push(...checkScrubsStayUnique(entry, own, ctx.factories));
    reservedByTrash(entry, own, strategies).forEach((warning) => ctx.logger.warn(warning));
    return withInstalled(entry, found, tables[table]!.partitioned);
  });
  const ready = { ...ctx, registry: withEntries(ctx.registry, located) };
  if (problems.length === 0) await checkLiterals(ready, problems);
  return ready;
}

/** Literals that an enumeration or a domain does not take. */
async function checkLiterals(ctx: EngineContext, problems: string[]): Promise<void> {
  for (const entry of ctx.registry.entries) {
    if (!ctx.rules.strategiesOf(entry.category).includes(Strategy.Anonymise)) continue;
    for (const scrub of entry.scrubs) {
      if (!('literal' in scrub) || scrub.literal === undefined) continue;
      const { column, literal } = scrub;
      await inLedger(ctx, (tx) => castText(tx, column, literal)).catch((error: unknown) => {
        if (!/^2[23]/.test(sqlStateOf(error) ?? '')) throw error;
        problems.push(
          `${entry.entityName}: '${column.property}' would be anonymised to ${describeValue(literal)}, which is no value of its type ${column.type}.`,
        );
      });
    }
  }
}

/** Everything that only the database can tell. Nothing is ever created or altered. */
async function checkSchema(ctx: EngineContext, { pruning }: ResolvedOptions, problems: string[]): Promise<void> {
  const deadlockTimeoutMs = await inLedger(ctx, selectDeadlockTimeout);
  const { lockTimeoutMs } = ctx.settings;
  const facts = await loadTableFacts(ctx);
  const installed = await inLedger(ctx, (tx) =>
    selectInstalled(tx, ctx.registry.cohortSchema, Object.values(COHORT_TABLES)),
  );
  const isPruned = Object.values(pruning).some((period) => period !== null);
  const model = [...ctx.orm.getMetadata().getAll().values()];
  const contract = checkContract(model, ctx.registry.cohortSchema, installed, isPruned);
  problems.push(
    ...(lockTimeoutMs < deadlockTimeoutMs
      ? []
      : [
          `lockTimeout is ${lockTimeoutMs} ms; wanted: less than the server's deadlock_timeout (${deadlockTimeoutMs} ms), so that a batch gives way before the server picks a victim.`,
        ]),
    ...(await lockProblems(ctx)),
    ...(await ownTableProblems(ctx)),
    ...contract.problems,
    ...[...facts.values()].flatMap((fact) => fact.problems.map((problem) => `${fact.entry.entityName}: ${problem}`)),
  );
  collect(problems, () => orderByForeignKeys(facts));
  if (problems.length === 0) problems.push(...(await scopeProblems(ctx)));
  contract.warnings.forEach((warning) => ctx.logger.warn(warning));
  for (const key of unindexedKeys(facts.values()))
    ctx.logger.warn(`Foreign key ${key} has no index on its own columns; every purge scans that table.`);
}

/** Lanes, the heartbeat and one probe must never wait for each other's connections. */
function checkPool(orm: MikroORM, parallelism: number, problems: string[]): void {
  const max = poolSize(orm);
  if (max < parallelism + 2) {
    problems.push(
      `The connection pool holds ${max}; wanted: at least ${parallelism + 2} (parallelism ${parallelism} and two more). Raise pool.max of MikroORM.`,
    );
  }
}

function collect<T>(problems: string[], make: () => T): T | undefined {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof CohortConfigurationError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}
