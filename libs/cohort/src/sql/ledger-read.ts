import { sql } from 'kysely';
import type { Strategy } from '../domain/strategy.js';
import { type Fragment, cohortTable, eq, fromMillis, millis } from './fragments.js';
import type { Executor } from './transaction.js';

export interface LedgerRun {
  readonly sweepId: string;
  readonly passId: string;
  readonly trigger: 'scheduled' | 'manual' | 'erasure' | 'deletion';
  readonly dryRun: boolean;
  readonly tenantId: string;
  readonly status: 'started' | 'succeeded' | 'partiallyFailed' | 'failed' | 'cancelled';
  readonly startedAt: Date;
  readonly settledAt: Date | null;
  readonly durationMs: number | null;
  readonly totalAffected: number;
  readonly logicalNow: Date;
  readonly actor: string | null;
  /** Kinds of identifiers that an erasure was asked for, joined by commas. Null for other runs, and for a whole tenant. */
  readonly erasureSubjectKind: string | null;
  readonly engineVersion: string;
  readonly error: string | null;
}

export interface LedgerSummary {
  readonly sweepId: string;
  readonly entity: string;
  readonly entityId: string;
  readonly category: string;
  readonly tenantId: string;
  readonly strategy: Strategy;
  readonly at: Date;
  readonly cutoff: Date | null;
  readonly resolvedPeriod: string;
  readonly period: string;
  readonly legalMin: string | null;
  readonly affected: number;
  readonly held: number;
  readonly skipped: number;
  readonly nullAnchor: number;
  readonly skippedByCause: Readonly<Record<string, number>>;
  readonly ruleSource: string | null;
  readonly ruleReason: string | null;
}

export interface LedgerRowDetail {
  readonly id: string;
  readonly at: Date;
  readonly entity: string;
  readonly entityId: string;
  readonly recordId: string;
  readonly category: string;
  readonly strategy: Strategy;
  readonly tenantId: string;
}

export interface RunQuery {
  readonly tenantId?: string | undefined;
  /** Runs older than this one, in the order of the listing. */
  readonly after?: { readonly startedAt: Date; readonly sweepId: string } | undefined;
  readonly sweepId?: string | undefined;
  readonly limit: number;
}

/** Runs, newest first. The total of a run in progress includes what its batches have appended and nobody has folded yet. */
export async function selectRuns(tx: Executor, cohortSchema: string, query: RunQuery): Promise<LedgerRun[]> {
  const { rows } = await sql<Record<string, string | null> & { dryRun: boolean }>`
    select r.sweep_id as "sweepId", r.pass_id as "passId", r.trigger_kind as trigger, r.dry_run as "dryRun", r.tenant_id as "tenantId",
      r.status, ${millis(sql`r.started_at`)} as "startedAt", ${millis(sql`r.settled_at`)} as "settledAt", r.duration_ms as "durationMs",
      r.total_affected operator(pg_catalog.+) coalesce((
        select pg_catalog.sum(p.affected)::pg_catalog.int8 from ${cohortTable(cohortSchema, 'progress')} as p where p.sweep_id ${eq} r.sweep_id
      ), 0) as "totalAffected",
      ${millis(sql`r.logical_now`)} as "logicalNow", r.actor, r.erasure_subject_kind as "erasureSubjectKind", r.engine_version as "engineVersion", r.error
    from ${cohortTable(cohortSchema, 'run')} as r
    where true
      ${query.sweepId === undefined ? sql`` : sql`and r.sweep_id ${eq} ${query.sweepId}::pg_catalog.uuid`}
      ${query.tenantId === undefined ? sql`` : sql`and r.tenant_id ${eq} ${query.tenantId}`}
      ${
        query.after
          ? sql`and (pg_catalog.date_trunc('milliseconds', r.started_at), r.sweep_id) operator(pg_catalog.<) (${query.after.startedAt.toISOString()}::pg_catalog.timestamptz, ${query.after.sweepId}::pg_catalog.uuid)`
          : sql``
      }
    order by pg_catalog.date_trunc('milliseconds', r.started_at) desc, r.sweep_id desc
    limit ${query.limit}`.execute(tx);
  return rows.map(
    (row) =>
      ({
        ...row,
        startedAt: fromMillis(row.startedAt),
        settledAt: fromMillis(row.settledAt),
        durationMs: row.durationMs === null ? null : Number(row.durationMs),
        totalAffected: Number(row.totalAffected),
        logicalNow: fromMillis(row.logicalNow),
      }) as LedgerRun,
  );
}

