import { sql } from 'kysely';
import { Strategy } from '../domain/strategy.js';
import type { RetainedColumn, RetentionEntry } from '../registry/retention-entry.js';
import {
  type Fragment,
  allOf,
  castType,
  cohortTable,
  columnOf,
  eq,
  equality,
  fromMillis,
  millis,
  recordIdText,
  retainedTable,
} from './fragments.js';
import { heldRecords, isHeld } from './holds.js';
import { type KeyPath, blockedBy } from './foreign-keys.js';
import type { Executor } from './transaction.js';

/** One tenant of a walk: what differs between tenants travels as columns of an array. */
export interface TenantSlice {
  readonly tenantId: string;
  /** Null: rows of any age, as an erasure means them. */
  readonly cutoff: Date | null;
  /** The run that its rows are booked to, where there is one. */
  readonly sweepId?: string;
}

/** A column that identifies a person, and what it must be equal to. */
export interface SubjectMatch {
  readonly column: RetainedColumn;
  /** As it is stored, as text. */
  readonly value: string;
  /** Whether upper and lower case are the same, as the database folds them. */
  readonly foldCase: boolean;
}

/** Which rows are meant: of one entity, due under one strategy, for a set of tenants. Everything that counts, locks or changes takes one. */
export interface Selection<Slice extends TenantSlice = TenantSlice> {
  readonly entry: RetentionEntry;
  readonly strategy: Exclude<Strategy, 'exempt'>;
  readonly cohortSchema: string;
  readonly slices: readonly Slice[];
  /** Of an erasure: rows that match one of these, or all rows where there are none. */
  readonly subjects?: readonly SubjectMatch[] | undefined;
}

/** What only mutations add: rows that must be passed over for now. */
export interface Exclusions {
  /** Ids (as text) that the table refused to change in this walk. */
  readonly refused: readonly string[];
  readonly keyPaths: readonly KeyPath[];
  /** Whether rows that handlers have seen in the same run are passed over: asked of the ledger, whatever their number. */
  readonly handled?: boolean;
}

/** The runs of the tenants as a column, where they matter. */
export function runColumns({ slices }: Selection, { handled }: Exclusions): { name: string; array: Fragment }[] {
  return handled ? [{ name: 'sweep_id', array: sql`${slices.map((slice) => slice.sweepId)}::pg_catalog.uuid[]` }] : [];
}

/** A handler has seen the row in the run of `p`. */
function isHandled({ entry, cohortSchema }: Selection): Fragment {
  return sql`exists (
          select 1 from ${cohortTable(cohortSchema, 'rowDetail')} as h
          where h.handled and h.sweep_id ${eq} p.sweep_id and h.retention_entity_id ${eq} ${entry.entityId}::pg_catalog.uuid
            and h.record_id ${eq} ${recordIdText('t', entry)}
        )`;
}

/** The tenants of a selection as rows: ord (from 1), tenant, cutoff, and what `extra` adds. */
export function tenantRows(selection: Selection, extra: readonly { name: string; array: Fragment }[] = []): Fragment {
  const { entry, slices } = selection;
  const columns = [
    {
      name: 'tenant',
      array: entry.tenant
        ? sql`${slices.map((slice) => slice.tenantId)}::${castType(entry.tenant)}[]`
        : sql`${slices.map(() => null)}::pg_catalog.text[]`,
    },
    {
      name: 'cutoff',
      array: sql`${slices.map((slice) => slice.cutoff?.toISOString() ?? null)}::pg_catalog.timestamptz[]`,
    },
    ...extra,
  ];
  const sources = columns.map((column) => sql`pg_catalog.unnest(${column.array})`);
  const names = columns.map((column) => sql.id(column.name));
  return sql`select p.* from rows from (${sql.join(sources)}) with ordinality as p(${sql.join(names)}, ord)`;
}

/** The row belongs to the tenant `p`. */
export function belongs(selection: Selection): Fragment | null {
  return selection.entry.tenant
    ? sql`${columnOf('t', selection.entry.tenant)} ${equality(selection.entry.tenant)} p.tenant`
    : null;
}

/** The strategy has not been applied to the row yet. Purge leaves no row to ask. */
function stillOpen(selection: Pick<Selection, 'entry' | 'strategy'>): Fragment | null {
  const { entry, strategy } = selection;
  switch (strategy) {
    case Strategy.Purge:
      return null;
    case Strategy.SoftDelete:
      return entry.softDeleteFlag
        ? sql`${columnOf('t', entry.softDeleteFlag)} ${eq} false`
        : sql`${columnOf('t', entry.deletedAt!)} is null`;
    case Strategy.Anonymise:
      return sql`${columnOf('t', entry.anonymisedAt!)} is null`;
  }
}

