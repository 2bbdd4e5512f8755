import { CohortConfigurationError, DryRunOnlyError, RunLostError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import type { TenantContext } from '../domain/tenant-context.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { writeSummaries } from '../sql/ledger.js';
import { type LedgerSummary, selectPassSummaries } from '../sql/ledger-read.js';
import type { OccurrenceClaim } from '../sql/occurrences.js';
import { type Selection, countSelection } from '../sql/selection.js';
import { RowsLockedError, remedyFor } from './batch-failure.js';
import { type EngineContext, inLedger } from './context.js';
import { type EntitySweepCount, NOTHING, type Tally, foreseen, leftOver, toSummary } from './counts.js';
import { type EntityFailure, sanitise } from './failure.js';
import { type MutatingWalk, keyPathsOf, limitWalk, selectForWalk } from './limit-walk.js';
import { type Pass, type RunStatus, type SettledPass, withPass } from './pass.js';
import { type Walk, planWalks } from './plan.js';
import { recoverAbandoned } from './recover.js';
import { tellSummaries } from './tell.js';
import { type TableFacts, loadTableFacts, orderByForeignKeys, ownTableProblems, scopeProblems } from './table-facts.js';

export interface SweepRequest {
  readonly tenants: readonly TenantContext[];
  readonly now: Date;
  readonly dryRun: boolean;
  readonly actor: string | null;
  readonly signal: AbortSignal | undefined;
  /** The slot of the schedule that is swept. Undefined: somebody asked. */
  readonly occurrence?: OccurrenceClaim | undefined;
}

/** What one run came to. The same numbers stand in the ledger. */
export interface RetentionSweepResult {
  readonly sweepId: string;
  readonly passId: string;
  /** The zero UUID for a tenantless run. */
  readonly tenantId: string;
  readonly dryRun: boolean;
  readonly status: RunStatus;
  readonly startedAt: Date;
  readonly completedAt: Date;
  readonly counts: readonly EntitySweepCount[];
  readonly entityFailures: readonly EntityFailure[];
}

/** One pass over a set of tenants, one of them or thousands: recover, start, plan, walk by walk, settle. */
export async function sweepTenants(ctx: EngineContext, request: SweepRequest): Promise<RetentionSweepResult[]> {
  if (ctx.settings.dryRun && !request.dryRun) throw new DryRunOnlyError();
  await prepare(ctx);
  const trigger = request.occurrence ? 'scheduled' : 'manual';
  const settled = await withPass(ctx, { ...request, trigger }, async (pass) => {
    const facts = await loadTableFacts(ctx);
    const plan = await planWalks(ctx, orderByForeignKeys(facts), pass.runs, {
      now: request.now,
      signal: pass.signal,
    });
    for (const { entry, sweepId, error } of plan.failures) failEntity(ctx, pass, entry, [sweepId], error);
    for (const walk of plan.walks) await sweepEntity(ctx, pass, walk, facts.get(walk.entry)!);
  });
  return toResults(ctx, settled);
}

/** What every pass begins with: its own tables are usable, and what others left behind is ended. */
export async function prepare(ctx: EngineContext): Promise<void> {
  const problems = await ownTableProblems(ctx);
  if (problems.length === 0) problems.push(...(await scopeProblems(ctx)));
  if (problems.length > 0) throw new CohortConfigurationError(problems);
  await recoverAbandoned(ctx);
}

/** One walk. Whatever goes wrong in it fails its entity and nothing else, unless the pass itself is over. */
export async function sweepEntity(ctx: EngineContext, pass: Pass, walk: Walk, facts: TableFacts): Promise<void> {
  pass.signal.throwIfAborted();
  try {
    if (facts.problems.length > 0) throw new CohortConfigurationError(facts.problems);
    if (!isMutating(walk)) {
      await record(ctx, pass, walk, () => NOTHING);
      await tellSummaries(pass, walk, () => NOTHING);
    } else if (pass.dryRun) await dryRun(ctx, pass, walk);
    else await mutate(ctx, pass, walk, facts);
  } catch (error) {
    if (remedyFor(error, pass.signal) === 'stop') throw error;
    const sweepIds = walk.slices.map((slice) => slice.sweepId);
    failEntity(ctx, pass, walk.entry, sweepIds, error, error instanceof RowsLockedError ? ';locked' : '');
  }
}

function isMutating(walk: Walk): walk is MutatingWalk {
  return walk.strategy !== Strategy.Exempt;
}

async function dryRun(ctx: EngineContext, pass: Pass, walk: MutatingWalk): Promise<void> {
  const selection = selectForWalk(ctx, walk, walk.slices);
  const counts = await inLedger(ctx, (tx) => countSelection(tx, selection, { refused: [], keyPaths: [] }));
  const bySlice = new Map(counts.map((count) => [count.slice, foreseen(count)]));
  await record(ctx, pass, walk, (slice) => bySlice.get(slice) ?? NOTHING);
  await tellSummaries(pass, walk, (slice) => bySlice.get(slice) ?? NOTHING);
}

/** Summaries of zeros, batches, then what is left and why. What was affected is folded in from the batches' own progress. */
async function mutate(ctx: EngineContext, pass: Pass, walk: MutatingWalk, facts: TableFacts): Promise<void> {
  await record(ctx, pass, walk, () => NOTHING);
  const keyPaths = keyPathsOf(walk, facts);
  const selection = selectForWalk(ctx, walk, walk.slices);
  const most = await mostRows(ctx, selection, facts);
  const { refused, refusal, affectedByRun } = await limitWalk(ctx, pass, walk, facts, most);
  const exclusions = { refused: [...refused], keyPaths, handled: ctx.handlers.has(walk.entry.entityId) };
  const counts = await inLedger(ctx, (tx) => countSelection(tx, selection, exclusions));
  const bySlice = new Map(counts.map((count) => [count.slice, leftOver(count, keyPaths)]));
  await record(ctx, pass, walk, (slice) => bySlice.get(slice));
  const measured = { entity: walk.entry.entityName, strategy: walk.strategy };
  for (const [slice, tally] of bySlice) ctx.meter?.leftOver(measured, walk.slices[slice]!.tenantId, tally);
  await tellSummaries(pass, walk, (slice, { sweepId }) => ({
    ...(bySlice.get(slice) ?? NOTHING),
    affected: affectedByRun.get(sweepId) ?? 0,
  }));

  const withRefusals = counts.filter((count) => count.refused > 0).map((count) => walk.slices[count.slice]!.sweepId);
  if (withRefusals.length > 0) failEntity(ctx, pass, walk.entry, withRefusals, refusal, `;refusedRows=${refused.size}`);
}

/** A trigger may put a row back under another id for every one that goes: then as many are changed as were due at the start. */
async function mostRows(ctx: EngineContext, selection: Selection, facts: TableFacts): Promise<number> {
  if (!facts.hasTriggers) return Infinity;
  const counts = await inLedger(ctx, (tx) => countSelection(tx, selection, { refused: [], keyPaths: [] }));
  return counts.reduce((sum, count) => sum + count.left, 0);
}

/** Writes the summaries of the slices that have something to say, fenced by the first lane. */
async function record(
  ctx: EngineContext,
  pass: Pass,
  walk: Walk,
  tallyOf: (slice: number) => Tally | undefined,
): Promise<void> {
  const summaries = walk.slices.flatMap((slice, index) => {
    const tally = tallyOf(index);
    return tally ? [toSummary(walk, slice, tally)] : [];
  });
  if (summaries.length === 0) return;
  const fenced = await inLedger(ctx, (tx) =>
    writeSummaries(tx, ctx.registry.cohortSchema, pass.fences[0]!, walk.entry, summaries),
  );
  if (!fenced) throw new RunLostError(pass.passId);
}

/** One sanitised failure, under one diagnostic id, for every run that it touches. */
export function failEntity(
  ctx: EngineContext,
  pass: Pass,
  entry: RetentionEntry,
  sweepIds: readonly string[],
  error: unknown,
  extra = '',
): void {
  const { entityName: entity, entityId } = entry;
  const envelope = `entity=${entity} (${entityId});${sanitise(ctx, `Entity ${entity} in pass ${pass.passId}`, error, extra)}`;
  for (const sweepId of sweepIds) {
    pass.failures.set(sweepId, [...(pass.failures.get(sweepId) ?? []), { entity, entityId, error: envelope }]);
  }
}

/** The results are read back from the ledger, so that the two cannot disagree. */
export async function toResults(ctx: EngineContext, { pass, settled }: SettledPass): Promise<RetentionSweepResult[]> {
  const summaries = await inLedger(ctx, (tx) => selectPassSummaries(tx, ctx.registry.cohortSchema, pass.passId));
  const bySweep = Map.groupBy(summaries, (summary) => summary.sweepId);
  return pass.runs.map(({ sweepId, tenantId }) => {
    const run = settled.get(sweepId)!;
    return {
      sweepId,
      passId: pass.passId,
      tenantId,
      dryRun: pass.dryRun,
      status: run.status,
      startedAt: run.startedAt,
      completedAt: run.settledAt,
      counts: (bySweep.get(sweepId) ?? []).map(toCount),
      entityFailures: pass.failures.get(sweepId) ?? [],
    };
  });
}

function toCount(summary: LedgerSummary): EntitySweepCount {
  const { entity, entityId, category, tenantId, strategy, affected, held, skipped, nullAnchor, skippedByCause } =
    summary;
  return { entity, entityId, category, tenantId, strategy, affected, held, skipped, nullAnchor, skippedByCause };
}