/** Summaries of one run, with progress that nobody has folded yet. */
export function selectRunSummaries(tx: Executor, cohortSchema: string, sweepId: string): Promise<LedgerSummary[]> {
  return selectSummaries(tx, cohortSchema, sql`s.sweep_id ${eq} ${sweepId}::pg_catalog.uuid`);
}

/** Summaries of all runs of one pass. */
export function selectPassSummaries(tx: Executor, cohortSchema: string, passId: string): Promise<LedgerSummary[]> {
  return selectSummaries(
    tx,
    cohortSchema,
    sql`s.sweep_id ${eq} any (select r.sweep_id from ${cohortTable(cohortSchema, 'run')} as r where r.pass_id ${eq} ${passId}::pg_catalog.uuid)`,
  );
}

async function selectSummaries(tx: Executor, cohortSchema: string, where: Fragment): Promise<LedgerSummary[]> {
  const { rows } = await sql<Record<string, string | null> & { skippedByCause: Record<string, number> }>`
    select s.sweep_id as "sweepId", s.entity_type as entity, s.retention_entity_id as "entityId", s.category, s.tenant_id as "tenantId",
      s.strategy, ${millis(sql`s.at`)} as at, ${millis(sql`s.cutoff`)} as cutoff, s.resolved_period as "resolvedPeriod", s.period,
      s.legal_min as "legalMin",
      s.affected operator(pg_catalog.+) coalesce((
        select pg_catalog.sum(p.affected)::pg_catalog.int8 from ${cohortTable(cohortSchema, 'progress')} as p
        where p.sweep_id ${eq} s.sweep_id and p.retention_entity_id ${eq} s.retention_entity_id and p.strategy ${eq} s.strategy
      ), 0) as affected,
      s.held_count as held, s.skipped_count as skipped, s.null_anchor_count as "nullAnchor", s.skipped_by_cause as "skippedByCause",
      s.rule_source as "ruleSource", s.rule_reason as "ruleReason"
    from ${cohortTable(cohortSchema, 'summary')} as s
    where ${where}
    order by s.sweep_id, s.at, s.entity_type, s.strategy`.execute(tx);
  return rows.map(
    (row) =>
      ({
        ...row,
        at: fromMillis(row.at),
        cutoff: fromMillis(row.cutoff),
        affected: Number(row.affected),
        held: Number(row.held),
        skipped: Number(row.skipped),
        nullAnchor: Number(row.nullAnchor),
      }) as LedgerSummary,
  );
}

/** Row details of one run in the order in which they were written, after `afterId`. */
export async function selectRowDetails(
  tx: Executor,
  cohortSchema: string,
  sweepId: string,
  afterId: string,
  limit: number,
): Promise<LedgerRowDetail[]> {
  const { rows } = await sql<Record<string, string>>`
    select d.id, ${millis(sql`d.at`)} as at, d.entity_type as entity, d.retention_entity_id as "entityId", d.record_id as "recordId",
      d.category, d.strategy, d.tenant_id as "tenantId"
    from ${cohortTable(cohortSchema, 'rowDetail')} as d
    where d.sweep_id ${eq} ${sweepId}::pg_catalog.uuid and d.id operator(pg_catalog.>) ${afterId}::pg_catalog.int8 and d.outcome ${eq} 'affected'
    order by d.id
    limit ${limit}`.execute(tx);
  return rows.map((row) => ({ ...row, at: fromMillis(row.at) }) as unknown as LedgerRowDetail);
}
