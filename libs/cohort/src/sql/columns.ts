import { sql } from 'kysely';
import { castType, eq, indexPredicate, madeOf } from './fragments.js';
import type { RetainedColumn } from '../registry/retention-entry.js';
import type { Executor } from './transaction.js';

export interface ColumnQuery {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
}

/** A column as it is installed. */
export interface ColumnRow {
  /** Place of the question in the list asked. */
  readonly ord: number;
  /** Its type, through domains, without schema: 'bigint', 'citext'. */
  readonly type: string;
  /** Its own type, qualified and quoted, for a cast. Without a length: an explicit cast would cut silently. */
  readonly cast: string;
  readonly nullable: boolean;
  /** Whether the database alone writes it. */
  readonly generated: boolean;
  /** Whether its text depends on settings of the session, itself or anything it is made of. */
  readonly sessionDependent: boolean;
}

const SESSION_DEPENDENT =
  'timestamp timestamptz date time timetz interval float4 float8 money bytea regclass regproc regprocedure regoper regoperator regtype regrole regnamespace regconfig regdictionary regcollation'.split(
    ' ',
  );

/** What the catalog says of columns; those that do not exist are left out. */
export async function selectColumns(tx: Executor, columns: readonly ColumnQuery[]): Promise<ColumnRow[]> {
  const { rows } = await sql<Omit<ColumnRow, 'ord'> & { ord: string }>`
    with recursive asked as materialized (
      select r.ord, a.atttypid as type_oid, a.attnotnull, a.attgenerated, a.attidentity
      from rows from (
        pg_catalog.unnest(${columns.map((each) => each.schema)}::pg_catalog.text[]),
        pg_catalog.unnest(${columns.map((each) => each.table)}::pg_catalog.text[]),
        pg_catalog.unnest(${columns.map((each) => each.column)}::pg_catalog.text[])
      ) with ordinality as r(schema, name, column_name, ord)
      join pg_catalog.pg_namespace as n on n.nspname ${eq} r.schema
      join pg_catalog.pg_class as c on c.relnamespace ${eq} n.oid and c.relname ${eq} r.name and c.relkind ${eq} any ('{r,p}')
      join pg_catalog.pg_attribute as a on a.attrelid ${eq} c.oid and a.attname ${eq} r.column_name and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
    ),
    -- everything a type is made of; base is true as long as only domains were passed
    part(root, oid, base) as (
      select k.type_oid, k.type_oid, true from asked as k
      union
      select p.root, inner_type.oid, p.base and t.typtype ${eq} 'd'
      from part as p
      join pg_catalog.pg_type as t on t.oid ${eq} p.oid
      cross join lateral (
        select t.typbasetype as oid where t.typtype ${eq} 'd'
        union all select t.typelem where t.typcategory ${eq} 'A'
        union all select g.rngsubtype from pg_catalog.pg_range as g where t.oid ${eq} any (array[g.rngtypid, g.rngmultitypid])
        union all select f.atttypid from pg_catalog.pg_attribute as f
          where t.typtype ${eq} 'c' and f.attrelid ${eq} t.typrelid and f.attnum operator(pg_catalog.>) 0 and not f.attisdropped
      ) as inner_type
    )
    select k.ord,
      case when b.typnamespace ${eq} 'pg_catalog'::pg_catalog.regnamespace then pg_catalog.replace(pg_catalog.format_type(b.oid, null), 'pg_catalog.', '') else b.typname end as type,
      pg_catalog.quote_ident(n.nspname) operator(pg_catalog.||) '.' operator(pg_catalog.||) pg_catalog.quote_ident(own.typname) as "cast",
      not k.attnotnull and not exists (
        select 1 from part as p
        join pg_catalog.pg_type as t on t.oid ${eq} p.oid
        where p.root ${eq} k.type_oid and p.base and t.typnotnull
      ) as nullable, k.attgenerated operator(pg_catalog.<>) '' or k.attidentity ${eq} 'a' as generated,
      exists (
        select 1 from part as p
        join pg_catalog.pg_type as t on t.oid ${eq} p.oid
        where p.root ${eq} k.type_oid and t.typnamespace ${eq} 'pg_catalog'::pg_catalog.regnamespace
          and t.typname ${eq} any(${SESSION_DEPENDENT}::pg_catalog.text[])
      ) as "sessionDependent"
    from asked as k
    join pg_catalog.pg_type as own on own.oid ${eq} k.type_oid
    join pg_catalog.pg_namespace as n on n.oid ${eq} own.typnamespace
    join part as p on p.root ${eq} k.type_oid and p.base
    join pg_catalog.pg_type as b on b.oid ${eq} p.oid and b.typtype operator(pg_catalog.<>) 'd'
    order by k.ord`.execute(tx);
  return rows.map((row) => ({ ...row, ord: Number(row.ord) - 1 }));
}

