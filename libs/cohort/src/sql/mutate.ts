import { sql } from 'kysely';
import { AnonymiseMethod, Strategy } from '../domain/strategy.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, castType, cohortTable, recordIdText, retainedTable } from './fragments.js';
import { type Fence, fenceCte } from './lanes.js';
import {
  type Exclusions,
  type LockedRows,
  type Selection,
  type TenantSlice,
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

export interface Mutation {
  readonly selection: Selection<BookedSlice>;
  readonly locked: LockedRows;
  readonly exclusions: Exclusions;
  readonly fence: Fence;
  readonly passId: string;
  readonly now: Date;
}

export interface MutationResult {
  readonly fenced: boolean;
  readonly changed: number;
}

/**
 * One batch: fence, mutation, row details and progress, in one statement. The fence comes first and the mutation is
 * joined to it, so that an owner whose pass was recovered changes nothing. The statement's snapshot is younger than
 * the locks, hence it sees every hold that was committed before they were taken, and all predicates are checked again.
 */
export async function mutateLocked(tx: Executor, mutation: Mutation): Promise<MutationResult> {
  const { selection, fence } = mutation;
  const { entry, strategy, cohortSchema, slices } = selection;
  const wantsDetail = slices.some((slice) => slice.rowDetail);
  const { rows } = await sql<{ fenced: string; changed: string }>`
    with fence as materialized (${fenceCte(fence, cohortSchema)}),
    p as materialized (${tenantRows(selection, [
      { name: 'sweep_id', array: sql`${slices.map((slice) => slice.sweepId)}::pg_catalog.uuid[]` },
      { name: 'row_detail', array: sql`${slices.map((slice) => slice.rowDetail)}::pg_catalog.bool[]` },
      { name: 'tenant_id', array: sql`${slices.map((slice) => slice.tenantId)}::pg_catalog.text[]` },
    ])}),
    changed as (
      ${change(mutation)}
      returning p.sweep_id, p.tenant_id, p.row_detail, ${wantsDetail ? recordIdText('t', entry) : sql`null::pg_catalog.text`} as record_id
    )${wantsDetail ? sql`, details as (${insertDetails(mutation)})` : sql``},
    progress as (
      insert into ${cohortTable(cohortSchema, 'progress')} (pass_id, sweep_id, retention_entity_id, category, tenant_id, strategy, affected)
      select ${mutation.passId}::pg_catalog.uuid, c.sweep_id, ${entry.entityId}::pg_catalog.uuid, ${entry.category}, c.tenant_id, ${strategy},
        pg_catalog.count(*)
      from changed as c
      group by c.sweep_id, c.tenant_id
    )
    select (select pg_catalog.count(*) from fence) as fenced, pg_catalog.count(*) as changed
    from changed as c`.execute(tx);
  const row = rows[0]!;
  return { fenced: row.fenced === '1', changed: Number(row.changed) };
}

function change({ selection, locked, exclusions, now }: Mutation): Fragment {
  const { entry, strategy } = selection;
  const where = sql`where ${isLocked(locked)}
        and ${eligible(selection, exclusions)}`;
  if (strategy === Strategy.Purge) return sql`delete from ${retainedTable(entry)} as t using fence, p ${where}`;
  const assignments = strategy === Strategy.SoftDelete ? softDeletion(entry, now) : anonymisation(entry, now);
  return sql`update ${retainedTable(entry)} as t set ${sql.join(assignments)} from fence, p ${where}`;
}

function softDeletion(entry: RetentionEntry, now: Date): Fragment[] {
  return [
    ...(entry.softDeleteFlag ? [sql`${sql.id(entry.softDeleteFlag.name)} = true`] : []),
    ...(entry.deletedAt ? [stamp(entry.deletedAt.name, now)] : []),
  ];
}

function anonymisation(entry: RetentionEntry, now: Date): Fragment[] {
  const values = entry.scrubs.map((scrub) => {
    const value = scrub.method === AnonymiseMethod.Null ? null : (scrub.literal ?? '');
    return sql`${sql.id(scrub.column.name)} = ${value}::${castType(scrub.column)}`;
  });
  return [...values, stamp(entry.anonymisedAt!.name, now)];
}

function stamp(column: string, now: Date): Fragment {
  return sql`${sql.id(column)} = ${now.toISOString()}::pg_catalog.timestamptz`;
}

function insertDetails({ selection }: Mutation): Fragment {
  const { entry, strategy, cohortSchema } = selection;
  return sql`
      insert into ${cohortTable(cohortSchema, 'rowDetail')}
        (sweep_id, at, entity_type, retention_entity_id, record_id, category, strategy, tenant_id, outcome, handled)
      select c.sweep_id, pg_catalog.statement_timestamp(), ${entry.entityName}, ${entry.entityId}::pg_catalog.uuid, c.record_id,
        ${entry.category}, ${strategy}, c.tenant_id, 'affected', false
      from changed as c
      where c.row_detail`;
}
