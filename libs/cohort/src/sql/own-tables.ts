import { sql } from 'kysely';
import { eq, indexPredicate } from './fragments.js';
import type { Executor } from './transaction.js';

export interface OwnTableRow {
  readonly name: string;
  readonly exists: boolean;
  /** Policies may hide rows of it from this role, holds among them. */
  readonly rowSecurity: boolean;
}

/** Whether Cohort's own tables are there and show all of their rows; asked before every pass. */
export async function selectOwnTables(tx: Executor, schema: string, tables: readonly string[]): Promise<OwnTableRow[]> {
  const { rows } = await sql<OwnTableRow>`
    select r.name, c.oid is not null as exists, coalesce(pg_catalog.row_security_active(c.oid), false) as "rowSecurity"
    from pg_catalog.unnest(${[...tables]}::pg_catalog.text[]) as r(name)
    left join pg_catalog.pg_namespace as n on n.nspname ${eq} ${schema}
    left join pg_catalog.pg_class as c on c.relnamespace ${eq} n.oid and c.relname ${eq} r.name and c.relkind ${eq} any ('{r,p}')
    order by r.name`.execute(tx);
  return rows;
}

export interface InstalledTable {
  readonly name: string;
  /** Whether it outlives a crash: neither unlogged nor temporary. */
  readonly logged: boolean;
  readonly columns: readonly {
    readonly name: string;
    /** As format_type prints it, with its length. */
    readonly type: string;
    readonly nullable: boolean;
    readonly hasDefault: boolean;
    /** Whether it is computed, and cannot be written. */
    readonly computed: boolean;
    /** Whether numbers come by themselves: an identity, or a default from a sequence. */
    readonly numbered: boolean;
    /** Whether this role may draw from the sequence of its default, if there is one. */
    readonly sequenceUsable: boolean;
  }[];
  readonly indexes: readonly {
    readonly columns: readonly (string | null)[];
    readonly unique: boolean;
    readonly primary: boolean;
    readonly deferrable: boolean;
    readonly predicate: string | null;
  }[];
  readonly checks: readonly { readonly name: string; readonly validated: boolean }[];
  readonly keys: readonly {
    readonly columns: readonly string[];
    readonly schema: string;
    readonly table: string;
    readonly targetColumns: readonly string[];
    /** pg_constraint's letter. */
    readonly action: string;
    readonly validated: boolean;
  }[];
  /** Privileges of this role, on the table or on every column of it: 'select', 'insert', 'update', 'delete'. */
  readonly privileges: readonly string[];
}

/** The installed shape of tables, in one statement, hence of one moment. Tables that do not exist are left out. */
export async function selectInstalled(
  tx: Executor,
  schema: string,
  tables: readonly string[],
): Promise<InstalledTable[]> {
  const { rows } = await sql<InstalledTable>`
    select c.relname as name, c.relpersistence ${eq} 'p' as logged,
      (
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          -- what is printed has its schema wherever something of the same name stands in front of it
          'name', a.attname, 'type', pg_catalog.replace(pg_catalog.format_type(a.atttypid, a.atttypmod), 'pg_catalog.', ''), 'nullable', not a.attnotnull,
          'hasDefault', a.atthasdef or a.attidentity operator(pg_catalog.<>) '', 'computed', a.attgenerated operator(pg_catalog.<>) '',
          'numbered', a.attidentity operator(pg_catalog.<>) '' or coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid) operator(pg_catalog.~) '^(pg_catalog[.])?nextval[(]', false),
          'sequenceUsable', coalesce(s.usable, true)
        ) order by a.attnum)
        from pg_catalog.pg_attribute as a
        left join pg_catalog.pg_attrdef as d on d.adrelid ${eq} a.attrelid and d.adnum ${eq} a.attnum
        left join lateral (
          -- The sequence that the default draws from, whoever owns it; an identity needs no grant of its own.
          select pg_catalog.bool_and(pg_catalog.has_sequence_privilege(q.oid, 'usage, update')) as usable
          from pg_catalog.pg_depend as p
          join pg_catalog.pg_class as q on q.oid ${eq} p.refobjid and q.relkind ${eq} 'S'
          where p.classid ${eq} 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid ${eq} d.oid
            and p.refclassid ${eq} 'pg_catalog.pg_class'::pg_catalog.regclass
        ) as s on true
        where a.attrelid ${eq} c.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
      ) as columns,
      coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          'columns', array(
            select a.attname from pg_catalog.generate_series(0, i.indnkeyatts operator(pg_catalog.-) 1) as k(position)
            left join pg_catalog.pg_attribute as a on a.attrelid ${eq} c.oid and a.attnum ${eq} i.indkey[k.position] and a.attnum operator(pg_catalog.>) 0
            order by k.position
          ),
          'unique', i.indisunique, 'primary', i.indisprimary, 'deferrable', not i.indimmediate,
          'predicate', ${indexPredicate('i')}
        ))
        from pg_catalog.pg_index as i
        where i.indrelid ${eq} c.oid and i.indisvalid and i.indisready
      ), '[]') as indexes,
      coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('name', k.conname, 'validated', k.convalidated))
        from pg_catalog.pg_constraint as k where k.conrelid ${eq} c.oid and k.contype ${eq} 'c'
      ), '[]') as checks,
      coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          'columns', array(
            select a.attname from pg_catalog.unnest(k.conkey) with ordinality as u(attnum, position)
            join pg_catalog.pg_attribute as a on a.attrelid ${eq} k.conrelid and a.attnum ${eq} u.attnum order by u.position
          ),
          'schema', tn.nspname, 'table', t.relname,
          'targetColumns', array(
            select a.attname from pg_catalog.unnest(k.confkey) with ordinality as u(attnum, position)
            join pg_catalog.pg_attribute as a on a.attrelid ${eq} k.confrelid and a.attnum ${eq} u.attnum order by u.position
          ),
          'action', k.confdeltype, 'validated', k.convalidated
        ))
        from pg_catalog.pg_constraint as k
        join pg_catalog.pg_class as t on t.oid ${eq} k.confrelid
        join pg_catalog.pg_namespace as tn on tn.oid ${eq} t.relnamespace
        where k.conrelid ${eq} c.oid and k.contype ${eq} 'f'
      ), '[]') as keys,
      array(
        select p.name from pg_catalog.unnest(array['select', 'insert', 'update', 'delete']) as p(name)
        where pg_catalog.has_schema_privilege(n.oid, 'usage') and case
          when pg_catalog.has_table_privilege(c.oid, p.name) then true
          -- A row is deleted as a whole: there is no grant for columns.
          when p.name ${eq} 'delete' then false
          else not exists (
            select from pg_catalog.pg_attribute as a
            where a.attrelid ${eq} c.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
              and not pg_catalog.has_column_privilege(c.oid, a.attnum, p.name)
          )
        end
      ) as privileges
    from pg_catalog.unnest(${[...tables]}::pg_catalog.text[]) as r(name)
    join pg_catalog.pg_namespace as n on n.nspname ${eq} ${schema}
    join pg_catalog.pg_class as c on c.relnamespace ${eq} n.oid and c.relname ${eq} r.name and c.relkind ${eq} any ('{r,p}')
    order by c.relname`.execute(tx);
  return rows;
}
