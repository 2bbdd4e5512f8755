import { sql } from 'kysely';
import { type Fragment, cohortTable, eq } from './fragments.js';
import type { Executor } from './transaction.js';

/** What was settled, released or expired before these instants may go. Null: nothing of that class. */
export interface PruneBefore {
  readonly succeededRuns: Date | null;
  readonly failedRuns: Date | null;
  readonly inactiveHolds: Date | null;
}

function instant(date: Date | null): Fragment {
  return sql`${date?.toISOString() ?? null}::pg_catalog.timestamptz`;
}

/**
 * Locks runs whose time is over, oldest first. A run counts as succeeded if it is and none of its handler work is dead.
 * One that was not settled, or has work that is not done, is never among them. Comparing with no instant is true for none.
 */
export async function lockPrunableRuns(
  tx: Executor,
  cohortSchema: string,
  { succeededRuns, failedRuns }: PruneBefore,
  limit: number,
): Promise<string[]> {
  const work = (states: Fragment) => sql`exists (
        select 1 from ${cohortTable(cohortSchema, 'handlerStatus')} as s
        where s.sweep_id ${eq} r.sweep_id and s.state ${eq} ${states})`;
  const { rows } = await sql<{ sweepId: string }>`
    select r.sweep_id as "sweepId"
    from ${cohortTable(cohortSchema, 'run')} as r
    where r.status operator(pg_catalog.<>) 'started'
      and r.settled_at operator(pg_catalog.<) greatest(${instant(succeededRuns)}, ${instant(failedRuns)})
      and r.settled_at operator(pg_catalog.<) case when r.status ${eq} 'succeeded' and not ${work(sql`'deadLettered'`)}
        then ${instant(succeededRuns)} else ${instant(failedRuns)} end
      and not ${work(sql`any ('{pending,inFlight}')`)}
    order by r.settled_at, r.sweep_id
    limit ${limit}
    for update of r skip locked`.execute(tx);
  return rows.map((row) => row.sweepId);
}

/**
 * Locks the handler work of runs, so that nobody queues a dead letter again from here on, and names the runs where somebody
 * just has. In the order in which a requeue locks.
 */
export async function lockHandlerWork(
  tx: Executor,
  cohortSchema: string,
  sweepIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ sweepId: string }>`
    with work as materialized (
      select s.sweep_id, s.state from ${cohortTable(cohortSchema, 'handlerStatus')} as s
      where s.sweep_id ${eq} any(${[...sweepIds]}::pg_catalog.uuid[])
      order by s.id
      for update of s
    )
    select distinct w.sweep_id as "sweepId" from work as w where w.state ${eq} any ('{pending,inFlight}')`.execute(tx);
  return new Set(rows.map((row) => row.sweepId));
}

/** Row details go with the handler work that belongs to them, which the foreign key takes along. */
export async function deleteRowDetails(tx: Executor, cohortSchema: string, sweepIds: readonly string[]): Promise<void> {
  await sql`
    delete from ${cohortTable(cohortSchema, 'rowDetail')} as d
    where d.sweep_id ${eq} any(${[...sweepIds]}::pg_catalog.uuid[])`.execute(tx);
}

export async function deleteSummaries(tx: Executor, cohortSchema: string, sweepIds: readonly string[]): Promise<void> {
  await sql`
    delete from ${cohortTable(cohortSchema, 'summary')} as s
    where s.sweep_id ${eq} any(${[...sweepIds]}::pg_catalog.uuid[])`.execute(tx);
}

export async function deleteRuns(tx: Executor, cohortSchema: string, sweepIds: readonly string[]): Promise<void> {
  await sql`
    delete from ${cohortTable(cohortSchema, 'run')} as r
    where r.sweep_id ${eq} any(${[...sweepIds]}::pg_catalog.uuid[])`.execute(tx);
}

/**
 * Ended passes without a run, with their lanes: their runs were pruned, by whomever, or there was no tenant to sweep. Found
 * by themselves and not through the runs that go, since of two replicas that prune a run each of one pass, neither sees the
 * other's gone. Returns how many there were.
 */
export async function deleteEmptyPasses(
  tx: Executor,
  cohortSchema: string,
  endedBefore: Date,
  limit: number,
): Promise<number> {
  const pass = cohortTable(cohortSchema, 'pass');
  const { rows } = await sql<{ count: string }>`
    with empty as materialized (
      select p.pass_id from ${pass} as p
      where p.status operator(pg_catalog.<>) 'started' and p.settled_at operator(pg_catalog.<) ${instant(endedBefore)}
        and not exists (select 1 from ${cohortTable(cohortSchema, 'run')} as r where r.pass_id ${eq} p.pass_id)
      limit ${limit}
      for update of p skip locked
    ),
    lanes as (
      delete from ${cohortTable(cohortSchema, 'lane')} as l
      using empty as e
      where l.pass_id ${eq} e.pass_id
    ),
    gone as (
      delete from ${pass} as p
      using empty as e
      where p.pass_id ${eq} e.pass_id
      returning 1
    )
    select pg_catalog.count(*) as count from gone`.execute(tx);
  return Number(rows[0]!.count);
}

/** Holds that ended before an instant, by release or expiry, whichever came first. Returns how many there were. */
export async function deleteInactiveHolds(
  tx: Executor,
  cohortSchema: string,
  endedBefore: Date,
  limit: number,
): Promise<number> {
  const holds = cohortTable(cohortSchema, 'holds');
  const { rows } = await sql<{ count: string }>`
    with ended as materialized (
      select h.hold_id from ${holds} as h
      where least(h.removed_at, h.expires_at) operator(pg_catalog.<) ${instant(endedBefore)}
      order by least(h.removed_at, h.expires_at), h.hold_id
      limit ${limit}
      for update of h skip locked
    ),
    gone as (
      delete from ${holds} as h
      using ended as e
      where h.hold_id ${eq} e.hold_id
      returning 1
    )
    select pg_catalog.count(*) as count from gone`.execute(tx);
  return Number(rows[0]!.count);
}
