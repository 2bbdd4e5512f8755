import { sql } from 'kysely';
import { Strategy } from '../domain/strategy.js';
import type { RetainedColumn, RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, castType, cohortTable, columnOf, eq, recordIdText, retainedTable } from './fragments.js';
import { type KnownKeys, schemaChanges } from './foreign-keys.js';
import { type Fence, fenceCte } from './lanes.js';
import {
  type Exclusions,
  type LockedRows,
  type Selection,
  type TenantSlice,
  belongs,
  eligible,
  isLocked,
  tenantRows,
} from './selection.js';
import type { Executor } from './transaction.js';

/** A tenant of a mutating walk: where its rows are booked. */
export interface BookedSlice extends TenantSlice {
  readonly sweepId: string;
  /** Whether the ledger keeps every row of this tenant. */
  readonly rowDetail: boolean;
}

/** What is written to one scrubbed column, as text: the same for all rows, one value a tenant, or one a row. */
export type ScrubValue = { readonly column: RetainedColumn } & (
  | { readonly all: string | null }
  | { readonly perSlice: readonly (string | null)[] }
  | { readonly perRow: readonly (string | null)[] }
);

export interface Mutation {
  readonly selection: Selection<BookedSlice>;
  readonly locked: LockedRows;
  /** For anonymising alone. `perSlice` goes with the slices, `perRow` with `rows`. */
  readonly scrubs: readonly ScrubValue[];
  /** The places of the locked rows, where values differ between rows. */
  readonly rows: readonly RowPlace[];
  readonly exclusions: Exclusions;
  readonly fence: Fence;
  readonly knownKeys: KnownKeys;
  readonly passId: string;
  readonly now: Date;
  /** What handlers captured of the rows. Null: the entity has none. */
  readonly capture?: Capture | null;
  /** Whether somebody wants to hear what was done, tenant by tenant and row by row. */
  readonly report?: boolean;
}

/** What goes to the ledger and the queue with the rows. */
export interface Capture {
  readonly at: Date;
  /** Goes with `rows`. */
  readonly payloads: readonly string[];
  /** In the order in which they run. */
  readonly handlers: readonly { readonly identity: string; readonly phase: string }[];
}

/** Where one row stands. */
export interface RowPlace {
  readonly tid: string;
  readonly oid: string;
}

/** A locked row as a factory needs it. */
export interface OriginalRow extends RowPlace {
  /** Its tenant, as an index into the slices. */
  readonly slice: number;
  /** The columns asked for, as the driver reads them. */
  readonly values: readonly unknown[];
}

/** The locked rows with their present values in some columns. */
export async function selectOriginals(
  tx: Executor,
  selection: Selection,
  locked: LockedRows,
  columns: readonly RetainedColumn[],
): Promise<OriginalRow[]> {
  const { entry } = selection;
  const values = columns.map((column, index) => sql`, ${columnOf('t', column)} as ${sql.id(`value${index}`)}`);
  const { rows } = await sql<Record<string, unknown> & { tid: string; oid: string; ord: string }>`
    select t.ctid::pg_catalog.text as tid, t.tableoid::pg_catalog.text as oid, p.ord ${sql.join(values, sql``)}
    from (${tenantRows(selection)}) as p
    join ${retainedTable(entry)} as t on ${isLocked(locked)} and ${belongs(selection) ?? sql`true`}
    order by ${columnOf('t', entry.anchor)}, ${columnOf('t', entry.recordId)}`.execute(tx);
  return rows.map((row) => ({
    tid: row.tid,
    oid: row.oid,
    slice: Number(row.ord) - 1,
    values: columns.map((_, index) => row[`value${index}`]),
  }));
}

export interface MutationResult {
  /** Whether the lane was ours, and the schema as it was. */
  readonly fenced: boolean;
  /** Whether a foreign key that cascades was added since the pass began, or holds are hidden. Then nothing was changed. */
  readonly schemaChanged: boolean;
  readonly changed: number;
  readonly report: MutationReport | null;
}

export interface MutationReport {
  readonly bySlice: readonly { readonly slice: number; readonly affected: number }[];
  /** The rows of tenants with per-row detail, oldest first. */
  readonly details: readonly { readonly slice: number; readonly recordId: string }[];
}

