import { sql } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { type Fragment, cohortTable, eq, millis } from './fragments.js';
import { isDiscarded } from './dead-letters.js';
import type { Executor } from './transaction.js';

/** A row that was left alone, because a handler could not capture it. */
export interface SkippedRow {
  readonly sweepId: string;
  readonly tenantId: string;
  readonly recordId: string;
  readonly handlerType: string;
  readonly phase: string;
  readonly error: string;
}

export interface SkippedIn {
  readonly entry: RetentionEntry;
  readonly strategy: string;
  readonly at: Date;
}

/** Writes such rows down, without payload, each with a dead letter of the handler that failed and of no other. */
export async function insertSkippedRows(
  tx: Executor,
  cohortSchema: string,
  { entry, strategy, at }: SkippedIn,
  skipped: readonly SkippedRow[],
): Promise<void> {
  const instant = sql`${at.toISOString()}::pg_catalog.timestamptz`;
  const texts = (key: keyof SkippedRow) => sql`pg_catalog.unnest(${skipped.map((row) => row[key])}::pg_catalog.text[])`;
  await sql`
    with skipped as materialized (
      select r.* from rows from (
        pg_catalog.unnest(${skipped.map((row) => row.sweepId)}::pg_catalog.uuid[]),
        ${texts('tenantId')}, ${texts('recordId')}, ${texts('handlerType')}, ${texts('phase')}, ${texts('error')}
      ) as r(sweep_id, tenant_id, record_id, handler_type, phase, error)
    ),
    details as (
      insert into ${cohortTable(cohortSchema, 'rowDetail')}
        (sweep_id, at, entity_type, retention_entity_id, record_id, category, strategy, tenant_id, outcome, handled)
      select r.sweep_id, ${instant}, ${entry.entityName}, ${entry.entityId}::pg_catalog.uuid, r.record_id, ${entry.category}, ${strategy},
        r.tenant_id, 'skipped', true
      from skipped as r
      returning sweep_id, id, record_id
    )
    insert into ${cohortTable(cohortSchema, 'handlerStatus')}
      (sweep_id, row_detail_id, handler_type, dispatch_phase, state, attempt, queued_at, next_attempt_at, completed_at, last_error)
    select d.sweep_id, d.id, r.handler_type, r.phase, 'deadLettered', 1, ${instant}, ${instant}, pg_catalog.statement_timestamp(), r.error
    from details as d
    join skipped as r on r.sweep_id ${eq} d.sweep_id and r.record_id ${eq} d.record_id`.execute(tx);
}

const UNSETTLED = sql`any ('{pending,inFlight}')`;

function ago(ms: number): Fragment {
  return sql`(pg_catalog.statement_timestamp() operator(pg_catalog.-) (${ms}::pg_catalog.float8 operator(pg_catalog.*) interval '1 millisecond'))`;
}

/** The same row's handlers: `a` and `b` are statuses. */
function ofOneRow(a: string, b: string): Fragment {
  const [left, right] = [sql.id(a), sql.id(b)];
  return sql`${left}.sweep_id ${eq} ${right}.sweep_id and ${left}.row_detail_id ${eq} ${right}.row_detail_id`;
}

export interface ClaimRequest {
  readonly limit: number;
  readonly token: string;
  /** Whether work that has failed is tried again at once. */
  readonly ignoreBackoff: boolean;
}

/** One work of one handler for one row, which only the holder of the token may settle. */
export interface ClaimedWork {
  readonly id: string;
  readonly token: string;
  readonly attempt: number;
  readonly handlerType: string;
  readonly payload: string | null;
  readonly sweepId: string;
  readonly rowDetailId: string;
  readonly entity: string;
  readonly entityId: string;
  readonly recordId: string;
  readonly category: string;
  readonly strategy: string;
  readonly tenantId: string;
  readonly at: Date;
}

/**
 * Claims work that is due, oldest first, passing over what somebody else claims at this moment. Work waits for every
 * earlier handler of its row, whoever does that, so that the handlers of a row never overtake each other; and, where it
 * asks for that, for the end of its run.
 */
