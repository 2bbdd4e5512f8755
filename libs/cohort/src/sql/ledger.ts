import { sql } from 'kysely';
import { cohortTable, eq, millis } from './fragments.js';
import { type Fence, fenceCte } from './lanes.js';
import type { Executor } from './transaction.js';

export interface RunRow {
  readonly sweepId: string;
  readonly tenantId: string;
}

export interface RunsHeader {
  readonly passId: string;
  readonly trigger: string;
  readonly dryRun: boolean;
  readonly now: Date;
  readonly actor: string | null;
  readonly engineVersion: string;
  /** Kinds of identifiers that an erasure was asked for. */
  readonly subjectKind: string | null;
}

/** Started rows of all runs of a pass. Returns the instant that they were stamped with. */
export async function insertRuns(
  tx: Executor,
  cohortSchema: string,
  header: RunsHeader,
  runs: readonly RunRow[],
): Promise<Date> {
  const { rows } = await sql<{ at: string }>`
    with runs as (
      insert into ${cohortTable(cohortSchema, 'run')}
        (sweep_id, pass_id, trigger_kind, dry_run, tenant_id, status, started_at, total_affected, logical_now, actor, engine_version,
         erasure_subject_kind)
      select r.sweep_id, ${header.passId}::pg_catalog.uuid, ${header.trigger}, ${header.dryRun}, r.tenant_id, 'started',
        pg_catalog.statement_timestamp(), 0, ${header.now.toISOString()}::pg_catalog.timestamptz, ${header.actor}, ${header.engineVersion},
        ${header.subjectKind}
      from rows from (
        pg_catalog.unnest(${runs.map((run) => run.sweepId)}::pg_catalog.uuid[]),
        pg_catalog.unnest(${runs.map((run) => run.tenantId)}::pg_catalog.text[])
      ) as r(sweep_id, tenant_id)
    )
    select ${millis(sql`pg_catalog.statement_timestamp()`)} as at`.execute(tx);
  return new Date(Number(rows[0]!.at));
}

export interface SummaryRow {
  readonly sweepId: string;
  readonly tenantId: string;
  readonly strategy: string;
  readonly cutoff: Date | null;
  readonly resolvedPeriod: string;
  readonly period: string;
  readonly legalMin: string | null;
  readonly ruleSource: string | null;
  readonly ruleReason: string | null;
  readonly affected: number;
  readonly held: number;
  readonly skipped: number;
  readonly nullAnchor: number;
  readonly skippedByCause: Readonly<Record<string, number>>;
}

export interface SummarisedEntity {
  readonly entityId: string;
  readonly entityName: string;
  readonly category: string;
}

/**
 * Writes the summaries of one walk, one a tenant: zeros before its first batch, the counts after its last. What has
 * been affected is only ever written here by a dry run; a real run's is folded in from its progress. False: fenced off.
 */
export async function writeSummaries(
  tx: Executor,
  cohortSchema: string,
  fence: Fence,
  entity: SummarisedEntity,
  summaries: readonly SummaryRow[],
): Promise<boolean> {
  const json = JSON.stringify(
    summaries.map((each) => ({
      sweep_id: each.sweepId,
      tenant_id: each.tenantId,
      strategy: each.strategy,
      cutoff: each.cutoff,
      resolved_period: each.resolvedPeriod,
      period: each.period,
      legal_min: each.legalMin,
      rule_source: each.ruleSource,
      rule_reason: each.ruleReason,
      affected: each.affected,
      held_count: each.held,
      skipped_count: each.skipped,
      null_anchor_count: each.nullAnchor,
      skipped_by_cause: each.skippedByCause,
    })),
  );
  const { rows } = await sql<{ fenced: string }>`
    with fence as materialized (${fenceCte(fence, cohortSchema)}),
    written as (
      insert into ${cohortTable(cohortSchema, 'summary')} as s
        (sweep_id, retention_entity_id, category, tenant_id, strategy, entity_type, at, cutoff, resolved_period, period, legal_min,
         rule_source, rule_reason, affected, held_count, skipped_count, null_anchor_count, skipped_by_cause)
      select j.sweep_id, ${entity.entityId}::pg_catalog.uuid, ${entity.category}, j.tenant_id, j.strategy, ${entity.entityName},
        pg_catalog.statement_timestamp(), j.cutoff, j.resolved_period, j.period, j.legal_min, j.rule_source, j.rule_reason,
        j.affected, j.held_count, j.skipped_count, j.null_anchor_count, j.skipped_by_cause
      from fence, pg_catalog.jsonb_to_recordset(${json}::pg_catalog.jsonb) as j(
        sweep_id pg_catalog.uuid, tenant_id pg_catalog.text, strategy pg_catalog.text, cutoff pg_catalog.timestamptz,
        resolved_period pg_catalog.text, period pg_catalog.text, legal_min pg_catalog.text, rule_source pg_catalog.text,
        rule_reason pg_catalog.text, affected pg_catalog.int8, held_count pg_catalog.int8, skipped_count pg_catalog.int8,
        null_anchor_count pg_catalog.int8, skipped_by_cause pg_catalog.jsonb)
      on conflict (sweep_id, retention_entity_id, category, tenant_id, strategy) do update
      set at = excluded.at, held_count = excluded.held_count, skipped_count = excluded.skipped_count,
        null_anchor_count = excluded.null_anchor_count, skipped_by_cause = excluded.skipped_by_cause
    )
    select pg_catalog.count(*) as fenced from fence`.execute(tx);
  return rows[0]!.fenced === '1';
}

