import { sql } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import type { ForeignKey } from './foreign-keys.js';
import type { Executor } from './transaction.js';

export interface TableRow {
  readonly ord: number;
  readonly oid: string | null;
  readonly hasRules: boolean;
  /** Plain inheritance, not partitions: a statement would reach rows of other tables. */
  readonly hasInheritors: boolean;
  readonly rowSecurity: boolean;
  /** Predicates of the indexes that lead with tenant and anchor (or the anchor alone, tenantless); '' for a whole index. */
  readonly anchorIndexes: readonly string[];
}

/** What the catalog says of each retained table, in the order of the entries. */
export async function selectTables(tx: Executor, entries: readonly RetentionEntry[]): Promise<TableRow[]> {
  const leading = entries.map((entry) => (entry.tenant ?? entry.anchor).name);
  const second = entries.map((entry) => (entry.tenant ? entry.anchor.name : null));
  const { rows } = await sql<{
    ord: string;
    oid: string | null;
    rules: boolean;
    inheritors: boolean;
    rls: boolean;
    indexes: string[];
  }>`
    select r.ord, c.oid::pg_catalog.text as oid, coalesce(c.relhasrules, false) as rules,
      c.relkind = 'r' and exists (select 1 from pg_catalog.pg_inherits as h where h.inhparent = c.oid) as inheritors,
      coalesce(c.relrowsecurity and pg_catalog.row_security_active(c.oid), false) as rls,
      array(
        select coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), '')
        from pg_catalog.pg_index as i
        where i.indrelid = c.oid and i.indisvalid and i.indisready
          and pg_catalog.pg_get_indexdef(i.indexrelid, 1, true) = pg_catalog.quote_ident(r.first_column)
          and (r.second_column is null or pg_catalog.pg_get_indexdef(i.indexrelid, 2, true) = pg_catalog.quote_ident(r.second_column))
      ) as indexes
    from rows from (
      pg_catalog.unnest(${entries.map((entry) => entry.schema)}::pg_catalog.text[]),
      pg_catalog.unnest(${entries.map((entry) => entry.table)}::pg_catalog.text[]),
      pg_catalog.unnest(${leading}::pg_catalog.text[]),
      pg_catalog.unnest(${second}::pg_catalog.text[])
    ) with ordinality as r(schema, name, first_column, second_column, ord)
    left join pg_catalog.pg_namespace as n on n.nspname = r.schema
    left join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = r.name and c.relkind in ('r', 'p')
    order by r.ord`.execute(tx);
  return rows.map((row) => ({
    ord: Number(row.ord) - 1,
    oid: row.oid,
    hasRules: row.rules,
    hasInheritors: row.inheritors === true,
    rowSecurity: row.rls,
    anchorIndexes: row.indexes,
  }));
}

export interface ForeignKeyRow extends Omit<ForeignKey, 'child'> {
  readonly parentOid: string;
  readonly childOid: string;
}

const ACTIONS: Readonly<Record<string, ForeignKey['action']>> = {
  a: 'noAction',
  r: 'restrict',
  c: 'cascade',
  n: 'setNull',
  d: 'setDefault',
};

/**
 * Every foreign key that points at one of the tables, or at a table that a delete in one of them reaches by ON DELETE
 * CASCADE. Keys that partitions inherit are left out.
 */
export async function selectForeignKeys(tx: Executor, oids: readonly string[]): Promise<ForeignKeyRow[]> {
  const { rows } = await sql<
    Record<string, string> & { child_columns: string[]; parent_columns: string[]; readable: boolean; indexed: boolean }
  >`
    with recursive reached(oid) as (
      select o from pg_catalog.unnest(${[...oids]}::pg_catalog.oid[]) as o
      union
      select k.conrelid
      from reached as r
      join pg_catalog.pg_constraint as k on k.confrelid = r.oid and k.contype = 'f' and k.confdeltype = 'c' and k.conparentid = 0
    )
    select k.confrelid::pg_catalog.text as parent_oid, k.conrelid::pg_catalog.text as child_oid, k.conname as name,
      n.nspname as schema, c.relname as relation, k.confdeltype as action,
      array(
        select a.attname::pg_catalog.text from pg_catalog.unnest(k.conkey) with ordinality as u(attnum, position)
        join pg_catalog.pg_attribute as a on a.attrelid = k.conrelid and a.attnum = u.attnum order by u.position
      ) as child_columns,
      array(
        select a.attname::pg_catalog.text from pg_catalog.unnest(k.confkey) with ordinality as u(attnum, position)
        join pg_catalog.pg_attribute as a on a.attrelid = k.confrelid and a.attnum = u.attnum order by u.position
      ) as parent_columns,
      pg_catalog.has_table_privilege(k.conrelid, 'select') and not pg_catalog.row_security_active(k.conrelid) as readable,
      exists (
        select 1 from pg_catalog.pg_index as i
        where i.indrelid = k.conrelid and i.indisvalid and i.indpred is null and i.indkey[0] = any(k.conkey)
      ) as indexed
    from pg_catalog.pg_constraint as k
    join pg_catalog.pg_class as c on c.oid = k.conrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where k.contype = 'f' and k.conparentid = 0 and k.confrelid in (select r.oid from reached as r)
    order by n.nspname, c.relname, k.conname`.execute(tx);
  return rows.map((row) => ({
    parentOid: row.parent_oid!,
    childOid: row.child_oid!,
    constraint: row.name!,
    childSchema: row.schema!,
    childTable: row.relation!,
    action: ACTIONS[row.action!]!,
    childColumns: row.child_columns,
    parentColumns: row.parent_columns,
    selfReference: row.parent_oid === row.child_oid,
    readable: row.readable,
    childIndexed: row.indexed,
  }));
}

/** Names of Cohort's own tables that are missing in the schema. */
export async function selectMissingTables(tx: Executor, schema: string, tables: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select r.name
    from pg_catalog.unnest(${[...tables]}::pg_catalog.text[]) as r(name)
    where not exists (
      select 1 from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
      where n.nspname = ${schema} and c.relname = r.name and c.relkind in ('r', 'p')
    )
    order by r.name`.execute(tx);
  return rows.map((row) => row.name);
}

/** The server's deadlock_timeout in milliseconds. */
export async function selectDeadlockTimeout(tx: Executor): Promise<number> {
  const { rows } = await sql<{ ms: string }>`
    select s.setting as ms from pg_catalog.pg_settings as s where s.name = 'deadlock_timeout'`.execute(tx);
  return Number(rows[0]!.ms);
}