/** Fails where a text is no value of a column's type: 22P02, or 23514 from a domain. */
export async function castText(tx: Executor, column: RetainedColumn, text: string): Promise<void> {
  await sql`select ${text}::${castType(column)}`.execute(tx);
}

/** A unique or exclusion constraint, or a bare unique index. */
export interface UniqueIndexRow {
  readonly table: number;
  readonly name: string;
  /** Its key columns, in order; null for an expression. */
  readonly columns: readonly (string | null)[];
  /** Every column that it, its expressions, its predicate or its generated columns name. */
  readonly mentions: readonly string[];
  /** '' for a whole index. */
  readonly predicate: string;
  readonly primary: boolean;
  /** Whether two NULLs count as equal. */
  readonly nullsEqual: boolean;
  /** Whether it keeps rows apart by other operators than equality. */
  readonly exclusion: boolean;
  /** Whether it keeps all rows of the table apart. One of a single partition, or that could not be built to its end, keeps some apart. */
  readonly complete: boolean;
  /** Columns that the table is partitioned by. */
  readonly partitionColumns: readonly string[];
}

/** What keeps rows of the given tables apart. */
export async function selectUniqueIndexes(
  tx: Executor,
  tables: readonly Omit<ColumnQuery, 'column'>[],
): Promise<UniqueIndexRow[]> {
  const { rows } = await sql<Omit<UniqueIndexRow, 'table'> & { ord: string }>`
    select r.ord, x.relname as name,
      array(
        select a.attname::pg_catalog.text from pg_catalog.generate_series(0, i.indnkeyatts operator(pg_catalog.-) 1) as k(position)
        left join pg_catalog.pg_attribute as a on a.attrelid ${eq} i.indrelid and a.attnum ${eq} i.indkey[k.position] and a.attnum operator(pg_catalog.>) 0
        order by k.position
      ) as columns,
      array(
        select distinct a.attname::pg_catalog.text from pg_catalog.pg_attribute as a
        where a.attrelid ${eq} i.indrelid and a.attnum operator(pg_catalog.>) 0 and (
          a.attnum ${eq} any(i.indkey[0:i.indnkeyatts operator(pg_catalog.-) 1])
          or a.attnum ${eq} any (
            select m.refobjsubid from pg_catalog.unnest(i.indkey[0:i.indnkeyatts operator(pg_catalog.-) 1]) as k(attnum)
            cross join lateral (${madeOf(sql`i.indrelid`, sql`k.attnum`)}) as m
          )
          or exists (
            select 1 from pg_catalog.pg_depend as d
            where (i.indexprs is not null or i.indpred is not null) and d.classid ${eq} 'pg_catalog.pg_class'::pg_catalog.regclass
              and d.objid ${eq} i.indexrelid and d.refobjid ${eq} i.indrelid and d.refobjsubid ${eq} a.attnum
          ))
      ) as mentions,
      coalesce(${indexPredicate('i')}, '') as predicate, i.indisprimary as primary,
      -- the column came with version 15
      coalesce((pg_catalog.to_jsonb(i) operator(pg_catalog.->>) 'indnullsnotdistinct')::pg_catalog.bool, false) as "nullsEqual",
      i.indisexclusion as exclusion, i.indrelid ${eq} c.oid and i.indisvalid as complete,
      array(
        select a.attname::pg_catalog.text from pg_catalog.pg_partitioned_table as p
        cross join lateral pg_catalog.unnest(p.partattrs) as k(attnum)
        join pg_catalog.pg_attribute as a on a.attrelid ${eq} c.oid and a.attnum ${eq} k.attnum
        where p.partrelid ${eq} c.oid
      ) as "partitionColumns"
    from rows from (
      pg_catalog.unnest(${tables.map((each) => each.schema)}::pg_catalog.text[]),
      pg_catalog.unnest(${tables.map((each) => each.table)}::pg_catalog.text[])
    ) with ordinality as r(schema, name, ord)
    join pg_catalog.pg_namespace as n on n.nspname ${eq} r.schema
    join pg_catalog.pg_class as c on c.relnamespace ${eq} n.oid and c.relname ${eq} r.name and c.relkind ${eq} any ('{r,p}')
    join pg_catalog.pg_index as i on (i.indisunique or i.indisexclusion) and i.indisready and (
      i.indrelid ${eq} c.oid
      -- of a partition alone: no part of one of the whole table
      or i.indrelid ${eq} any (select l.relid from pg_catalog.pg_partition_tree(c.oid) as l)
        and not exists (select 1 from pg_catalog.pg_inherits as h where h.inhrelid ${eq} i.indexrelid)
    )
    join pg_catalog.pg_class as x on x.oid ${eq} i.indexrelid
    order by r.ord, x.relname`.execute(tx);
  return rows.map(({ ord, ...row }) => ({ ...row, table: Number(ord) - 1 }));
}