/** The row says something of the person. Compared as its column compares: in any case where it is citext. */
function concerns({ subjects = [] }: Pick<Selection, 'subjects'>): Fragment | null {
  if (subjects.length === 0) return null;
  const matches = subjects.map(({ column, value, foldCase }) =>
    foldCase
      ? sql`pg_catalog.lower(${columnOf('t', column)}::pg_catalog.text) ${eq} pg_catalog.lower(${value}::pg_catalog.text)`
      : sql`${columnOf('t', column)} ${equality(column)} ${value}::${castType(column)}`,
  );
  return sql`(${sql.join(matches, sql` or `)})`;
}

/** Strictly older than the cutoff, where there is one. */
function aged({ entry, slices }: Selection): Fragment | null {
  return slices.every((slice) => slice.cutoff === null)
    ? null
    : sql`${columnOf('t', entry.anchor)} operator(pg_catalog.<) p.cutoff`;
}

/** The row is meant, held or not: its tenant's, the person's, old enough, open for the strategy. */
function due(selection: Selection): Fragment {
  return allOf(belongs(selection), concerns(selection), aged(selection), stillOpen(selection));
}

/** The whole predicate of a mutation. Repeated in every statement that locks or changes rows. */
export function eligible(selection: Selection, exclusions: Exclusions): Fragment {
  const { entry, cohortSchema } = selection;
  return allOf(
    due(selection),
    sql`not ${isHeld(cohortSchema, entry, 't')}`,
    exclusions.refused.length > 0
      ? sql`${recordIdText('t', entry)} operator(pg_catalog.<>) all(${[...exclusions.refused]}::pg_catalog.text[])`
      : null,
    exclusions.handled ? sql`not ${isHandled(selection)}` : null,
    ...exclusions.keyPaths.map((path) => sql`not ${blockedBy(path, entry, cohortSchema)}`),
  );
}

/** Rows locked for one batch. Their places never leave the database's own text form. */
export interface LockedRows {
  readonly count: number;
  readonly tids: string;
  /** The table that all of them lie in. Null: there are several, and `oids` has one for every place. */
  readonly oid: string | null;
  readonly oids: string | null;
  /** The tenants that they belong to, as indexes into the slices, in order. */
  readonly slices: readonly number[];
  /** Ids of the rows, as text, where they were asked for. */
  readonly recordIds: readonly string[];
}

export interface LockRequest {
  readonly limit: number;
  readonly exclusions: Exclusions;
  /** Whether to wait for rows that somebody else has locked, instead of passing over them. */
  readonly waits: boolean;
  /** Whether an index leads with the tenant and the anchor (or one tenant is asked for). */
  readonly tenantByTenant: boolean;
  /** Whether the ids are needed: to know which row was refused, or to look whether a trigger brought one back. */
  readonly withIds: boolean;
}

/** Locks up to `limit` eligible rows, oldest first. Those that it waited for are judged again by what they have become. */
export async function lockCandidates(
  tx: Executor,
  selection: Selection,
  request: LockRequest,
): Promise<LockedRows | null> {
  const { rows } = await sql<
    Record<'count' | 'tids', string> & Record<'oid' | 'oids', string | null> & { ords: string[]; ids: string[] | null }
  >`
    select pg_catalog.count(*) as count, pg_catalog.array_agg(c.tid)::pg_catalog.text as tids,
      case when pg_catalog.min(c.oid) ${eq} pg_catalog.max(c.oid) then pg_catalog.min(c.oid)::pg_catalog.text end as oid,
      case when pg_catalog.min(c.oid) operator(pg_catalog.<) pg_catalog.max(c.oid) then pg_catalog.array_agg(c.oid)::pg_catalog.text end as oids,
      pg_catalog.array_agg(distinct c.ord) as ords,
      ${request.withIds ? sql`pg_catalog.array_agg(c.record_id)` : sql`null::pg_catalog.text[]`} as ids
    from (${request.tenantByTenant ? tenantByTenant(selection, request) : acrossTenants(selection, request)}) as c`.execute(
    tx,
  );
  const row = rows[0]!;
  if (row.count === '0') return null;
  return {
    count: Number(row.count),
    tids: row.tids,
    oid: row.oid,
    oids: row.oids,
    slices: row.ords.map((ord) => Number(ord) - 1),
    recordIds: row.ids ?? [],
  };
}

