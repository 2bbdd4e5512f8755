import { sql } from 'kysely';
import { type Fragment, cohortTable, eq } from './fragments.js';
import type { Executor } from './transaction.js';

/** Proof that a lane of a pass is still ours. */
export interface Fence {
  readonly passId: string;
  readonly lane: number;
  readonly token: string;
}

/**
 * Touches the lane and returns one row, or none when the pass was recovered or settled, or `condition` does not hold.
 * Joined in front of whatever it guards.
 */
export function fenceCte(fence: Fence, cohortSchema: string, condition?: Fragment): Fragment {
  return sql`update ${cohortTable(cohortSchema, 'lane')} as l
      set heartbeat_at = pg_catalog.clock_timestamp()
      where l.pass_id ${eq} ${fence.passId}::pg_catalog.uuid and l.lane ${eq} ${fence.lane}::pg_catalog.int4
        and l.token ${eq} ${fence.token}::pg_catalog.uuid and l.status ${eq} 'started'${condition ? sql` and ${condition}` : sql``}
      returning 1`;
}

export interface PassRow {
  readonly passId: string;
  readonly trigger: string;
  readonly dryRun: boolean;
  readonly tokens: readonly string[];
  /** The slot of the schedule that the pass sweeps. */
  readonly slot: Date | null;
}

export async function insertPass(tx: Executor, cohortSchema: string, pass: PassRow): Promise<void> {
  await sql`
    with pass as (
      insert into ${cohortTable(cohortSchema, 'pass')} (pass_id, trigger_kind, dry_run, status, started_at, slot)
      values (${pass.passId}::pg_catalog.uuid, ${pass.trigger}, ${pass.dryRun}, 'started', pg_catalog.statement_timestamp(), ${pass.slot?.toISOString() ?? null}::pg_catalog.timestamptz)
    )
    insert into ${cohortTable(cohortSchema, 'lane')} (pass_id, lane, token, status, heartbeat_at)
    select ${pass.passId}::pg_catalog.uuid, l.lane, l.token, 'started', pg_catalog.statement_timestamp()
    from pg_catalog.unnest(${[...pass.tokens]}::pg_catalog.uuid[]) with ordinality as l(token, lane)`.execute(tx);
}

/** Says that the pass lives. A lane that is in the middle of a batch is locked, which says as much, and is passed over. */
export async function beat(tx: Executor, cohortSchema: string, passId: string): Promise<number> {
  const { rows } = await sql<{ started: string }>`
    with touched as (
      update ${cohortTable(cohortSchema, 'lane')} as l
      set heartbeat_at = pg_catalog.clock_timestamp()
      where l.pass_id ${eq} ${passId}::pg_catalog.uuid and l.status ${eq} 'started'
        and l.lane ${eq} any (
          select k.lane from ${cohortTable(cohortSchema, 'lane')} as k
          where k.pass_id ${eq} ${passId}::pg_catalog.uuid and k.status ${eq} 'started'
          for update skip locked
        )
    )
    select pg_catalog.count(*) as started from ${cohortTable(cohortSchema, 'lane')} as s
    where s.pass_id ${eq} ${passId}::pg_catalog.uuid and s.status ${eq} 'started'`.execute(tx);
  return Number(rows[0]!.started);
}

function ago(ms: number): Fragment {
  return sql`(pg_catalog.statement_timestamp() operator(pg_catalog.-) (${ms} operator(pg_catalog.*) interval '1 millisecond'))`;
}

/** Started passes of which no lane has given a sign of life for `staleMs`, by the database's clock. */
export async function selectAbandoned(tx: Executor, cohortSchema: string, staleMs: number): Promise<string[]> {
  const { rows } = await sql<{ pass_id: string }>`
    select p.pass_id from ${cohortTable(cohortSchema, 'pass')} as p
    where p.status ${eq} 'started'
      and not exists (
        select 1 from ${cohortTable(cohortSchema, 'lane')} as l
        where l.pass_id ${eq} p.pass_id and l.heartbeat_at operator(pg_catalog.>) ${ago(staleMs)}
      )
    order by p.started_at
    limit 100`.execute(tx);
  return rows.map((row) => row.pass_id);
}

/**
 * Locks the lanes of an abandoned pass and looks again. Null: somebody else is at it, a batch is still open in it (its
 * lane is locked), or it has come back to life.
 */
export async function lockAbandoned(
  tx: Executor,
  cohortSchema: string,
  passId: string,
  staleMs: number,
): Promise<string[] | null> {
  const { rows } = await sql<{ token: string; stale: boolean; lanes: string }>`
    select l.token,
      l.heartbeat_at operator(pg_catalog.<=) ${ago(staleMs)} as stale,
      (select pg_catalog.count(*) from ${cohortTable(cohortSchema, 'lane')} as a where a.pass_id ${eq} ${passId}::pg_catalog.uuid) as lanes
    from ${cohortTable(cohortSchema, 'lane')} as l
    where l.pass_id ${eq} ${passId}::pg_catalog.uuid and l.status ${eq} 'started'
    for update of l skip locked`.execute(tx);
  if (rows.length === 0 || rows.length < Number(rows[0]!.lanes) || rows.some((row) => !row.stale)) return null;
  return rows.map((row) => row.token);
}
