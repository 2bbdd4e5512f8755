import { sql } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, allOf, recordIdText, retainedTable } from './fragments.js';
import { heldRecords } from './holds.js';
import type { Executor } from './transaction.js';

/** A foreign key that points at a retained table, as the catalog has it. */
export interface ForeignKey {
  readonly constraint: string;
  readonly action: 'noAction' | 'restrict' | 'cascade' | 'setNull' | 'setDefault';
  /** What an update of the parent's column does to the child. */
  readonly updateAction: ForeignKey['action'];
  readonly childSchema: string;
  readonly childTable: string;
  readonly childColumns: readonly string[];
  readonly parentColumns: readonly string[];
  readonly selfReference: boolean;
  /** Whether this role may read every row of the child: SELECT granted, no row-level security in force. */
  readonly readable: boolean;
  readonly childIndexed: boolean;
  /** The child, where it is retained itself. */
  readonly child: RetentionEntry | undefined;
}

/**
 * How a row keeps another from being deleted: a key that restricts, or sets a held row's column to NULL, reached
 * directly or behind cascades through tables that are not retained. The last key is the one that keeps it.
 */
export type KeyPath = readonly ForeignKey[];

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
  return pointedAt(
    path,
    't',
    (alias) => (path[0]!.selfReference ? sql`${recordIdText(alias, entry)} <> ${recordIdText('t', entry)}` : null),
    cohortSchema,
  );
}

function pointedAt(
  [key, ...rest]: KeyPath,
  parent: string,
  extra: (alias: string) => Fragment | null,
  cohortSchema: string,
): Fragment {
  const alias = `c${rest.length}`;
  const pairs = key!.childColumns.map(
    (column, index) => sql`${sql.id(alias, column)} = ${sql.id(parent, key!.parentColumns[index]!)}`,
  );
  const onward =
    rest.length > 0 ? pointedAt(rest, alias, () => null, cohortSchema) : heldChild(key!, alias, cohortSchema);
  return sql`exists (select 1 from ${sql.id(key!.childSchema, key!.childTable)} as ${sql.id(alias)} where ${allOf(...pairs, extra(alias), onward)})`;
}

function heldChild(key: ForeignKey, alias: string, cohortSchema: string): Fragment | null {
  if (!isNulling(key) || !key.child) return null;
  return sql`exists (select 1 from (${heldRecords(cohortSchema, key.child.entityId)}) as held where held.record_id = ${recordIdText(alias, key.child)})`;
}

/** Keys that can keep a row from being deleted and that we can look at beforehand. */
export function isBlocking(key: ForeignKey): boolean {
  if (!key.readable) return false;
  return key.action === 'noAction' || key.action === 'restrict' || (isNulling(key) && key.child !== undefined);
}

/** Keys that change a column of the child when its parent goes, or is renamed. */
export function isNulling(key: ForeignKey): boolean {
  return key.action === 'setNull' || key.action === 'setDefault';
}

/**
 * Locks the rows at the end of a path that the deletion of the given parents would set to NULL. A hold on one of them
 * takes it FOR SHARE: it is waited for here, so that the mutation's younger snapshot sees it, and a later one waits.
 */
export async function lockPathEnds(
  tx: Executor,
  path: KeyPath,
  entry: RetentionEntry,
  parents: Fragment,
): Promise<void> {
  const joins = path.map((key, index) => {
    const [child, parent] = [`c${index}`, index === 0 ? 't' : `c${index - 1}`];
    const pairs = key.childColumns.map(
      (column, each) => sql`${sql.id(child, column)} = ${sql.id(parent, key.parentColumns[each]!)}`,
    );
    return sql`join ${sql.id(key.childSchema, key.childTable)} as ${sql.id(child)} on ${allOf(...pairs)}`;
  });
  await sql`
    select pg_catalog.count(*) from (
      select 1 from ${retainedTable(entry)} as t
      ${sql.join(joins, sql`\n      `)}
      where ${parents}
      for no key update of ${sql.id(`c${path.length - 1}`)}
    ) as ends`.execute(tx);
}
