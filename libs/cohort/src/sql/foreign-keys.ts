import { sql } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, allOf, recordIdText, retainedTable } from './fragments.js';
import { heldRecords } from './holds.js';

/** A foreign key that points at a retained table, as the catalog has it. */
export interface ForeignKey {
  readonly constraint: string;
  readonly action: 'noAction' | 'restrict' | 'cascade' | 'setNull' | 'setDefault';
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

/** How a key is named in counts, errors and logs. */
export function foreignKeyName(key: ForeignKey): string {
  return `${key.childSchema}.${key.childTable}.${key.constraint}`;
}

/**
 * True for a row of `t` that must not be deleted because of `key`: some child row points at it, or, for keys that
 * would set the child's column to NULL, some *held* child row does, since a hold keeps every field.
 */
export function blockedBy(key: ForeignKey, entry: RetentionEntry, cohortSchema: string): Fragment {
  const pairs = key.childColumns.map(
    (column, index) => sql`${sql.id('c', column)} = ${sql.id('t', key.parentColumns[index]!)}`,
  );
  const notItself = key.selfReference ? sql`${recordIdText('c', entry)} <> ${recordIdText('t', entry)}` : null;
  const held =
    isNulling(key) && key.child
      ? sql`exists (select 1 from (${heldRecords(cohortSchema, key.child.entityId)}) as held where held.record_id = ${recordIdText('c', key.child)})`
      : null;
  const child = key.child ? retainedTable(key.child) : sql.id(key.childSchema, key.childTable);
  return sql`exists (select 1 from ${child} as c where ${allOf(...pairs, notItself, held)})`;
}

/** Keys that can keep a row from being deleted and that we can look at beforehand. */
export function isBlocking(key: ForeignKey): boolean {
  if (!key.readable) return false;
  return key.action === 'noAction' || key.action === 'restrict' || (isNulling(key) && key.child !== undefined);
}

function isNulling(key: ForeignKey): boolean {
  return key.action === 'setNull' || key.action === 'setDefault';
}
