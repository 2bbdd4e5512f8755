import { sql } from 'kysely';
import { type Fragment, cohortTable, eq, millis } from './fragments.js';
import type { Executor } from './transaction.js';

/** A slot of the schedule that one replica owns, as long as its lease runs and nobody else has claimed it since. */
export interface OccurrenceClaim {
  readonly slot: Date;
  readonly dryRun: boolean;
  readonly token: string;
}

export interface Claimed {
  readonly won: boolean;
  /** The slot that another replica sweeps at this moment. */
  readonly busyWith: Date | null;
}

const NOBODY = '00000000-0000-0000-0000-000000000000';

function instant(date: Date): Fragment {
  return sql`${date.toISOString()}::pg_catalog.timestamptz`;
}

/** By the database's clock: the replicas' own need not agree. */
function inMs(ms: number): Fragment {
  return sql`(pg_catalog.statement_timestamp() operator(pg_catalog.+) (${ms} operator(pg_catalog.*) interval '1 millisecond'))`;
}

/** A claim of the same kind whose lease runs. Dry runs and real ones do not keep each other from starting. */
function running(cohortSchema: string, dryRun: boolean): Fragment {
  return sql`select b.slot from ${cohortTable(cohortSchema, 'occurrence')} as b
      where b.dry_run ${eq} ${dryRun} and b.status ${eq} 'claimed' and b.lease_until operator(pg_catalog.>) pg_catalog.statement_timestamp()
      limit 1`;
}

/** The claim as it was made, and still is. */
function owned(claim: OccurrenceClaim): Fragment {
  return sql`o.slot ${eq} ${instant(claim.slot)} and o.dry_run ${eq} ${claim.dryRun} and o.token ${eq} ${claim.token}::pg_catalog.uuid
      and o.status ${eq} 'claimed'`;
}

/** Claims a slot that nobody has claimed, unless another one is being swept. The key lets one replica win. */
export async function claimOccurrence(
  tx: Executor,
  cohortSchema: string,
  claim: OccurrenceClaim,
  leaseMs: number,
): Promise<Claimed> {
  const { rows } = await sql<{ won: string; busy: string | null }>`
    with running as materialized (${running(cohortSchema, claim.dryRun)}),
    claimed as (
      insert into ${cohortTable(cohortSchema, 'occurrence')} (slot, dry_run, token, status, lease_until, claimed_at)
      select ${instant(claim.slot)}, ${claim.dryRun}, ${claim.token}::pg_catalog.uuid, 'claimed', ${inMs(leaseMs)}, pg_catalog.statement_timestamp()
      where not exists (select 1 from running)
      on conflict (slot, dry_run) do nothing
      returning 1
    )
    select pg_catalog.count(*) as won, (select ${millis(sql`r.slot`)} from running as r) as busy from claimed`.execute(
    tx,
  );
  const { won, busy } = rows[0]!;
  return { won: won === '1', busyWith: busy === null ? null : new Date(Number(busy)) };
}

/**
 * Takes over the oldest slot whose owner let its lease run out or gave it back. `formerPassId`: the pass that the owner had
 * begun. Null: there is none, or another slot is being swept.
 */
export async function takeOverOccurrence(
  tx: Executor,
  cohortSchema: string,
  claim: Omit<OccurrenceClaim, 'slot'>,
  leaseMs: number,
): Promise<{ readonly slot: Date; readonly formerPassId: string | null } | null> {
  const { rows } = await sql<{ slot: string; formerPassId: string | null }>`
    with running as materialized (${running(cohortSchema, claim.dryRun)}),
    interrupted as materialized (
      select i.slot from ${cohortTable(cohortSchema, 'occurrence')} as i
      where i.dry_run ${eq} ${claim.dryRun} and i.status ${eq} 'claimed' and i.lease_until operator(pg_catalog.<=) pg_catalog.statement_timestamp()
        and not exists (select 1 from running)
      order by i.slot
      limit 1
      for update skip locked
    )
    update ${cohortTable(cohortSchema, 'occurrence')} as o
    set token = ${claim.token}::pg_catalog.uuid, lease_until = ${inMs(leaseMs)}, claimed_at = pg_catalog.statement_timestamp()
    from interrupted as i
    where o.slot ${eq} i.slot and o.dry_run ${eq} ${claim.dryRun}
    returning ${millis(sql`o.slot`)} as slot, o.pass_id as "formerPassId"`.execute(tx);
  const [row] = rows;
  return row ? { slot: new Date(Number(row.slot)), formerPassId: row.formerPassId } : null;
}

/**
 * Notes the pass that sweeps a slot, in the transaction that opens the pass. False: the slot is somebody else's by now, and
 * the pass must not be opened. Whoever takes the slot over waits for this row, and then sees the pass.
 */