/**
 * One batch: fence, mutation, row details and progress, in one statement. The fence comes first and the mutation is
 * joined to it, so that an owner whose pass was recovered changes nothing. The statement's snapshot is younger than
 * the locks, hence it sees every hold that was committed before they were taken, and all predicates are checked again.
 */
export async function mutateLocked(tx: Executor, mutation: Mutation): Promise<MutationResult> {
  const { selection, fence } = mutation;
  const { entry, strategy, cohortSchema, slices } = selection;
  const { capture, report } = mutation;
  const wantsDetail = capture != null || slices.some((slice) => slice.rowDetail);
  const { rows } = await sql<{
    fenced: string;
    schema_changes: string;
    changed: string;
    by_slice?: { slice: number; affected: number }[];
    details?: { slice: number; recordId: string }[];
  }>`
    with schema_change as materialized (${schemaChanges(mutation.knownKeys, cohortSchema)}),
    fence as materialized (${fenceCte(fence, cohortSchema, sql`not exists (select 1 from schema_change)`)}),
    ${rowValues(mutation)}p as materialized (${tenantRows(selection, [
      { name: 'sweep_id', array: sql`${slices.map((slice) => slice.sweepId)}::pg_catalog.uuid[]` },
      { name: 'row_detail', array: sql`${slices.map((slice) => slice.rowDetail)}::pg_catalog.bool[]` },
      { name: 'tenant_id', array: sql`${slices.map((slice) => slice.tenantId)}::pg_catalog.text[]` },
      ...mutation.scrubs.flatMap((scrub, index) =>
        'perSlice' in scrub ? [textArray(`value${index}`, scrub.perSlice)] : [],
      ),
    ])}),
    changed as (
      ${change(mutation)}
      returning p.sweep_id, p.tenant_id, p.row_detail, ${wantsDetail ? recordIdText('t', entry) : sql`null::pg_catalog.text`} as record_id${capture ? sql`, v.payload` : sql``}${report ? sql`, p.ord, ${columnOf('t', entry.anchor)} as anchor` : sql``}
    )${wantsDetail ? sql`, details as (${insertDetails(mutation)})` : sql``}${capture ? sql`, queued as (${queueHandlers(mutation, capture)})` : sql``},
    progress as (
      insert into ${cohortTable(cohortSchema, 'progress')} (pass_id, sweep_id, retention_entity_id, category, tenant_id, strategy, affected)
      select ${mutation.passId}::pg_catalog.uuid, c.sweep_id, ${entry.entityId}::pg_catalog.uuid, ${entry.category}, c.tenant_id, ${strategy},
        pg_catalog.count(*)
      from changed as c
      group by c.sweep_id, c.tenant_id
    )
    select (select pg_catalog.count(*) from fence) as fenced, (select pg_catalog.count(*) from schema_change) as schema_changes, pg_catalog.count(*) as changed${report ? reportColumns() : sql``}
    from changed as c`.execute(tx);
  const row = rows[0]!;
  return {
    fenced: row.fenced === '1',
    schemaChanged: row.schema_changes !== '0',
    changed: Number(row.changed),
    report: report ? { bySlice: row.by_slice!, details: row.details! } : null,
  };
}

function reportColumns(): Fragment {
  return sql`,
      coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('slice', g.ord operator(pg_catalog.-) 1, 'affected', g.affected) order by g.ord)
        from (select c.ord, pg_catalog.count(*) as affected from changed as c group by c.ord) as g
      ), '[]') as by_slice,
      coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('slice', c.ord operator(pg_catalog.-) 1, 'recordId', c.record_id)
        order by c.anchor, c.record_id) filter (where c.row_detail), '[]') as details`;
}

function textArray(name: string, values: readonly (string | null)[]) {
  return { name, array: sql`${[...values]}::pg_catalog.text[]` };
}

function hasRowValues({ scrubs, capture }: Mutation): boolean {
  return capture != null || scrubs.some((scrub) => 'perRow' in scrub);
}