/** One ordered index scan a tenant, stopped as soon as the batch is full: nothing is sorted, later tenants are not read. */
function tenantByTenant(selection: Selection, { limit, exclusions, waits }: LockRequest): Fragment {
  const { entry } = selection;
  return sql`
      select c.tid, c.oid, p.ord, c.record_id
      from (${tenantRows(selection, runColumns(selection, exclusions))}) as p
      cross join lateral (
        select t.ctid as tid, t.tableoid as oid, ${recordIdText('t', entry)} as record_id
        from ${retainedTable(entry)} as t
        where ${eligible(selection, exclusions)}
        order by ${columnOf('t', entry.anchor)}, ${columnOf('t', entry.recordId)}
        limit ${limit}
        for update of t${waits ? sql`` : sql` skip locked`}
      ) as c
      limit ${limit}`;
}

/** Without such an index: the oldest rows of all tenants together, one scan a batch instead of one a tenant. */
function acrossTenants(selection: Selection, { limit, exclusions, waits }: LockRequest): Fragment {
  const { entry } = selection;
  return sql`
      select t.ctid as tid, t.tableoid as oid, p.ord, ${recordIdText('t', entry)} as record_id
      from (${tenantRows(selection, runColumns(selection, exclusions))}) as p
      join ${retainedTable(entry)} as t on ${eligible(selection, exclusions)}
      order by ${columnOf('t', entry.anchor)}, ${columnOf('t', entry.recordId)}
      limit ${limit}
      for update of t${waits ? sql`` : sql` skip locked`}`;
}

/**
 * The rows of a lock, found without a scan. A place alone may stand for rows of several tables: of partitions, or of one
 * that was made to inherit from this one since.
 */
export function isLocked({ tids, oid, oids }: LockedRows): Fragment {
  const place = sql`t.ctid ${eq} any(${tids}::pg_catalog.tid[])`;
  if (oid !== null) return sql`${place} and t.tableoid ${eq} ${oid}::pg_catalog.oid`;
  return sql`${place}
    and (t.tableoid, t.ctid) ${eq} any (select * from rows from (pg_catalog.unnest(${oids}::pg_catalog.oid[]), pg_catalog.unnest(${tids}::pg_catalog.tid[])) as l(oid, tid))`;
}

/**
 * Of rows that were locked, those that would be selected again at once. Asked by id: a trigger may have moved a row to
 * another place, or have deleted it and put it back.
 */
export async function stillEligible(
  tx: Executor,
  selection: Selection,
  recordIds: readonly string[],
  exclusions: Exclusions,
): Promise<string[]> {
  const { entry } = selection;
  const { rows } = await sql<{ record_id: string }>`
    select ${recordIdText('t', entry)} as record_id
    from ${retainedTable(entry)} as t
    join (${tenantRows(selection, runColumns(selection, exclusions))}) as p on ${eligible(selection, exclusions)}
    where ${columnOf('t', entry.recordId)} ${equality(entry.recordId)} any(${[...recordIds]}::${castType(entry.recordId)}[])`.execute(
    tx,
  );
  return rows.map((row) => row.record_id);
}

/** What a selection holds for one tenant. `left` are due rows that no hold covers; the causes say why they are still there. */
export interface SelectionCount {
  readonly slice: number;
  readonly held: number;
  readonly left: number;
  readonly refused: number;
  /** Rows that a handler could not capture. */
  readonly handlerFailed: number;
  readonly nullAnchor: number;
  /** Rows kept by each foreign key of the exclusions, in their order; a row counts for the first that keeps it. */
  readonly referenced: readonly number[];
}

