import { CohortConfigurationError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import { type RetentionEntry, tableName } from '../registry/retention-entry.js';
import { type ForeignKeyRow, type TableRow, selectForeignKeys, selectTables } from '../sql/catalog.js';
import { type ForeignKey, type KeyPath, isBlocking, keyPathName } from '../sql/foreign-keys.js';
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
  /** Whether policies may hide rows from this role. */
  readonly rowSecurity: boolean;
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
        found.flatMap((table) => table.oid ?? []),
      ),
    };
  });
  const retained = new Map(tables.flatMap((table) => (table.oid ? [[table.oid, entries[table.ord]!] as const] : [])));
  const withChildren = keys.map((key): CatalogKey => ({ ...key, child: retained.get(key.childOid) }));
  return new Map(
    tables.map((table) => {
      const entry = entries[table.ord]!;
      const mayPurge = ctx.rules.strategiesOf(entry.category).includes(Strategy.Purge);
      return [entry, factsOf(entry, table, pathsTo(table.oid, withChildren), mayPurge)];
    }),
  );
}

type CatalogKey = ForeignKey & Pick<ForeignKeyRow, 'parentOid' | 'childOid'>;

/** Every way in which rows point at a table: directly, or behind cascades through tables that are not retained. */
function pathsTo(oid: string | null, keys: readonly CatalogKey[], trail: readonly CatalogKey[] = []): KeyPath[] {
  return keys
    .filter((key) => key.parentOid === oid && !trail.includes(key))
    .flatMap((key) => {
      const path = [...trail, key];
      const goesOn = key.action === 'cascade' && !key.child;
      return [path, ...(goesOn ? pathsTo(key.childOid, keys, path) : [])];
    });
}

function factsOf(entry: RetentionEntry, table: TableRow, paths: readonly KeyPath[], mayPurge: boolean): TableFacts {
  const lastOf = (path: KeyPath) => path.at(-1)!;
  const direct = paths.filter((path) => path.length === 1).map(lastOf);
  return {
    entry,
    blocking: paths.filter((path) => isBlocking(lastOf(path)) && path.every((key) => key.readable)),
    dependents: [...new Set(paths.flatMap((path) => lastOf(path).child ?? []))].filter((child) => child !== entry),
    oneLane: direct.some((key) => key.selfReference || !['noAction', 'restrict'].includes(key.action)),
    isServed: (strategy) =>
      table.anchorIndexes.includes('') ||
      (strategy === Strategy.Anonymise && table.anchorIndexes.includes(`(${entry.anonymisedAt?.name} IS NULL)`)),
    rowSecurity: table.rowSecurity,
    problems: [...shapeProblems(entry, table), ...(mayPurge ? cascadeProblems(paths) : [])],
  };
}

function shapeProblems(entry: RetentionEntry, table: TableRow): string[] {
  const name = `table ${tableName(entry)}`;
  if (table.oid === null) return [`${name} does not exist; apply the pending migrations.`];
  return [
    ...(table.hasRules ? [`${name} has rewrite rules, which change what a mutation does; drop them.`] : []),
    ...(table.hasInheritors
      ? [`${name} has inheriting tables, whose rows a mutation would reach; use partitions.`]
      : []),
  ];
}

function cascadeProblems(paths: readonly KeyPath[]): string[] {
  return paths
    .filter((path) => path.at(-1)!.action === 'cascade' && path.at(-1)!.child)
    .map(
      (path) =>
        `a purge would reach ${path.at(-1)!.child!.entityName} through ON DELETE CASCADE (${keyPathName(path)}), ` +
        'past its rules and holds; make that key RESTRICT or NO ACTION.',
    );
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