/** A CTE with the values of every row, by its place. */
function rowValues(mutation: Mutation): Fragment {
  const { scrubs, rows } = mutation;
  if (!hasRowValues(mutation)) return sql``;
  const columns = [
    { name: 'tid', array: sql`${rows.map((row) => row.tid)}::pg_catalog.tid[]` },
    { name: 'oid', array: sql`${rows.map((row) => row.oid)}::pg_catalog.oid[]` },
    ...(mutation.capture ? [textArray('payload', mutation.capture.payloads)] : []),
    ...scrubs.flatMap((scrub, index) => ('perRow' in scrub ? [textArray(`value${index}`, scrub.perRow)] : [])),
  ];
  const arrays = columns.map((column) => sql`pg_catalog.unnest(${column.array})`);
  const names = columns.map((column) => sql.id(column.name));
  return sql`v as materialized (select v.* from rows from (${sql.join(arrays)}) as v(${sql.join(names)})),
    `;
}

function change(mutation: Mutation): Fragment {
  const { selection, locked, exclusions, now } = mutation;
  const { entry, strategy } = selection;
  const where = sql`where ${isLocked(locked)}
        and ${eligible(selection, exclusions)}`;
  const [source, ofTheRow] = hasRowValues(mutation)
    ? [sql`fence, p, v`, sql` and t.ctid ${eq} v.tid and t.tableoid ${eq} v.oid`]
    : [sql`fence, p`, sql``];
  if (strategy === Strategy.Purge)
    return sql`delete from ${retainedTable(entry)} as t using ${source} ${where}${ofTheRow}`;
  const assignments = strategy === Strategy.SoftDelete ? softDeletion(entry, now) : anonymisation(mutation);
  return sql`update ${retainedTable(entry)} as t set ${sql.join(assignments)}
      from ${source} ${where}${ofTheRow}`;
}

function softDeletion(entry: RetentionEntry, now: Date): Fragment[] {
  return [
    ...(entry.softDeleteFlag ? [sql`${sql.id(entry.softDeleteFlag.name)} = true`] : []),
    ...(entry.deletedAt ? [stamp(entry.deletedAt.name, now)] : []),
  ];
}

function anonymisation({ selection, scrubs, now }: Mutation): Fragment[] {
  const values = scrubs.map((scrub, index) => {
    const value = 'all' in scrub ? sql`${scrub.all}` : sql.id('perSlice' in scrub ? 'p' : 'v', `value${index}`);
    return sql`${sql.id(scrub.column.name)} = ${value}::${castType(scrub.column)}`;
  });
  return [...values, stamp(selection.entry.anonymisedAt!.name, now)];
}

function stamp(column: string, now: Date): Fragment {
  return sql`${sql.id(column)} = ${now.toISOString()}::pg_catalog.timestamptz`;
}

function insertDetails({ selection, capture }: Mutation): Fragment {
  const { entry, strategy, cohortSchema } = selection;
  const at = capture ? sql`${capture.at.toISOString()}::pg_catalog.timestamptz` : sql`pg_catalog.statement_timestamp()`;
  return sql`
      insert into ${cohortTable(cohortSchema, 'rowDetail')}
        (sweep_id, at, entity_type, retention_entity_id, record_id, category, strategy, tenant_id, outcome, handled${capture ? sql`, captured_payload` : sql``})
      select c.sweep_id, ${at}, ${entry.entityName}, ${entry.entityId}::pg_catalog.uuid, c.record_id,
        ${entry.category}, ${strategy}, c.tenant_id, 'affected', ${capture ? sql`true, c.payload` : sql`false`}
      from changed as c
      ${capture ? sql`returning sweep_id, id` : sql`where c.row_detail`}`;
}

/** One status a row and handler. Their ids are drawn in the order in which the handlers of a row run. */
function queueHandlers({ selection }: Mutation, { at, handlers }: Capture): Fragment {
  const instant = sql`${at.toISOString()}::pg_catalog.timestamptz`;
  return sql`
      insert into ${cohortTable(selection.cohortSchema, 'handlerStatus')}
        (sweep_id, row_detail_id, handler_type, dispatch_phase, state, attempt, queued_at, next_attempt_at)
      select d.sweep_id, d.id, h.identity, h.phase, 'pending', 0, ${instant}, ${instant}
      from details as d
      cross join rows from (
        pg_catalog.unnest(${handlers.map((each) => each.identity)}::pg_catalog.text[]),
        pg_catalog.unnest(${handlers.map((each) => each.phase)}::pg_catalog.text[])
      ) with ordinality as h(identity, phase, ord)
      order by d.id, h.ord`;
}
