import { sql } from 'kysely';
import { columnOf, millis, recordIdText, retainedTable } from './fragments.js';
import {
  type Exclusions,
  type LockedRows,
  type Selection,
  eligible,
  isLocked,
  runColumns,
  tenantRows,
} from './selection.js';
import type { RowPlace } from './mutate.js';
import type { Executor } from './transaction.js';

/** A column of an entity: by name, or by the ORM's own expression for a type that is converted in SQL. */
export interface EntityColumn {
  readonly name: string;
  readonly expression: string | undefined;
}

/** The name by which the expressions of entity columns know the table. */
export const ENTITY_ALIAS = 't';

/** A locked row as its entity's handlers see it. */
export interface EntityRow extends RowPlace {
  /** Its tenant, as an index into the slices. */
  readonly slice: number;
  readonly recordId: string;
  /** Column name to value, as the driver reads it. */
  readonly columns: Readonly<Record<string, unknown>>;
}

/**
 * The locked rows with all of their columns, in the order in which they are handled, and the instant of reading. The
 * columns are listed: a system column such as xmin is in no `*`. A hold that was committed just before the lock is seen here.
 */
export async function selectEntityRows(
  tx: Executor,
  selection: Selection,
  locked: LockedRows,
  exclusions: Exclusions,
  columns: readonly EntityColumn[],
): Promise<{ readonly rows: EntityRow[]; readonly at: Date | null }> {
  const { entry } = selection;
  const values = columns.map(({ name, expression }, index) => {
    const value = expression === undefined ? columnOf(ENTITY_ALIAS, { name }) : sql.raw(expression);
    return sql`, ${value} as ${sql.id(`value${index}`)}`;
  });
  const { rows } = await sql<Record<string, unknown> & Record<'tid' | 'oid' | 'ord' | 'record_id' | 'at', string>>`
    select t.ctid::pg_catalog.text as tid, t.tableoid::pg_catalog.text as oid, p.ord, ${recordIdText('t', entry)} as record_id,
      ${millis(sql`pg_catalog.statement_timestamp()`)} as at ${sql.join(values, sql``)}
    from (${tenantRows(selection, runColumns(selection, exclusions))}) as p
    join ${retainedTable(entry)} as t on ${isLocked(locked)} and ${eligible(selection, exclusions)}
    order by ${columnOf('t', entry.anchor)}, ${columnOf('t', entry.recordId)}`.execute(tx);
  return {
    at: rows[0] ? new Date(Number(rows[0].at)) : null,
    rows: rows.map((row) => ({
      tid: row.tid,
      oid: row.oid,
      slice: Number(row.ord) - 1,
      recordId: row.record_id,
      columns: Object.fromEntries(columns.map(({ name }, index) => [name, row[`value${index}`]])),
    })),
  };
}
