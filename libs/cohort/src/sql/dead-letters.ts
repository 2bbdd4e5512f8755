import { sql } from 'kysely';
import { type Fragment, cohortTable, eq, millis } from './fragments.js';
import type { Executor } from './transaction.js';

/** Work that nobody tries any more. */
export interface DeadLetter {
  readonly id: string;
  readonly sweepId: string;
  readonly entity: string;
  readonly entityId: string;
  readonly recordId: string;
  readonly tenantId: string;
  /** The handler's identity: its UUID, or the name of its class. */
  readonly handler: string;
  readonly attempts: number;
  readonly queuedAt: Date;
  readonly deadAt: Date;
  /** Why: type, machine code and diagnostic id of an error, or a text of Cohort's own. */
  readonly error: string;
  /** `skipped`: `onBefore` failed, so the row itself was left alone. */
  readonly outcome: 'affected' | 'skipped';
}

const DISCARDED = 'discarded: ';

/** Somebody looked at it and said that nothing is to be done. */
export function isDiscarded(alias: string): Fragment {
  return sql`pg_catalog.starts_with(${sql.id(alias)}.last_error, ${DISCARDED})`;
}

/** Dead letters that nobody has discarded, in the order in which they were queued, after `afterId`. */
export async function selectDeadLetters(
  tx: Executor,
  cohortSchema: string,
  afterId: string,
  limit: number,
): Promise<DeadLetter[]> {
  const { rows } = await sql<Record<string, string> & { attempts: number }>`
    select s.id, s.sweep_id as "sweepId", d.entity_type as entity, d.retention_entity_id as "entityId", d.record_id as "recordId",
      d.tenant_id as "tenantId", s.handler_type as handler, s.attempt as attempts, ${millis(sql`s.queued_at`)} as "queuedAt",
      ${millis(sql`s.completed_at`)} as "deadAt", s.last_error as error, d.outcome
    from ${cohortTable(cohortSchema, 'handlerStatus')} as s
    join ${cohortTable(cohortSchema, 'rowDetail')} as d on d.sweep_id ${eq} s.sweep_id and d.id ${eq} s.row_detail_id
    where s.state ${eq} 'deadLettered' and not ${isDiscarded('s')} and s.id operator(pg_catalog.>) ${afterId}::pg_catalog.int8
    order by s.id
    limit ${limit}`.execute(tx);
  return rows.map(
    (row) =>
      ({
        ...row,
        queuedAt: new Date(Number(row['queuedAt'])),
        deadAt: new Date(Number(row['deadAt'])),
      }) as unknown as DeadLetter,
  );
}

/** What keeps a dead letter from being queued again; null: nothing does. */
export type RequeueObstacle =
  'notFound' | 'notDeadLettered' | 'discarded' | 'rowNotChanged' | 'payloadCleared' | 'earlierDeadLetter';

export interface RequeueCandidate {
  readonly id: string;
  readonly obstacle: RequeueObstacle | null;
}

/**
 * Locks the dead letters of the rows that are asked for, all of them: with one go those that ended because of it. In one
 * order, and before any row detail, as settlement and pruning do. Work that is not dead is not locked, so that none of this
 * ever waits for a settlement that waits for it.
 */
export async function lockDeadLetters(tx: Executor, cohortSchema: string, ids: readonly string[]): Promise<void> {
  const status = cohortTable(cohortSchema, 'handlerStatus');
  await sql`
    select s.id
    from ${status} as s
    where s.state ${eq} 'deadLettered' and exists (
      select 1 from ${status} as a
      where a.sweep_id ${eq} s.sweep_id and a.row_detail_id ${eq} s.row_detail_id and a.id ${eq} any(${[...ids]}::pg_catalog.int8[])
    )
    order by s.id
    for update of s`.execute(tx);
}

/**
 * Says of each dead letter that is locked already whether it may be queued again, and keeps its snapshot as it is from here
 * on: where a scrub is at it, what that leaves is looked at again.
 */
export async function lockForRequeue(
  tx: Executor,
  cohortSchema: string,
  ids: readonly string[],
): Promise<RequeueCandidate[]> {
  const status = cohortTable(cohortSchema, 'handlerStatus');
  const asked = sql`${[...ids]}::pg_catalog.int8[]`;
  const { rows } = await sql<RequeueCandidate>`
    select s.id, case
      when s.state operator(pg_catalog.<>) 'deadLettered' then 'notDeadLettered'
      when ${isDiscarded('s')} then 'discarded'
      when d.outcome ${eq} 'skipped' then 'rowNotChanged'
      when d.captured_payload is null then 'payloadCleared'
      when exists (
        select 1 from ${status} as e
        where e.sweep_id ${eq} s.sweep_id and e.row_detail_id ${eq} s.row_detail_id and e.id operator(pg_catalog.<) s.id
          and e.state ${eq} 'deadLettered' and not ${isDiscarded('e')} and e.id operator(pg_catalog.<>) all(${asked})
      ) then 'earlierDeadLetter'
    end as obstacle
    from ${status} as s
    join ${cohortTable(cohortSchema, 'rowDetail')} as d on d.sweep_id ${eq} s.sweep_id and d.id ${eq} s.row_detail_id
    where s.id ${eq} any(${asked})
    order by s.id
    for share of d`.execute(tx);
  return rows;
}

/** Puts dead letters back into the queue, as if they had never been tried, with what ended because of them. */
export async function requeueWork(
  tx: Executor,
  cohortSchema: string,
  ids: readonly string[],
  dependentSkipped: string,
): Promise<string[]> {
  const status = cohortTable(cohortSchema, 'handlerStatus');
  const asked = sql`${[...ids]}::pg_catalog.int8[]`;
  const { rows } = await sql<{ id: string }>`
    update ${status} as s
    set state = 'pending', attempt = 0, next_attempt_at = pg_catalog.statement_timestamp(), completed_at = null, last_error = null
    where s.state ${eq} 'deadLettered' and (s.id ${eq} any(${asked}) or (s.last_error ${eq} ${dependentSkipped} and exists (
      select 1 from ${status} as e
      where e.sweep_id ${eq} s.sweep_id and e.row_detail_id ${eq} s.row_detail_id and e.id operator(pg_catalog.<) s.id and e.id ${eq} any(${asked})
    )))
    returning s.id`.execute(tx);
  return rows.map((row) => row.id).sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
}

export interface DiscardedWork {
  readonly id: string;
  readonly sweepId: string;
  readonly rowDetailId: string;
}

/** Marks dead letters that are locked already as looked at, with the reason. */
export async function discardWork(
  tx: Executor,
  cohortSchema: string,
  ids: readonly string[],
  reason: string,
): Promise<DiscardedWork[]> {
  const { rows } = await sql<DiscardedWork>`
    with discarded as (
      update ${cohortTable(cohortSchema, 'handlerStatus')} as s
      set last_error = ${DISCARDED + reason}
      where s.state ${eq} 'deadLettered' and not ${isDiscarded('s')} and s.id ${eq} any(${[...ids]}::pg_catalog.int8[])
      returning s.id, s.sweep_id, s.row_detail_id
    )
    select x.id, x.sweep_id as "sweepId", x.row_detail_id as "rowDetailId" from discarded as x order by x.id`.execute(
    tx,
  );
  return rows;
}