export async function claimWork(tx: Executor, cohortSchema: string, request: ClaimRequest): Promise<ClaimedWork[]> {
  const status = cohortTable(cohortSchema, 'handlerStatus');
  const { rows } = await sql<Record<string, string> & { payload: string | null; attempt: number }>`
    with due as materialized (
      select s.id
      from ${status} as s
      where s.state ${eq} 'pending'
        ${request.ignoreBackoff ? sql`` : sql`and s.next_attempt_at operator(pg_catalog.<=) pg_catalog.statement_timestamp()`}
        and (s.dispatch_phase ${eq} 'immediate' or exists (
          select 1 from ${cohortTable(cohortSchema, 'run')} as r
          where r.sweep_id ${eq} s.sweep_id and r.status operator(pg_catalog.<>) 'started' and r.settled_at is not null
        ))
        and not exists (
          select 1 from ${status} as e
          where ${ofOneRow('e', 's')} and e.id operator(pg_catalog.<) s.id and e.state ${eq} ${UNSETTLED}
        )
      order by s.next_attempt_at, s.id
      limit ${request.limit}
      for update of s skip locked
    )
    update ${status} as s
    set state = 'inFlight', claimed_at = pg_catalog.statement_timestamp(), claim_token = ${request.token}::pg_catalog.uuid,
      attempt = s.attempt operator(pg_catalog.+) 1
    from due
    join ${status} as w on w.id ${eq} due.id
    join ${cohortTable(cohortSchema, 'rowDetail')} as d on d.sweep_id ${eq} w.sweep_id and d.id ${eq} w.row_detail_id
    where s.id ${eq} due.id and s.state ${eq} 'pending'
    returning s.id, s.attempt, s.handler_type as "handlerType", d.captured_payload as payload, s.sweep_id as "sweepId",
      s.row_detail_id as "rowDetailId", d.entity_type as entity, d.retention_entity_id as "entityId", d.record_id as "recordId",
      d.category, d.strategy, d.tenant_id as "tenantId", ${millis(sql`d.at`)} as at`.execute(tx);
  return rows
    .map((row) => ({ ...row, token: request.token, at: new Date(Number(row['at'])) }) as unknown as ClaimedWork)
    .sort((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1));
}

/** How one claimed work ended. */
export interface WorkOutcome {
  readonly id: string;
  readonly token: string;
  readonly state: 'succeeded' | 'pending' | 'deadLettered';
  /** Until the next attempt, for work that goes back. */
  readonly delayMs: number;
  /** Attempts that were counted and never made. */
  readonly unmade: number;
  readonly error: string | null;
}

/** A row whose handlers may all be done now. */
export interface TouchedRow {
  readonly sweepId: string;
  readonly rowDetailId: string;
}

/** An earlier handler of the row is a dead letter, so this one never ran. */
export const DEPENDENT_SKIPPED = 'An earlier handler of this row is a dead letter; this one was not called.';
const CLAIM_EXHAUSTED = 'The process that had claimed this work gave no sign of life; it was the last attempt.';

/**
 * Settles work, each only if its claim is still ours: what a newer claim has taken over is left alone. With a handler that
 * ends as a dead letter, the later handlers of its row end too. Returns the rows that were touched.
 */
export async function settleWork(
  tx: Executor,
  cohortSchema: string,
  outcomes: readonly WorkOutcome[],
): Promise<TouchedRow[]> {
  const json = JSON.stringify(outcomes);
  const { rows } = await sql<TouchedRow>`
    with outcome as materialized (
      select j.* from pg_catalog.jsonb_to_recordset(${json}::pg_catalog.jsonb) as j(
        id pg_catalog.int8, token pg_catalog.uuid, state pg_catalog.text, "delayMs" pg_catalog.float8, unmade pg_catalog.int4, error pg_catalog.text)
    ),
    settled as (
      update ${cohortTable(cohortSchema, 'handlerStatus')} as s
      set state = o.state, claimed_at = null, claim_token = null, last_error = o.error, attempt = s.attempt operator(pg_catalog.-) o.unmade,
        completed_at = case when o.state operator(pg_catalog.<>) 'pending' then pg_catalog.statement_timestamp() end,
        next_attempt_at = case when o.state ${eq} 'pending'
          then pg_catalog.statement_timestamp() operator(pg_catalog.+) (o."delayMs" operator(pg_catalog.*) interval '1 millisecond')
          else s.next_attempt_at end
      from outcome as o
      where s.id ${eq} o.id and s.state ${eq} 'inFlight' and s.claim_token ${eq} o.token
      returning s.id, s.sweep_id, s.row_detail_id, s.state
    ),
    dependents as (${endDependents(cohortSchema, sql`settled`)})
    select distinct s.sweep_id as "sweepId", s.row_detail_id as "rowDetailId" from settled as s where s.state operator(pg_catalog.<>) 'pending'`.execute(
    tx,
  );
  return rows;
}

