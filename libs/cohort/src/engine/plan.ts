import { InvalidArgumentError } from '../cohort.errors.js';
import { sweepCutoff } from '../domain/cutoff.js';
import type { RetentionRule } from '../domain/retention-rule.js';
import { AuditRowDetail, type Strategy } from '../domain/strategy.js';
import { TENANTLESS, type TenantContext } from '../domain/tenant-context.js';
import { fitsType } from '../registry/column-type.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import type { BookedSlice } from '../sql/mutate.js';
import type { SubjectMatch } from '../sql/selection.js';
import type { EngineContext } from './context.js';

/** One tenant's share of a walk. */
export interface PlannedSlice extends BookedSlice {
  readonly rule: RetentionRule;
  readonly resolvedPeriod: string;
}

/** All tenants that one strategy is due for on one entity. */
export interface Walk {
  readonly entry: RetentionEntry;
  readonly strategy: Strategy;
  readonly slices: readonly PlannedSlice[];
  /** Of an erasure: what identifies the person in this entity; none for a whole tenant. */
  readonly subjects?: readonly SubjectMatch[] | undefined;
}

export interface PlannedRun {
  readonly sweepId: string;
  readonly tenant: TenantContext;
  /** The tenant's id as the ledger keeps it. */
  readonly tenantId: string;
}

export interface PlanFailure {
  readonly entry: RetentionEntry;
  readonly sweepId: string;
  readonly error: unknown;
}

export interface Plan {
  readonly walks: readonly Walk[];
  readonly failures: readonly PlanFailure[];
}

export interface PlanRequest {
  readonly now: Date;
  readonly signal: AbortSignal | undefined;
  /** Default: that of a sweep. */
  readonly cutoffOf?: (rule: RetentionRule, now: Date) => { readonly at: Date | null; readonly period: string };
}

/**
 * Resolves every rule first, before any row is locked: a slow provider never holds up the application. `entries` come in
 * the order in which they are swept. A rule that cannot be resolved fails its entity for its tenant, nothing else.
 */
export async function planWalks(
  ctx: Pick<EngineContext, 'rules'>,
  entries: readonly RetentionEntry[],
  runs: readonly PlannedRun[],
  { now, signal, cutoffOf = sweepCutoff }: PlanRequest,
): Promise<Plan> {
  const walks: Walk[] = [];
  const failures: PlanFailure[] = [];
  for (const entry of entries) {
    const byStrategy = new Map<Strategy, PlannedSlice[]>();
    for (const run of runs) {
      signal?.throwIfAborted();
      if ((run.tenant === TENANTLESS) !== (entry.tenant === null)) continue;
      try {
        const slice = await planSlice(ctx, entry, run, { now, cutoffOf });
        const slices = byStrategy.get(slice.rule.strategy);
        if (slices) slices.push(slice);
        else byStrategy.set(slice.rule.strategy, [slice]);
      } catch (error) {
        failures.push({ entry, sweepId: run.sweepId, error });
      }
    }
    for (const strategy of [...byStrategy.keys()].sort())
      walks.push({ entry, strategy, slices: byStrategy.get(strategy)! });
  }
  return { walks, failures };
}

async function planSlice(
  { rules }: Pick<EngineContext, 'rules'>,
  entry: RetentionEntry,
  run: PlannedRun,
  { now, cutoffOf }: Required<Pick<PlanRequest, 'now' | 'cutoffOf'>>,
): Promise<PlannedSlice> {
  requireTenantOfType(entry, run.tenant);
  const rule = await rules.resolve({ category: entry.category, tenant: run.tenant, now });
  const cutoff = cutoffOf(rule, now);
  const detail = entry.auditRowDetail === AuditRowDetail.Inherit ? rule.auditRowDetail : entry.auditRowDetail;
  return {
    tenantId: run.tenantId,
    sweepId: run.sweepId,
    cutoff: cutoff.at,
    resolvedPeriod: cutoff.period,
    rowDetail: detail === AuditRowDetail.PerRow,
    rule,
  };
}

/** One id that cannot be cast would fail the statement of every other tenant. */
function requireTenantOfType(entry: RetentionEntry, tenant: TenantContext): void {
  if (entry.tenant && !fitsType(entry.tenant.type, tenant.id)) {
    throw new InvalidArgumentError(
      'tenant.id',
      tenant.id,
      `a value of ${entry.entityName}.${entry.tenant.property}, which is ${entry.tenant.type}`,
    );
  }
}