export interface ProgressRow {
  readonly sweepId: string;
  readonly tenantId: string;
  readonly entityId: string;
  readonly category: string;
  readonly strategy: string;
  readonly affected: number;
}

/** Counts of changes that the same transaction made elsewhere. False: fenced off, and the transaction must not commit. */
export async function appendProgress(
  tx: Executor,
  cohortSchema: string,
  fence: Fence,
  progress: readonly ProgressRow[],
): Promise<boolean> {
  const json = JSON.stringify(
    progress.map((each) => ({
      sweep_id: each.sweepId,
      retention_entity_id: each.entityId,
      category: each.category,
      tenant_id: each.tenantId,
      strategy: each.strategy,
      affected: each.affected,
    })),
  );
  const { rows } = await sql<{ fenced: string }>`
    with fence as materialized (${fenceCte(fence, cohortSchema)}),
    appended as (
      insert into ${cohortTable(cohortSchema, 'progress')} (pass_id, sweep_id, retention_entity_id, category, tenant_id, strategy, affected)
      select ${fence.passId}::pg_catalog.uuid, j.sweep_id, j.retention_entity_id, j.category, j.tenant_id, j.strategy, j.affected
      from fence, pg_catalog.jsonb_to_recordset(${json}::pg_catalog.jsonb) as j(
        sweep_id pg_catalog.uuid, retention_entity_id pg_catalog.uuid, category pg_catalog.text, tenant_id pg_catalog.text,
        strategy pg_catalog.text, affected pg_catalog.int8)
    )
    select pg_catalog.count(*) as fenced from fence`.execute(tx);
  return rows[0]!.fenced === '1';
}

export interface FailedEntity {
  readonly sweepId: string;
  readonly entityId: string;
}

/** An entity that failed before its first batch was committed leaves no summary: nothing was found out about it. */
export async function deleteUnstartedSummaries(
  tx: Executor,
  cohortSchema: string,
  failed: readonly FailedEntity[],
): Promise<void> {
  await sql`
    delete from ${cohortTable(cohortSchema, 'summary')} as s
    using rows from (
      pg_catalog.unnest(${failed.map((each) => each.sweepId)}::pg_catalog.uuid[]),
      pg_catalog.unnest(${failed.map((each) => each.entityId)}::pg_catalog.uuid[])
    ) as f(sweep_id, entity_id)
    where s.sweep_id ${eq} f.sweep_id and s.retention_entity_id ${eq} f.entity_id and s.held_count ${eq} 0 and s.skipped_count ${eq} 0 and s.null_anchor_count ${eq} 0
      and not exists (
        select 1 from ${cohortTable(cohortSchema, 'progress')} as p
        where p.sweep_id ${eq} s.sweep_id and p.retention_entity_id ${eq} s.retention_entity_id and p.strategy ${eq} s.strategy
      )`.execute(tx);
}

export interface Settlement {
  readonly sweepId: string;
  readonly status: string;
  readonly error: string | null;
}

export interface SettledRun {
  readonly sweepId: string;
  readonly tenantId: string;
  readonly trigger: string;
  readonly dryRun: boolean;
  readonly startedAt: Date;
  readonly settledAt: Date;
  readonly totalAffected: number;
}

interface SettledRow extends Pick<SettledRun, 'sweepId' | 'tenantId' | 'trigger' | 'dryRun'> {
  readonly startedAt: string;
  readonly settledAt: string;
  readonly total: string;
}

/**
 * Ends a pass in one fenced statement: its lanes close, appended progress is folded into summaries and totals in the
 * order of their keys, and every run that is still started gets its terminal state. A run settles exactly once: the
 * lanes can be closed by one owner only. Runs not named in `settlements` get `otherwise`.
 */
