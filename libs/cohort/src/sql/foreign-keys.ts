import { sql } from 'kysely';
import { COHORT_TABLES } from '../schema/cohort-entities.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, allOf, eq, recordIdText, retainedTable } from './fragments.js';
import { isHeld } from './holds.js';
import type { Executor } from './transaction.js';

/** A foreign key that points at a retained table, as the catalog has it. */
export interface ForeignKey {
  readonly constraint: string;
  readonly action: 'noAction' | 'restrict' | 'cascade' | 'setNull' | 'setDefault';
  /** What an update of the parent's column does to the child. */
  readonly updateAction: ForeignKey['action'];
  /** Whether the child is an ordinary table: a key binds its own rows, not those of tables that inherit from it. */
  readonly childPlain: boolean;
  readonly childSchema: string;
  readonly childTable: string;
  readonly childColumns: readonly string[];
  readonly parentColumns: readonly string[];
  /** Columns that generated ones among the parent's are made of. */
  readonly parentSources: readonly string[];
  /** What stands between each parent column and the child's: the key's own operator, behind a collation where they differ. */
  readonly comparisons: readonly string[];
  /** Whether this role may read every row of the child: SELECT granted, no row-level security in force. */
  readonly readable: boolean;
  /** Whether this role may lock rows of the child. */
  readonly lockable: boolean;
  readonly childIndexed: boolean;
  /** The child, where it is retained itself. */
  readonly child: RetentionEntry | undefined;
}

/**
 * How a row keeps another from being deleted: a key that restricts, or sets a held row's column to NULL, reached
 * directly or behind cascades through tables that are not retained. The last key is the one that keeps it.
 */
export type KeyPath = readonly ForeignKey[];

/** Keys that were there when the facts of a pass were read, and the tables whose keys were looked at; by oid. */
export interface KnownKeys {
  readonly tables: readonly string[];
  readonly keys: readonly string[];
}

/** Keys since then that would carry a deletion or an update on into another table, and policies that would hide holds. */
export function schemaChanges({ tables, keys }: KnownKeys, cohortSchema: string): Fragment {
  const holds = sql`pg_catalog.format('%I.%I', ${cohortSchema}::pg_catalog.text, ${COHORT_TABLES.holds}::pg_catalog.text)`;
  return sql`select 1 where pg_catalog.row_security_active(${holds})
      union all
      select 1 from pg_catalog.pg_constraint as k
      where k.contype ${eq} 'f' and k.conparentid ${eq} 0
        and (k.confdeltype ${eq} any ('{c,n,d}') or k.confupdtype ${eq} any ('{c,n,d}'))
        and k.oid operator(pg_catalog.<>) all (${[...keys]}::pg_catalog.oid[])
        and coalesce(pg_catalog.pg_partition_root(k.confrelid), k.confrelid)::pg_catalog.oid ${eq} any (${[...tables]}::pg_catalog.oid[])
      limit 1`;
}

/** How a path is named in counts, errors and logs: the key that keeps the row, then what leads to it. */
export function keyPathName(path: KeyPath): string {
  return path
    .map((key) => `${key.childSchema}.${key.childTable}.${key.constraint}`)
    .reverse()
    .join(' via ');
}

/**
 * True for a row of `t` that must not be deleted because of `path`: some child row points at it, or, for keys that
 * would set the child's column to NULL, some *held* child row does, since a hold keeps every field.
 */
export function blockedBy(path: KeyPath, entry: RetentionEntry, cohortSchema: string): Fragment {
  return pointedAt(path, 't', entry, cohortSchema);
}

function pointedAt([key, ...rest]: KeyPath, parent: string, entry: RetentionEntry, cohortSchema: string): Fragment {
  const alias = `c${rest.length}`;
  const keeps =
    rest.length > 0
      ? pointedAt(rest, alias, entry, cohortSchema)
      : allOf(notItself(key!, alias, entry), heldChild(key!, alias, cohortSchema));
  return sql`exists (select 1 from ${childOf(key!)} as ${sql.id(alias)} where ${allOf(matches(key!, alias, parent), keeps)})`;
}

function childOf(key: ForeignKey): Fragment {
  const table = sql.id(key.childSchema, key.childTable);
  return key.childPlain ? sql`only ${table}` : table;
}

function matches(key: ForeignKey, child: string, parent: string): Fragment {
  return allOf(
    ...key.childColumns.map(
      (column, index) =>
        sql`${sql.id(parent, key.parentColumns[index]!)} ${sql.raw(key.comparisons[index]!)} ${sql.id(child, column)}`,
    ),
  );
}

/** A row that only points at itself keeps nobody. */
function notItself(key: ForeignKey, alias: string, entry: RetentionEntry): Fragment | null {
  if (key.child?.entityId !== entry.entityId) return null;
  return sql`${recordIdText(alias, entry)} operator(pg_catalog.<>) ${recordIdText('t', entry)}`;
}

function heldChild(key: ForeignKey, alias: string, cohortSchema: string): Fragment | null {
  if (!isNulling(key) || !key.child) return null;
  return isHeld(cohortSchema, key.child, alias);
}

/** Keys that can keep a row from being deleted. */
export function isBlocking(key: ForeignKey): boolean {
  return key.action === 'noAction' || key.action === 'restrict' || (isNulling(key) && key.child !== undefined);
}

/** Keys that change a column of the child when its parent goes, or is renamed. */
export function isNulling(key: ForeignKey): boolean {
  return key.action === 'setNull' || key.action === 'setDefault';
}

/**
 * Locks what the deletion of the given parents would reach along a path whose last key sets a column to NULL. Hop by hop,
 * each in a snapshot of its own: a row that is put behind a cascade meanwhile waits for the locks of the hops before,
 * and a hold on a row at the end, which takes it FOR SHARE, is waited for, so that the mutation sees it.
 */
export async function lockPath(tx: Executor, path: KeyPath, entry: RetentionEntry, parents: Fragment): Promise<void> {
  for (let hop = 0; hop < path.length; hop++)
    await lockHop(tx, path.slice(0, hop + 1), entry, parents, hop < path.length - 1);
}

async function lockHop(
  tx: Executor,
  path: KeyPath,
  entry: RetentionEntry,
  parents: Fragment,
  goesOn: boolean,
): Promise<void> {
  const joins = path.map((key, index) => {
    const child = `c${index}`;
    return sql`join ${childOf(key)} as ${sql.id(child)} on ${matches(key, child, index === 0 ? 't' : `c${index - 1}`)}`;
  });
  await sql`
    select pg_catalog.count(*) from (
      select 1 from ${retainedTable(entry)} as t
      ${sql.join(joins, sql`\n      `)}
      where ${parents}
      ${goesOn ? sql`for update` : sql`for no key update`} of ${sql.id(`c${path.length - 1}`)}
    ) as reached`.execute(tx);
}
