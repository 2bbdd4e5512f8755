import { sql } from 'kysely';
import { eq, isEnforced, madeOf } from './fragments.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import type { ForeignKey } from './foreign-keys.js';
import type { Executor } from './transaction.js';

export interface TableRow {
  readonly ord: number;
  readonly oid: string | null;
  readonly partitioned: boolean;
  /** The table that its bare name finds by the search_path, if another one. */
  readonly shadowedBy: string | null;
  /** What this role may not do with it: 'select', 'update', 'delete'. */
  readonly lacking: readonly string[];
  /** The top of its partition tree; itself where it is no partition. */
  readonly rootOid: string | null;
  readonly hasRules: boolean;
  /** Plain inheritance, not partitions: a statement would reach rows of other tables. */
  readonly hasInheritors: boolean;
  readonly rowSecurity: boolean;
  /** Whether a trigger of the host's may change, undo or add to what a mutation does. */
  readonly hasTriggers: boolean;
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
    partitioned: boolean;
    shadowed_by: string | null;
    lacking: string[];
    rules: boolean;
    inheritors: boolean;
    rls: boolean;
    root: string | null;
    triggers: boolean;
    indexes: string[];
  }>`
    select r.ord, c.oid::pg_catalog.text as oid, coalesce(c.relkind ${eq} 'p', false) as partitioned,
      case when pg_catalog.to_regclass(pg_catalog.quote_ident(r.name)) operator(pg_catalog.<>) c.oid
        then (select pg_catalog.format('%I.%I', v.nspname, s.relname) from pg_catalog.pg_class as s
          join pg_catalog.pg_namespace as v on v.oid ${eq} s.relnamespace
          where s.oid ${eq} pg_catalog.to_regclass(pg_catalog.quote_ident(r.name))) end as shadowed_by,
      array(
        select p.name from pg_catalog.unnest(array['select', 'update', 'delete']) as p(name)
        where not pg_catalog.has_table_privilege(c.oid, p.name)
          and (p.name ${eq} 'delete' or not pg_catalog.has_any_column_privilege(c.oid, p.name))
      ) as lacking,
      coalesce(pg_catalog.pg_partition_root(c.oid), c.oid)::pg_catalog.oid::pg_catalog.text as root, exists (select 1 from pg_catalog.pg_rewrite as w where w.ev_class ${eq} c.oid) as rules,
      c.relkind ${eq} 'r' and exists (select 1 from pg_catalog.pg_inherits as h where h.inhparent ${eq} c.oid) as inheritors,
      coalesce(c.relrowsecurity and pg_catalog.row_security_active(c.oid), false) as rls,
      exists (
        select 1 from pg_catalog.pg_trigger as g
        where not g.tgisinternal and g.tgenabled operator(pg_catalog.<>) 'D'
          and coalesce(pg_catalog.pg_partition_root(g.tgrelid), g.tgrelid) ${eq} coalesce(pg_catalog.pg_partition_root(c.oid), c.oid)
      ) as triggers,
      array(
        select coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), '')
        from pg_catalog.pg_index as i
        where i.indrelid ${eq} c.oid and i.indisvalid and i.indisready
          and exists (
            select 1 from pg_catalog.pg_attribute as a
            where a.attrelid ${eq} c.oid and a.attnum ${eq} i.indkey[0] and a.attname ${eq} r.first_column
          )
          and (r.second_column is null or exists (
            select 1 from pg_catalog.pg_attribute as a
            where a.attrelid ${eq} c.oid and a.attnum ${eq} i.indkey[1] and a.attname ${eq} r.second_column
          ))
      ) as indexes
    from rows from (
      pg_catalog.unnest(${entries.map((entry) => entry.schema)}::pg_catalog.text[]),
      pg_catalog.unnest(${entries.map((entry) => entry.table)}::pg_catalog.text[]),
      pg_catalog.unnest(${leading}::pg_catalog.text[]),
      pg_catalog.unnest(${second}::pg_catalog.text[])
    ) with ordinality as r(schema, name, first_column, second_column, ord)
    left join pg_catalog.pg_namespace as n on n.nspname ${eq} r.schema
    left join pg_catalog.pg_class as c on c.relnamespace ${eq} n.oid and c.relname ${eq} r.name and c.relkind ${eq} any ('{r,p}')
    order by r.ord`.execute(tx);
  return rows.map((row) => ({
    ord: Number(row.ord) - 1,
    oid: row.oid,
    partitioned: row.partitioned,
    shadowedBy: row.shadowed_by,
    lacking: row.lacking,
    rootOid: row.root,
    hasTriggers: row.triggers,
    hasRules: row.rules,
    hasInheritors: row.inheritors === true,
    rowSecurity: row.rls,
    anchorIndexes: row.indexes,
  }));
}

export interface ForeignKeyRow extends Omit<ForeignKey, 'child'> {
  readonly oid: string;
  /** Tops of the partition trees of both ends. */
  readonly parentRootOid: string;
  readonly childRootOid: string;
}

const ACTIONS: Readonly<Record<string, ForeignKey['action']>> = {
  a: 'noAction',
  r: 'restrict',
  c: 'cascade',
  n: 'setNull',
  d: 'setDefault',
};

/**
 * Every foreign key that points at one of the tables, or at a table that a change in one of them reaches by the
 * actions of such keys. A key between single partitions counts as one between their whole tables; keys that partitions inherit are
 * left out. Takes and returns the tops of partition trees.
 */