export async function settlePass(
  tx: Executor,
  cohortSchema: string,
  pass: { readonly passId: string; readonly tokens: readonly string[]; readonly as: 'settled' | 'recovered' },
  settlements: readonly Settlement[],
  otherwise: Omit<Settlement, 'sweepId'>,
): Promise<SettledRun[]> {
  const passId = sql`${pass.passId}::pg_catalog.uuid`;
  const { rows } = await sql<SettledRow>`
    with fence as materialized (
      update ${cohortTable(cohortSchema, 'lane')} as l set status = ${pass.as}
      where l.pass_id ${eq} ${passId} and l.status ${eq} 'started' and l.token ${eq} any(${[...pass.tokens]}::pg_catalog.uuid[])
      returning l.lane
    ),
    owned as materialized (select pg_catalog.count(*) ${eq} ${pass.tokens.length} as whole from fence),
    ended as (
      update ${cohortTable(cohortSchema, 'pass')} as p set status = ${pass.as}, settled_at = pg_catalog.statement_timestamp()
      from owned where owned.whole and p.pass_id ${eq} ${passId} and p.status ${eq} 'started'
    ),
    folded as (
      delete from ${cohortTable(cohortSchema, 'progress')} as g using owned
      where owned.whole and g.pass_id ${eq} ${passId}
      returning g.sweep_id, g.retention_entity_id, g.category, g.tenant_id, g.strategy, g.affected
    ),
    by_summary as materialized (
      select f.sweep_id, f.retention_entity_id, f.category, f.tenant_id, f.strategy, pg_catalog.sum(f.affected)::pg_catalog.int8 as affected
      from folded as f
      group by f.sweep_id, f.retention_entity_id, f.category, f.tenant_id, f.strategy
      order by f.sweep_id, f.retention_entity_id, f.category, f.tenant_id, f.strategy
    ),
    summaries as (
      update ${cohortTable(cohortSchema, 'summary')} as s set affected = s.affected operator(pg_catalog.+) b.affected
      from by_summary as b
      where s.sweep_id ${eq} b.sweep_id and s.retention_entity_id ${eq} b.retention_entity_id and s.category ${eq} b.category
        and s.tenant_id ${eq} b.tenant_id and s.strategy ${eq} b.strategy
    ),
    by_run as materialized (select b.sweep_id, pg_catalog.sum(b.affected)::pg_catalog.int8 as affected from by_summary as b group by b.sweep_id),
    counted as materialized (
      -- a dry run has no progress; what it would have done stands in its summaries
      select r.sweep_id, coalesce(b.affected, 0) operator(pg_catalog.+) case when r.dry_run then coalesce((
        select pg_catalog.sum(s.affected)::pg_catalog.int8 from ${cohortTable(cohortSchema, 'summary')} as s where s.sweep_id ${eq} r.sweep_id
      ), 0) else 0 end as affected
      from ${cohortTable(cohortSchema, 'run')} as r
      left join by_run as b on b.sweep_id ${eq} r.sweep_id
      where r.pass_id ${eq} ${passId}
    ),
    outcome as materialized (
      select j.sweep_id, j.status, j.error
      from pg_catalog.jsonb_to_recordset(${JSON.stringify(
        settlements.map((each) => ({ sweep_id: each.sweepId, status: each.status, error: each.error })),
      )}::pg_catalog.jsonb) as j(sweep_id pg_catalog.uuid, status pg_catalog.text, error pg_catalog.text)
    )
    update ${cohortTable(cohortSchema, 'run')} as r
    set status = coalesce(o.status, ${otherwise.status}),
      error = case when o.status is null then ${otherwise.error} else o.error end,
      settled_at = pg_catalog.statement_timestamp(),
      duration_ms = greatest(0, (extract(epoch from pg_catalog.statement_timestamp() operator(pg_catalog.-) r.started_at) operator(pg_catalog.*) 1000)::pg_catalog.int8),
      total_affected = c.affected
    from owned, counted as c left join outcome as o on o.sweep_id ${eq} c.sweep_id
    where owned.whole and r.sweep_id ${eq} c.sweep_id and r.status ${eq} 'started'
    returning r.sweep_id as "sweepId", r.tenant_id as "tenantId", r.trigger_kind as trigger, r.dry_run as "dryRun", ${millis(sql`r.started_at`)} as "startedAt", ${millis(sql`r.settled_at`)} as "settledAt",
      r.total_affected as total`.execute(tx);
  return rows.map(({ startedAt, settledAt, total, ...run }) => ({
    ...run,
    startedAt: new Date(Number(startedAt)),
    settledAt: new Date(Number(settledAt)),
    totalAffected: Number(total),
  }));
}
