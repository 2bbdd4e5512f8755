import { CohortConfigurationError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import { type RetentionEntry, tableName } from '../registry/retention-entry.js';
import { selectCascades, selectForeignKeys, selectTables } from '../sql/catalog.js';
import { type ForeignKey, foreignKeyName, isBlocking } from '../sql/foreign-keys.js';
import { type EngineContext, inLedger } from './context.js';

/** What the installed schema says of one retained table. Read at the start of every pass: keys may have been added since. */
export interface TableFacts {
  readonly entry: RetentionEntry;
  /** Every key that points here. */
  readonly incoming: readonly ForeignKey[];
  /** Keys that can keep a row from being deleted, looked at before the mutation. */
  readonly blocking: readonly ForeignKey[];
  /** Retained entities whose rows point here, and so go first. */
  readonly dependents: readonly RetentionEntry[];
  /** Rows of one batch may depend on rows of another, so that lanes would wait for each other. */
  readonly oneLane: boolean;
  /** Whether an index finds a tenant's oldest open rows for a strategy. */
  isServed(strategy: Strategy): boolean;
  /** Why the entity cannot be swept on this schema; empty when it can. */
  readonly problems: readonly string[];
}

/** Reads the catalog for all entries, set-based. */
export async function loadTableFacts(ctx: EngineContext): Promise<ReadonlyMap<RetentionEntry, TableFacts>> {
  const { entries } = ctx.registry;
  return inLedger(ctx, async (tx) => {
    const tables = await selectTables(tx, entries);
    const byOid = new Map(tables.flatMap((table) => (table.oid ? [[table.oid, entries[table.ord]!] as const] : [])));
    const oids = [...byOid.keys()];
    const keys = await selectForeignKeys(tx, oids);
    const cascades = await selectCascades(tx, oids);
    return new Map(
      tables.map((table) => {
        const entry = entries[table.ord]!;
        const incoming = keys
          .filter((key) => key.parentOid === table.oid)
          .map((key) => ({ ...key, child: byOid.get(key.childOid) }));
        const reached = cascades.filter((cascade) => cascade.rootOid === table.oid);
        const mayPurge = ctx.rules.strategiesOf(entry.category).includes(Strategy.Purge);
        const problems = [
          ...(table.oid === null ? [`table ${tableName(entry)} does not exist; apply the pending migrations.`] : []),
          ...(table.hasRules
            ? [`table ${tableName(entry)} has rewrite rules, which change what a mutation does; drop them.`]
            : []),
          ...(mayPurge
            ? reached.map(
                (cascade) =>
                  `a purge would reach ${byOid.get(cascade.reachedOid)!.entityName} through ON DELETE CASCADE (${cascade.path}), past its rules and holds; make that key RESTRICT or NO ACTION.`,
              )
            : []),
        ];
        return [entry, factsOf(entry, incoming, table.anchorIndexes, problems)];
      }),
    );
  });
}

function factsOf(
  entry: RetentionEntry,
  incoming: readonly ForeignKey[],
  anchorIndexes: readonly string[],
  problems: readonly string[],
): TableFacts {
  return {
    entry,
    incoming,
    blocking: incoming.filter(isBlocking),
    dependents: [...new Set(incoming.flatMap((key) => (key.child && !key.selfReference ? [key.child] : [])))],
    oneLane: incoming.some((key) => key.selfReference || !['noAction', 'restrict'].includes(key.action)),
    isServed: (strategy) =>
      anchorIndexes.includes('') ||
      (strategy === Strategy.Anonymise && anchorIndexes.includes(`(${entry.anonymisedAt?.name} IS NULL)`)),
    problems,
  };
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
  return [...facts].flatMap((fact) => fact.blocking.filter((key) => !key.childIndexed).map(foreignKeyName));
}
