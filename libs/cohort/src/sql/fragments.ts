import { type RawBuilder, sql } from 'kysely';
import type { RetainedColumn, RetentionEntry } from '../registry/retention-entry.js';
import { COHORT_TABLES } from '../schema/cohort-entities.js';

export type Fragment = RawBuilder<unknown>;

/** One of Cohort's own tables, qualified and quoted. */
export function cohortTable(schema: string, role: keyof typeof COHORT_TABLES): Fragment {
  return sql.id(schema, COHORT_TABLES[role]);
}

/** The retained table itself, qualified and quoted: its own rows and those of its partitions, never of a table that came to inherit from it. */
export function retainedTable(entry: RetentionEntry): Fragment {
  const table = sql.id(entry.schema, entry.table);
  return entry.partitioned ? table : sql`only ${table}`;
}

/** `t.column`, quoted. */
export function columnOf(alias: string, column: Pick<RetainedColumn, 'name'>): Fragment {
  return sql.id(alias, column.name);
}

/** The text of a record id as the database prints it: what holds and the ledger know a row by. */
export function recordIdText(alias: string, entry: RetentionEntry): Fragment {
  return sql`${columnOf(alias, entry.recordId)}::pg_catalog.text`;
}

/** A column's type for a cast of a parameter, as the catalog has it. */
export function castType(column: Pick<RetainedColumn, 'cast'>): Fragment {
  return sql.raw(column.cast);
}

/**
 * Equality by the catalog's own operator, whatever the search_path puts in front of it. Like every operator written so,
 * it binds as tight as any other but `*` and `+`: what stands beside it goes into parentheses.
 */
export const eq = sql`operator(pg_catalog.=)`;

const BUILT_IN = new Set(['uuid', 'text', 'character varying', 'character', 'smallint', 'integer', 'bigint']);

/**
 * The operator by which values of a column are equal. pg_catalog has none for varchar itself, only for text: one for
 * varchar in any schema of the search_path would win. Types of extensions bring their own, found by the search_path.
 */
export function equality(column: Pick<RetainedColumn, 'type'>): Fragment {
  return BUILT_IN.has(column.type) ? eq : sql`=`;
}

/** The predicate of an index as it was written: the server prints the schema of operators that something stands in front of. */
export function indexPredicate(alias: string): Fragment {
  const [predicate, table] = [sql.id(alias, 'indpred'), sql.id(alias, 'indrelid')];
  return sql`pg_catalog.replace(pg_catalog.pg_get_expr(${predicate}, ${table}), 'OPERATOR(pg_catalog.=)', '=')`;
}

/** Attribute numbers of the columns that a generated column is made of. The server has noted them on the column, or on its expression. */
export function madeOf(table: Fragment, attnum: Fragment): Fragment {
  return sql`select d.refobjsubid from pg_catalog.pg_depend as d
    left join pg_catalog.pg_attrdef as f on f.oid ${eq} d.objid and d.classid ${eq} 'pg_catalog.pg_attrdef'::pg_catalog.regclass
    where d.refclassid ${eq} 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid ${eq} ${table} and d.refobjsubid operator(pg_catalog.>) 0
      and (
        (f.adrelid ${eq} ${table} and f.adnum ${eq} ${attnum})
        or (d.classid ${eq} d.refclassid and d.objid ${eq} ${table} and d.objsubid ${eq} ${attnum})
      )`;
}

/** Of a constraint. The column came with version 18. */
export function isEnforced(alias: string): Fragment {
  return sql`coalesce((pg_catalog.to_jsonb(${sql.id(alias)}) operator(pg_catalog.->>) 'conenforced')::pg_catalog.bool, true)`;
}

/** `and`-joins what is there. */
export function allOf(...conditions: readonly (Fragment | null | undefined)[]): Fragment {
  const present = conditions.filter((condition) => condition != null);
  return present.length === 0 ? sql`true` : sql.join(present, sql`\n  and `);
}

/** Milliseconds since the epoch: a timestamp's text depends on the session, and its microseconds do not fit a Date. */
export function millis(instant: Fragment): Fragment {
  return sql`pg_catalog.floor(extract(epoch from ${instant}) operator(pg_catalog.*) 1000)::pg_catalog.int8`;
}

/** The Date of a `millis` column. */
export function fromMillis(milliseconds: string | null | undefined): Date | null {
  return milliseconds == null ? null : new Date(Number(milliseconds));
}