/** Ends what stands behind a dead letter of `settled`. */
function endDependents(cohortSchema: string, settled: Fragment): Fragment {
  return sql`
      update ${cohortTable(cohortSchema, 'handlerStatus')} as s
      set state = 'deadLettered', claimed_at = null, claim_token = null, completed_at = pg_catalog.statement_timestamp(), last_error = ${DEPENDENT_SKIPPED}
      from ${settled} as l
      where ${ofOneRow('s', 'l')} and s.id operator(pg_catalog.>) l.id and l.state ${eq} 'deadLettered' and s.state ${eq} ${UNSETTLED}
      returning s.id`;
}

/**
 * Takes claims whose lease has run out from their owners: back into the queue, or among the dead letters where that was the
 * last attempt. The owner may still be at work; its token no longer settles anything.
 */
export async function expireClaims(
  tx: Executor,
  cohortSchema: string,
  lease: { readonly claimTimeoutMs: number; readonly maxAttempts: number },
): Promise<TouchedRow[]> {
  const status = cohortTable(cohortSchema, 'handlerStatus');
  const isLast = sql`s.attempt operator(pg_catalog.>=) ${lease.maxAttempts}::pg_catalog.int4`;
  const { rows } = await sql<TouchedRow>`
    with expired as materialized (
      select s.id from ${status} as s
      where s.state ${eq} 'inFlight' and s.claimed_at operator(pg_catalog.<=) ${ago(lease.claimTimeoutMs)}
      order by s.id
      for update of s skip locked
    ),
    settled as (
      update ${status} as s
      set state = case when ${isLast} then 'deadLettered' else 'pending' end, claimed_at = null, claim_token = null,
        completed_at = case when ${isLast} then pg_catalog.statement_timestamp() end,
        last_error = case when ${isLast} then ${CLAIM_EXHAUSTED} else s.last_error end,
        next_attempt_at = pg_catalog.statement_timestamp()
      from expired as x
      where s.id ${eq} x.id and s.state ${eq} 'inFlight'
      returning s.id, s.sweep_id, s.row_detail_id, s.state
    ),
    dependents as (${endDependents(cohortSchema, sql`settled`)})
    select distinct s.sweep_id as "sweepId", s.row_detail_id as "rowDetailId" from settled as s where s.state ${eq} 'deadLettered'`.execute(
    tx,
  );
  return rows;
}

/** A snapshot that holds nothing. */
const EMPTY_PAYLOAD = '{}';

/**
 * Clears the payloads of rows whose handlers are all done. What a dead letter needs to be queued again stays, until that is
 * discarded: nothing personal is in an empty snapshot, and any other only stays as long as the host asked for
 * (`keepForDeadLetters`). A statement after the one that settled or discarded, so that it sees what that did.
 */
export async function clearPayloads(
  tx: Executor,
  cohortSchema: string,
  touched: readonly TouchedRow[],
  keepForDeadLetters: boolean,
): Promise<void> {
  const ofRow = sql`e.sweep_id ${eq} d.sweep_id and e.row_detail_id ${eq} d.id`;
  await sql`
    update ${cohortTable(cohortSchema, 'rowDetail')} as d
    set captured_payload = null
    from rows from (
      pg_catalog.unnest(${touched.map((row) => row.sweepId)}::pg_catalog.uuid[]),
      pg_catalog.unnest(${touched.map((row) => row.rowDetailId)}::pg_catalog.int8[])
    ) as t(sweep_id, id)
    where d.sweep_id ${eq} t.sweep_id and d.id ${eq} t.id and d.captured_payload is not null
      and not exists (
        select 1 from ${cohortTable(cohortSchema, 'handlerStatus')} as e where ${ofRow} and e.state ${eq} ${UNSETTLED}
      )
      and not ((${keepForDeadLetters} or d.captured_payload ${eq} ${EMPTY_PAYLOAD}) and exists (
        select 1 from ${cohortTable(cohortSchema, 'handlerStatus')} as e where ${ofRow} and e.state ${eq} 'deadLettered' and not ${isDiscarded('e')}
      ))`.execute(tx);
}

/** How long snapshots are kept. */
export type PayloadAges = Record<'payloadRetentionMs' | 'deadLetterPayloadRetentionMs', number>;