export async function selectForeignKeys(tx: Executor, rootOids: readonly string[]): Promise<ForeignKeyRow[]> {
  const { rows } = await sql<
    Record<string, string> & {
      child_columns: string[];
      parent_columns: string[];
      parent_sources: string[];
      comparisons: string[];
      readable: boolean;
      lockable: boolean;
      plain: boolean;
      indexed: boolean;
    }
  >`
    with recursive key as materialized (
      select k.*, coalesce(pg_catalog.pg_partition_root(k.confrelid), k.confrelid)::pg_catalog.oid as parent_root,
        coalesce(pg_catalog.pg_partition_root(k.conrelid), k.conrelid)::pg_catalog.oid as child_root
      from pg_catalog.pg_constraint as k
      where k.contype ${eq} 'f' and k.conparentid ${eq} 0 and ${isEnforced('k')}
    ),
    reached(oid) as (
      select o from pg_catalog.unnest(${[...rootOids]}::pg_catalog.oid[]) as o
      union
      select k.child_root from reached as r
      join key as k on k.parent_root ${eq} r.oid and (k.confdeltype ${eq} any ('{c,n,d}') or k.confupdtype ${eq} any ('{c,n,d}'))
    )
    select k.oid::pg_catalog.text as oid, k.parent_root::pg_catalog.text as parent_root, k.child_root::pg_catalog.text as child_root, k.conname as name,
      n.nspname as schema, c.relname as relation, k.confdeltype as action, k.confupdtype as update_action,
      array(
        select a.attname::pg_catalog.text from pg_catalog.unnest(k.conkey) with ordinality as u(attnum, position)
        join pg_catalog.pg_attribute as a on a.attrelid ${eq} k.conrelid and a.attnum ${eq} u.attnum order by u.position
      ) as child_columns,
      array(
        select a.attname::pg_catalog.text from pg_catalog.unnest(k.confkey) with ordinality as u(attnum, position)
        join pg_catalog.pg_attribute as a on a.attrelid ${eq} k.confrelid and a.attnum ${eq} u.attnum order by u.position
      ) as parent_columns,
      array(
        select s.attname::pg_catalog.text from pg_catalog.unnest(k.confkey) as u(attnum)
        cross join lateral (${madeOf(sql`k.confrelid`, sql`u.attnum`)}) as m
        join pg_catalog.pg_attribute as s on s.attrelid ${eq} k.confrelid and s.attnum ${eq} m.refobjsubid
      ) as parent_sources,
      array(
        select case when p.attcollation operator(pg_catalog.<>) a.attcollation then pg_catalog.format('collate %I.%I ', ln.nspname, l.collname) else '' end
          operator(pg_catalog.||) pg_catalog.format('operator(%I.%s)', n.nspname, o.oprname)
        from rows from (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey), pg_catalog.unnest(k.conpfeqop)) with ordinality as u(child, parent, operator, position)
        join pg_catalog.pg_attribute as a on a.attrelid ${eq} k.conrelid and a.attnum ${eq} u.child
        join pg_catalog.pg_attribute as p on p.attrelid ${eq} k.confrelid and p.attnum ${eq} u.parent
        join pg_catalog.pg_operator as o on o.oid ${eq} u.operator
        join pg_catalog.pg_namespace as n on n.oid ${eq} o.oprnamespace
        left join pg_catalog.pg_collation as l on l.oid ${eq} p.attcollation
        left join pg_catalog.pg_namespace as ln on ln.oid ${eq} l.collnamespace
        order by u.position
      ) as comparisons,
      pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_table_privilege(k.conrelid, 'select')
        and not pg_catalog.row_security_active(k.conrelid) as readable,
      pg_catalog.has_any_column_privilege(k.conrelid, 'update') as lockable, c.relkind ${eq} 'r' as plain,
      exists (
        select 1 from pg_catalog.pg_index as i
        where i.indrelid ${eq} k.conrelid and i.indisvalid and i.indpred is null and i.indkey[0] ${eq} any(k.conkey)
      ) as indexed
    from key as k
    join pg_catalog.pg_class as c on c.oid ${eq} k.conrelid
    join pg_catalog.pg_namespace as n on n.oid ${eq} c.relnamespace
    where k.parent_root ${eq} any (select r.oid from reached as r)
    order by n.nspname, c.relname, k.conname`.execute(tx);
  return rows.map((row) => ({
    oid: row.oid!,
    parentRootOid: row.parent_root!,
    childRootOid: row.child_root!,
    constraint: row.name!,
    childSchema: row.schema!,
    childTable: row.relation!,
    action: ACTIONS[row.action!]!,
    updateAction: ACTIONS[row.update_action!]!,
    childColumns: row.child_columns,
    parentColumns: row.parent_columns,
    parentSources: row.parent_sources,
    comparisons: row.comparisons,
    readable: row.readable,
    lockable: row.lockable,
    childPlain: row.plain,
    childIndexed: row.indexed,
  }));
}

/** The server's deadlock_timeout in milliseconds. */
export async function selectDeadlockTimeout(tx: Executor): Promise<number> {
  const { rows } = await sql<{ ms: string }>`
    select s.setting as ms from pg_catalog.pg_settings as s where s.name ${eq} 'deadlock_timeout'`.execute(tx);
  return Number(rows[0]!.ms);
}