/** Counts by tenant, in one statement; tenants with nothing to count are left out. Preview, dry run and settlement all use it. */
export async function countSelection(
  tx: Executor,
  selection: Selection,
  exclusions: Exclusions,
): Promise<SelectionCount[]> {
  const { entry, cohortSchema } = selection;
  // No row is handled and refused: a batch with a refused row is rolled back, the word of its handlers with it.
  const counted = exclusions.handled ? sql`not r.refused and not r.handled` : sql`not r.refused`;
  const isRefused = sql`${recordIdText('t', entry)} ${eq} any(${[...exclusions.refused]}::pg_catalog.text[])`;
  const causes = exclusions.keyPaths.map(
    (path, index) => sql`when ${blockedBy(path, entry, cohortSchema)} then ${sql.lit(index)}`,
  );
  const cause = causes.length === 0 ? sql`null::pg_catalog.int4` : sql`case ${sql.join(causes, sql` `)} end`;
  const referenced = exclusions.keyPaths.map(
    (_, index) => sql`, coalesce(d.${sql.id(`fk${index}`)}, 0) as ${sql.id(`fk${index}`)}`,
  );
  const referencedCounts = exclusions.keyPaths.map(
    (_, index) =>
      sql`, pg_catalog.count(*) filter (where not r.held and ${counted} and r.cause ${eq} ${sql.lit(index)}) as ${sql.id(`fk${index}`)}`,
  );
  const { rows } = await sql<Record<string, string>>`
    with p as materialized (${tenantRows(selection, runColumns(selection, exclusions))}),
    held as materialized (${heldRecords(cohortSchema, entry.entityId)}),
    due as (
      select r.ord, pg_catalog.count(*) filter (where r.held) as held, pg_catalog.count(*) filter (where not r.held) as left_over,
        pg_catalog.count(*) filter (where not r.held and r.refused) as refused ${sql.join(referencedCounts, sql``)}${exclusions.handled ? sql`, pg_catalog.count(*) filter (where not r.held and r.handled) as handler_failed` : sql``}
      from (
        select p.ord, ${recordIdText('t', entry)} ${eq} any (select held.record_id from held) as held, ${isRefused} as refused, ${cause} as cause${exclusions.handled ? sql`, ${isHandled(selection)} as handled` : sql``}
        from p
        join ${retainedTable(entry)} as t on ${due(selection)}
      ) as r
      group by r.ord
    ),
    no_anchor as (${nullAnchors(selection)})
    select p.ord, coalesce(d.held, 0) as held, coalesce(d.left_over, 0) as left_over, coalesce(d.refused, 0) as refused,
      coalesce(n.count, 0) as null_anchor ${sql.join(referenced, sql``)}${exclusions.handled ? sql`, coalesce(d.handler_failed, 0) as handler_failed` : sql``}
    from p
    left join due as d on d.ord ${eq} p.ord
    left join no_anchor as n on n.ord ${eq} p.ord
    where d.ord is not null or n.ord is not null`.execute(tx);
  return rows.map((row) => ({
    slice: Number(row.ord) - 1,
    held: Number(row.held),
    left: Number(row.left_over),
    refused: Number(row.refused),
    handlerFailed: Number(row['handler_failed'] ?? 0),
    nullAnchor: Number(row.null_anchor),
    referenced: exclusions.keyPaths.map((_, index) => Number(row[`fk${index}`])),
  }));
}

/** Rows without an anchor are never due; they are counted so that somebody notices. Holds do not matter here. */
function nullAnchors(selection: Selection): Fragment {
  const { entry } = selection;
  if (!entry.anchor.nullable || aged(selection) === null)
    return sql`select null::pg_catalog.int8 as ord, 0 as count where false`;
  return sql`
      select p.ord, pg_catalog.count(*) as count
      from p
      join ${retainedTable(entry)} as t on ${allOf(belongs(selection), concerns(selection), sql`${columnOf('t', entry.anchor)} is null`, stillOpen(selection))}
      group by p.ord`;
}

/** Rows of an erasure that are too young for the cutoff, and the oldest anchor among them. Holds do not matter here. */
export async function countTooYoung(
  tx: Executor,
  selection: Selection,
): Promise<{ readonly rows: number; readonly oldest: Date | null }> {
  const anchor = columnOf('t', selection.entry.anchor);
  const { rows } = await sql<{ count: string; oldest: string | null }>`
    select pg_catalog.count(*) as count, ${millis(sql`pg_catalog.min(${anchor})`)} as oldest
    from (${tenantRows(selection)}) as p
    join ${retainedTable(selection.entry)} as t
      on ${allOf(belongs(selection), concerns(selection), sql`${anchor} operator(pg_catalog.>=) p.cutoff`, stillOpen(selection))}`.execute(
    tx,
  );
  const [row] = rows;
  return { rows: Number(row!.count), oldest: fromMillis(row!.oldest) };
}

/** For how many seconds the oldest row of the selection has been due and free of holds; 0 where there is none. */
export async function selectLongestOverdue(tx: Executor, selection: Selection): Promise<number> {
  const { rows } = await sql<{ seconds: string | null }>`
    select extract(epoch from pg_catalog.max(p.cutoff operator(pg_catalog.-) ${columnOf('t', selection.entry.anchor)})) as seconds
    from (${tenantRows(selection)}) as p
    join ${retainedTable(selection.entry)} as t on ${eligible(selection, { refused: [], keyPaths: [] })}`.execute(tx);
  return Number(rows[0]!.seconds ?? 0);
}