/** A snapshot of `d` that is too old, whatever waits for it, or that of dead letters that nobody queued again in time. */
function isScrubbed(cohortSchema: string, { payloadRetentionMs, deadLetterPayloadRetentionMs }: PayloadAges): Fragment {
  const ofRow = sql`e.sweep_id ${eq} d.sweep_id and e.row_detail_id ${eq} d.id`;
  return sql`d.handled and d.captured_payload is not null and (
        d.at operator(pg_catalog.<) ${ago(payloadRetentionMs)}
        or (d.captured_payload operator(pg_catalog.<>) ${EMPTY_PAYLOAD} and not exists (
          select 1 from ${cohortTable(cohortSchema, 'handlerStatus')} as e
          where ${ofRow} and (e.state ${eq} ${UNSETTLED}
            or (e.state ${eq} 'deadLettered' and not ${isDiscarded('e')} and e.completed_at operator(pg_catalog.>=) ${ago(deadLetterPayloadRetentionMs)}))
        ))
      )`;
}

/** Locks rows whose snapshot may go. What somebody else is at is left to the next time: it may just be queued again. */
export async function lockOldPayloads(
  tx: Executor,
  cohortSchema: string,
  ages: PayloadAges,
  limit: number,
): Promise<TouchedRow[]> {
  const { rows } = await sql<TouchedRow>`
    select d.sweep_id as "sweepId", d.id as "rowDetailId"
    from ${cohortTable(cohortSchema, 'rowDetail')} as d
    where ${isScrubbed(cohortSchema, ages)}
    limit ${limit}
    for update of d skip locked`.execute(tx);
  return rows;
}

/**
 * Clears the snapshots of locked rows, with the whole condition again: a dead letter may have been queued again between the
 * snapshot of the statement that locked and its lock. Returns how many there were.
 */
export async function scrubPayloads(
  tx: Executor,
  cohortSchema: string,
  ages: PayloadAges,
  locked: readonly TouchedRow[],
): Promise<number> {
  const { numAffectedRows } = await sql`
    update ${cohortTable(cohortSchema, 'rowDetail')} as d
    set captured_payload = null
    from rows from (
      pg_catalog.unnest(${locked.map((row) => row.sweepId)}::pg_catalog.uuid[]),
      pg_catalog.unnest(${locked.map((row) => row.rowDetailId)}::pg_catalog.int8[])
    ) as t(sweep_id, id)
    where d.sweep_id ${eq} t.sweep_id and d.id ${eq} t.id
      and ${isScrubbed(cohortSchema, ages)}`.execute(tx);
  return Number(numAffectedRows);
}

export interface QueueState {
  readonly inFlight: number;
  readonly pending: number;
  /** Work that nobody tries any more, and nobody discarded. */
  readonly deadLetters: number;
  /** Age of the oldest work that is not done; 0 where there is none. */
  readonly oldestSeconds: number;
}

/** How the queue stands, for whoever watches it. */
export async function selectQueueState(tx: Executor, cohortSchema: string): Promise<QueueState> {
  const { rows } = await sql<Record<keyof QueueState, string>>`
    select pg_catalog.count(*) filter (where s.state ${eq} 'inFlight') as "inFlight",
      pg_catalog.count(*) filter (where s.state ${eq} 'pending') as pending,
      pg_catalog.count(*) filter (where s.state ${eq} 'deadLettered' and not ${isDiscarded('s')}) as "deadLetters",
      coalesce(extract(epoch from pg_catalog.statement_timestamp() operator(pg_catalog.-)
        pg_catalog.min(s.queued_at) filter (where s.state ${eq} ${UNSETTLED})), 0) as "oldestSeconds"
    from ${cohortTable(cohortSchema, 'handlerStatus')} as s
    where s.state ${eq} any ('{pending,inFlight,deadLettered}')`.execute(tx);
  const { inFlight, pending, deadLetters, oldestSeconds } = rows[0]!;
  return {
    inFlight: Number(inFlight),
    pending: Number(pending),
    deadLetters: Number(deadLetters),
    oldestSeconds: Math.max(0, Number(oldestSeconds)),
  };
}

/** How much work is left, claimed or not. */
export async function countUnsettled(
  tx: Executor,
  cohortSchema: string,
): Promise<{ readonly inFlight: number; readonly pending: number }> {
  const { rows } = await sql<{ inFlight: string; pending: string }>`
    select pg_catalog.count(*) filter (where s.state ${eq} 'inFlight') as "inFlight",
      pg_catalog.count(*) filter (where s.state ${eq} 'pending') as pending
    from ${cohortTable(cohortSchema, 'handlerStatus')} as s
    where s.state ${eq} ${UNSETTLED}`.execute(tx);
  return { inFlight: Number(rows[0]!.inFlight), pending: Number(rows[0]!.pending) };
}