export async function linkPass(
  tx: Executor,
  cohortSchema: string,
  claim: OccurrenceClaim,
  passId: string,
): Promise<boolean> {
  const { rows } = await sql`
    update ${cohortTable(cohortSchema, 'occurrence')} as o set pass_id = ${passId}::pg_catalog.uuid
    where ${owned(claim)}
    returning 1`.execute(tx);
  return rows.length === 1;
}

/** Prolongs a lease; with 0, gives the slot back. False: it is somebody else's by now. */
export async function renewLease(
  tx: Executor,
  cohortSchema: string,
  claim: OccurrenceClaim,
  leaseMs: number,
): Promise<boolean> {
  const { rows } = await sql`
    update ${cohortTable(cohortSchema, 'occurrence')} as o set lease_until = ${inMs(leaseMs)}
    where ${owned(claim)}
    returning 1`.execute(tx);
  return rows.length === 1;
}

/** The slot has been swept. False: it is somebody else's by now. */
export async function completeOccurrence(tx: Executor, cohortSchema: string, claim: OccurrenceClaim): Promise<boolean> {
  const { rows } = await sql`
    update ${cohortTable(cohortSchema, 'occurrence')} as o set status = 'completed', completed_at = pg_catalog.statement_timestamp()
    where ${owned(claim)}
    returning 1`.execute(tx);
  return rows.length === 1;
}

/**
 * Where a kind of slot has no history yet: an instant stands for all slots before it, so that those missed from then on can
 * be counted.
 */
export async function insertFirstOccurrence(
  tx: Executor,
  cohortSchema: string,
  at: Date,
  dryRun: boolean,
): Promise<void> {
  await sql`
    insert into ${cohortTable(cohortSchema, 'occurrence')} (slot, dry_run, token, status, lease_until, claimed_at, completed_at)
    select ${instant(at)}, ${dryRun}, ${NOBODY}::pg_catalog.uuid, 'completed', ${instant(at)}, ${instant(at)}, ${instant(at)}
    where not exists (select 1 from ${cohortTable(cohortSchema, 'occurrence')} as o where o.dry_run ${eq} ${dryRun})
    on conflict (slot, dry_run) do nothing`.execute(tx);
}

/** Completed slots that neither a late replica nor the health check will ask for: older than a day and not among the newest. */
export async function deleteOldOccurrences(tx: Executor, cohortSchema: string, dryRun: boolean): Promise<void> {
  await sql`
    delete from ${cohortTable(cohortSchema, 'occurrence')} as o
    where o.dry_run ${eq} ${dryRun} and o.status ${eq} 'completed'
      and o.slot operator(pg_catalog.<) (pg_catalog.statement_timestamp() operator(pg_catalog.-) interval '1 day')
      and o.slot operator(pg_catalog.<) (
        select k.slot from ${cohortTable(cohortSchema, 'occurrence')} as k
        where k.dry_run ${eq} ${dryRun}
        order by k.slot desc
        offset 99 limit 1
      )`.execute(tx);
}

export interface OccurrenceOutcome {
  readonly slot: Date;
  readonly completedAt: Date;
  /** Whether any of its runs failed, wholly or in part, or nothing could be begun. */
  readonly failed: boolean;
}

/** The newest completed slots of a kind, newest first. */
export async function selectOutcomes(
  tx: Executor,
  cohortSchema: string,
  dryRun: boolean,
  limit: number,
): Promise<OccurrenceOutcome[]> {
  const { rows } = await sql<{ slot: string; completedAt: string; failed: boolean }>`
    select ${millis(sql`o.slot`)} as slot, ${millis(sql`o.completed_at`)} as "completedAt",
      case when o.pass_id is null then o.token operator(pg_catalog.<>) ${NOBODY}::pg_catalog.uuid
        else exists (
          select 1 from ${cohortTable(cohortSchema, 'run')} as r
          where r.pass_id ${eq} o.pass_id and r.status ${eq} any ('{failed,partiallyFailed}'::pg_catalog.text[])
        ) end as failed
    from ${cohortTable(cohortSchema, 'occurrence')} as o
    where o.dry_run ${eq} ${dryRun} and o.status ${eq} 'completed'
    order by o.slot desc
    limit ${limit}`.execute(tx);
  return rows.map((row) => ({
    slot: new Date(Number(row.slot)),
    completedAt: new Date(Number(row.completedAt)),
    failed: row.failed,
  }));
}

/** The slot that is being swept, under a lease that runs. */
export async function selectRunning(tx: Executor, cohortSchema: string, dryRun: boolean): Promise<Date | null> {
  const { rows } = await sql<{ slot: string }>`
    with running as (${running(cohortSchema, dryRun)})
    select ${millis(sql`r.slot`)} as slot from running as r`.execute(tx);
  return rows[0] ? new Date(Number(rows[0].slot)) : null;
}
