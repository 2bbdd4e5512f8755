import { CohortConfigurationError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import { type RetainedColumn, type RetentionEntry, tableName } from '../registry/retention-entry.js';
import { COHORT_TABLES } from '../schema/cohort-entities.js';
import { type ForeignKeyRow, type TableRow, selectForeignKeys, selectTables } from '../sql/catalog.js';
import { selectUnknownScopes } from '../sql/holds.js';
import { selectOwnTables } from '../sql/own-tables.js';
import {
  type ForeignKey,
  type KeyPath,
  type KnownKeys,
  isBlocking,
  isNulling,
  keyPathName,
} from '../sql/foreign-keys.js';
import { type EngineContext, inLedger } from './context.js';

/** What the installed schema says of one retained table. Read at the start of every pass: keys may have been added since. */
export interface TableFacts {
  readonly entry: RetentionEntry;
  /** What can keep a row from being deleted, looked at before the mutation. */
  readonly blocking: readonly KeyPath[];
  /** Retained entities whose rows point here, and so go first. */
  readonly dependents: readonly RetentionEntry[];
  /** Rows of one batch may depend on rows of another, so that lanes would wait for each other. */
  readonly oneLane: boolean;
  /** Whether an index finds a tenant's oldest open rows for a strategy. */
  isServed(strategy: Strategy): boolean;
  /** Whether triggers of the host's may undo what a batch did. */
  readonly hasTriggers: boolean;
  /** The keys that were looked at: a batch changes nothing once another has been added that would carry its changes on. */
  readonly knownKeys: KnownKeys;
  /** Why the entity cannot be swept on this schema; empty when it can. */
  readonly problems: readonly string[];
}

/** Reads the catalog for all entries, set-based. */
export async function loadTableFacts(ctx: EngineContext): Promise<ReadonlyMap<RetentionEntry, TableFacts>> {
  const { entries } = ctx.registry;
  const { tables, keys } = await inLedger(ctx, async (tx) => {
    const found = await selectTables(tx, entries);
    return {
      tables: found,
      keys: await selectForeignKeys(
        tx,
        found.flatMap((table) => table.rootOid ?? []),
      ),
    };
  });
  const retained = new Map(tables.map((table) => [table.rootOid, entries[table.ord]!]));
  const knownKeys = knownKeysOf(tables, keys);
  const withChildren = keys.map((key): CatalogKey => ({ ...key, child: retained.get(key.childRootOid) }));
  return new Map(
    tables.map((table) => {
      const entry = entries[table.ord]!;
      const sharing = tables.filter(
        (other) => other !== table && other.rootOid !== null && other.rootOid === table.rootOid,
      );
      const problems = [
        ...shapeProblems(entry, table),
        ...privilegeProblems(entry, table, ctx.rules.strategiesOf(entry.category)),
        ...sharing.map(
          (other) =>
            `table ${tableName(entry)} and that of ${entries[other.ord]!.entityName} are partitions of one table; retain one of them.`,
        ),
      ];
      const paths = firstPathsTo(table.rootOid, withChildren);
      if (paths.length > MOST_PATHS)
        problems.push(
          `more than ${MOST_PATHS} ways lead from table ${tableName(entry)} through cascades; make some of those keys RESTRICT or NO ACTION.`,
        );
      const strategies = ctx.rules.strategiesOf(entry.category);
      if (strategies.includes(Strategy.Purge)) problems.push(...purgeProblems(paths, withChildren));
      problems.push(...updateProblems(entry, table, strategies, withChildren));
      return [entry, { ...factsOf(entry, table, paths, problems), knownKeys }];
    }),
  );
}

type CatalogKey = ForeignKey & Pick<ForeignKeyRow, 'parentRootOid' | 'childRootOid'>;

function knownKeysOf(tables: readonly TableRow[], keys: readonly ForeignKeyRow[]): KnownKeys {
  const roots = [...tables.flatMap((table) => table.rootOid ?? []), ...keys.map((key) => key.childRootOid)];
  return { tables: [...new Set(roots)], keys: keys.map((key) => key.oid) };
}

/** Each is a condition of every statement; two keys each over eight levels make 510 of them, which the server refuses. */
const MOST_PATHS = 100;

/** All of them, or one more than there may be: there can be more than anybody could wait for. */
function firstPathsTo(oid: string | null, keys: readonly CatalogKey[]): CatalogKey[][] {
  const paths: CatalogKey[][] = [];
  for (const path of pathsTo(oid, keys)) {
    paths.push(path);
    if (paths.length > MOST_PATHS) break;
  }
  return paths;
}

/** Every way in which rows point at a table: directly, or behind cascades through tables that are not retained. */
function* pathsTo(
  oid: string | null,
  keys: readonly CatalogKey[],
  trail: readonly CatalogKey[] = [],
): Generator<CatalogKey[], undefined> {
  for (const key of keys) {
    if (key.parentRootOid !== oid || trail.includes(key)) continue;
    const path = [...trail, key];
    yield path;
    if (key.action === 'cascade' && !key.child) yield* pathsTo(key.childRootOid, keys, path);
  }
}

function factsOf(
  entry: RetentionEntry,
  table: TableRow,
  paths: readonly (readonly CatalogKey[])[],
  problems: readonly string[],
): Omit<TableFacts, 'knownKeys'> {
  const direct = paths.filter((path) => path.length === 1).map(endOf);
  // A key between two tables that cascades empty, such as from a customer's orders to the addresses of the same customer:
  // one statement takes both of its ends, or only one, and the database alone can tell.
  const emptied = new Set(paths.map(endOf).flatMap((key) => (key.action === 'cascade' ? key.childRootOid : [])));
  return {
    entry,
    blocking: paths.filter(
      (path) =>
        isBlocking(endOf(path)) &&
        path.every((key) => key.readable) &&
        !(path.length > 1 && emptied.has(endOf(path).childRootOid)),
    ),
    dependents: [...new Set(paths.flatMap((path) => endOf(path).child ?? []))].filter((child) => child !== entry),
    oneLane: direct.some((key) => key.child === entry || !['noAction', 'restrict'].includes(key.action)),
    hasTriggers: table.hasTriggers,
    isServed: (strategy) =>
      table.anchorIndexes.includes('') ||
      (strategy === Strategy.Anonymise && table.anchorIndexes.includes(`(${entry.anonymisedAt?.name} IS NULL)`)),
    problems,
  };
}

/** The key that reaches the rows in question. */
function endOf<Key extends ForeignKey>(path: readonly Key[]): Key {
  return path.at(-1)!;
}

/** MikroORM leaves this schema out of its statements, even where an entity names it. */
const UNQUALIFIED = 'public';

function shapeProblems(entry: RetentionEntry, table: TableRow): string[] {
  const name = `table ${tableName(entry)}`;
  if (table.oid === null) return [`${name} does not exist; apply the pending migrations.`];
  return [
    ...(entry.schema === UNQUALIFIED && table.shadowedBy !== null
      ? [
          `the application's own statements find table ${table.shadowedBy} by the search_path, and ${name} is another one; name that schema in the entity or in MikroORM's configuration, or put ${UNQUALIFIED} first in the search_path.`,
        ]
      : []),
    ...(table.hasRules ? [`${name} has rewrite rules, which change what a mutation does; drop them.`] : []),
    ...(table.hasInheritors
      ? [`${name} has inheriting tables, whose rows a mutation would reach; use partitions.`]
      : []),
    ...(table.rowSecurity ? [rowSecurityProblem(name)] : []),
  ];
}

/** Rows are read, locked by FOR UPDATE, and changed or deleted. */
function privilegeProblems(entry: RetentionEntry, table: TableRow, strategies: readonly Strategy[]): string[] {
  const needed = ['select', 'update', ...(strategies.includes(Strategy.Purge) ? ['delete'] : [])];
  const lacking = needed.filter((privilege) => table.lacking.includes(privilege));
  if (table.oid === null || lacking.length === 0 || strategies.every((each) => each === Strategy.Exempt)) return [];
  return [`this role may not ${lacking.join(', ')} table ${tableName(entry)}; grant it.`];
}

/** Rows that a policy hides would never be swept, and nobody would know. */
function rowSecurityProblem(table: string): string {
  return `${table} is under row-level security, which hides rows from this role; use a role with BYPASSRLS, or the table's owner without FORCE.`;
}

function purgeProblems(paths: readonly CatalogKey[][], keys: readonly CatalogKey[]): string[] {
  return paths.flatMap((path) => {
    const { child, action, childRootOid, childColumns } = endOf(path);
    const name = keyPathName(path);
    if (action === 'cascade') {
      return child
        ? [
            `a purge would reach ${child.entityName} through ON DELETE CASCADE (${name}), past its rules and holds; make that key RESTRICT or NO ACTION.`,
          ]
        : [];
    }
    if (!isNulling(endOf(path))) return [];
    if (!child) return updatesOf(childRootOid, childColumns, keys).map((end) => updateProblem('a purge', end));
    if (!path.every((key) => key.readable && key.lockable)) {
      return [
        `a purge would change held rows of ${child.entityName} (${name}), and this role may not read all tables on that way; grant it SELECT and UPDATE.`,
      ];
    }
    // A tree of unknown depth: what hangs on it cannot be looked at beforehand.
    return new Set(path.map((key) => key.childRootOid)).size < path.length
      ? [
          `a purge would change held rows of ${child.entityName} through tables that cascade in a circle (${name}); make one of these keys RESTRICT or NO ACTION.`,
        ]
      : [];
  });
}

function updateProblems(
  entry: RetentionEntry,
  table: TableRow,
  strategies: readonly Strategy[],
  keys: readonly CatalogKey[],
): string[] {
  const written = (what: string, columns: readonly (RetainedColumn | null)[]) => {
    const names = columns.flatMap((column) => column?.name ?? []);
    return updatesOf(table.rootOid, names, keys).map((end) => updateProblem(what, end));
  };
  const scrubbed = entry.scrubs.map((scrub) => scrub.column);
  return [
    ...(strategies.includes(Strategy.SoftDelete)
      ? written('soft deletion', [entry.softDeleteFlag, entry.deletedAt])
      : []),
    ...(strategies.includes(Strategy.Anonymise) ? written('anonymising', [entry.anonymisedAt, ...scrubbed]) : []),
  ];
}

/** Keys by which a change of the given columns would change a column of a retained table. */
function updatesOf(
  oid: string | null,
  columns: readonly string[],
  keys: readonly CatalogKey[],
  seen: readonly CatalogKey[] = [],
): CatalogKey[] {
  return keys
    .filter((key) => key.parentRootOid === oid && !seen.includes(key))
    .filter((key) => !['noAction', 'restrict'].includes(key.updateAction))
    .filter((key) => [...key.parentColumns, ...key.parentSources].some((column) => columns.includes(column)))
    .flatMap((key) => (key.child ? [key] : updatesOf(key.childRootOid, key.childColumns, keys, [...seen, key])));
}

function updateProblem(what: string, key: ForeignKey): string {
  return `${what} would change ${key.child!.entityName} through ON UPDATE (${keyPathName([key])}), past its rules and holds; make that key NO ACTION.`;
}

/** Entities with dependents before principals, ties by name. A cycle has no such order and is refused. */
export function orderByForeignKeys(facts: ReadonlyMap<RetentionEntry, TableFacts>): RetentionEntry[] {
  const ordered: RetentionEntry[] = [];
  const visiting: RetentionEntry[] = [];
  const visit = (entry: RetentionEntry) => {
    if (ordered.includes(entry)) return;
    if (visiting.includes(entry)) {
      const cycle = [...visiting.slice(visiting.indexOf(entry)), entry].map((each) => each.entityName).join(' < ');
      throw new CohortConfigurationError([
        `Retained entities form a cycle of foreign keys (${cycle}): no order removes dependents first. Break it.`,
      ]);
    }
    visiting.push(entry);
    byName(facts.get(entry)!.dependents).forEach(visit);
    visiting.pop();
    ordered.push(entry);
  };
  byName([...facts.keys()]).forEach(visit);
  return ordered;
}

function byName(entries: readonly RetentionEntry[]): RetentionEntry[] {
  return [...entries].sort((a, b) => (a.entityName < b.entityName ? -1 : 1));
}

/** Keys that make every delete of a parent scan the child. */
export function unindexedKeys(facts: Iterable<TableFacts>): string[] {
  const keys = [...facts].flatMap((fact) => fact.blocking.flat()).filter((key) => !key.childIndexed);
  return [...new Set(keys.map((key) => keyPathName([key])))];
}

/** What keeps Cohort's own tables from being used; asked before every pass, since policies may be added at any time. */
export async function ownTableProblems(ctx: EngineContext): Promise<string[]> {
  const { cohortSchema } = ctx.registry;
  const tables = await inLedger(ctx, (tx) => selectOwnTables(tx, cohortSchema, Object.values(COHORT_TABLES)));
  return tables.flatMap(({ name, exists, rowSecurity }) => {
    if (!exists) return [`Table "${cohortSchema}"."${name}" does not exist; apply the pending migrations.`];
    return rowSecurity ? [rowSecurityProblem(`Table "${cohortSchema}"."${name}"`)] : [];
  });
}

/** Active holds that cannot be honoured. Asked before every pass: a newer version may place them at any time. */
export async function scopeProblems(ctx: EngineContext): Promise<string[]> {
  const scopes = await inLedger(ctx, (tx) => selectUnknownScopes(tx, ctx.registry.cohortSchema));
  return scopes.map(
    (scope) =>
      `There are active holds of scope '${scope}', which this version cannot honour; wanted: 'record'. Upgrade every replica before such holds are placed.`,
  );
}
