import { RunLostError, SlotLostError } from '../cohort.errors.js';
import type { TenantContext } from '../domain/tenant-context.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import {
  type FailedEntity,
  type Settlement,
  type SettledRun,
  deleteUnstartedSummaries,
  insertRuns,
  settlePass,
} from '../sql/ledger.js';
import { type Fence, beat, insertPass } from '../sql/lanes.js';
import { type OccurrenceClaim, linkPass } from '../sql/occurrences.js';
import { notifyWaiting } from '../sql/wake.js';
import { Notifier } from '../observers/notifier.js';
import { ENGINE_VERSION } from '../version.js';
import { type EngineContext, inLedger } from './context.js';
import { type EntityFailure, joinFailures, sanitise } from './failure.js';
import { tellEnd, tellStart } from './tell.js';
import type { PlannedRun } from './plan.js';
import { type Repetition, repeat } from './repeat.js';

export type RunStatus = 'started' | 'succeeded' | 'partiallyFailed' | 'failed' | 'cancelled';

export interface PassRequest {
  readonly trigger: 'scheduled' | 'manual' | 'erasure' | 'deletion';
  readonly dryRun: boolean;
  readonly now: Date;
  readonly actor: string | null;
  readonly subjectKind?: string | null | undefined;
  readonly tenants: readonly TenantContext[];
  readonly signal: AbortSignal | undefined;
  /** The slot of the schedule that is swept; the pass is opened only while it is ours. */
  readonly occurrence?: OccurrenceClaim | undefined;
}

/** A pass in progress: one run a tenant, one fence a lane. Cancelled by the caller, or because it was lost. */
export interface Pass {
  readonly passId: string;
  readonly trigger: PassRequest['trigger'];
  readonly runs: readonly PlannedRun[];
  readonly fences: readonly Fence[];
  readonly signal: AbortSignal;
  readonly dryRun: boolean;
  readonly now: Date;
  /** Failures of entities so far, by run. */
  readonly failures: Map<string, EntityFailure[]>;
  readonly notifier: Notifier;
}

export interface SettledPass {
  readonly pass: Pass;
  readonly settled: ReadonlyMap<string, SettledRun & { readonly status: RunStatus }>;
}

/**
 * Owns the life of a pass: Started in a commit of its own, the body, a terminal state for every run, once.
 * A failure outside an entity settles the runs as failed, a cancellation as cancelled, and both are thrown on.
 */
export async function withPass(
  ctx: EngineContext,
  request: PassRequest,
  body: (pass: Pass) => Promise<void>,
): Promise<SettledPass> {
  const lost = new AbortController();
  const pass = await openPass(ctx, request, lost.signal);
  const heartbeat = startHeartbeat(ctx, pass, lost);
  try {
    await tellStart(pass, request.trigger, request.subjectKind ?? null);
    pass.signal.throwIfAborted();
    await body(pass);
    pass.signal.throwIfAborted();
    return { pass, settled: await settle(ctx, pass) };
  } catch (error) {
    await settleUnfinished(ctx, pass, error, request.signal);
    throw error;
  } finally {
    await heartbeat.end();
  }
}

async function openPass(ctx: EngineContext, request: PassRequest, lost: AbortSignal): Promise<Pass> {
  const passId = ctx.newId();
  const runs = request.tenants.map((tenant) => ({
    sweepId: ctx.newId(),
    tenant,
    tenantId: tenantIdOf(ctx.registry, tenant),
  }));
  const tokens = Array.from({ length: request.dryRun ? 1 : ctx.settings.parallelism }, () => ctx.newId());
  const { cohortSchema } = ctx.registry;
  await inLedger(ctx, async (tx) => {
    const { occurrence, trigger, dryRun } = request;
    if (occurrence && !(await linkPass(tx, cohortSchema, occurrence, passId))) throw new SlotLostError(occurrence.slot);
    await insertPass(tx, cohortSchema, { passId, trigger, dryRun, tokens, slot: occurrence?.slot ?? null });
    await insertRuns(
      tx,
      cohortSchema,
      {
        passId,
        trigger: request.trigger,
        dryRun: request.dryRun,
        now: request.now,
        actor: request.actor,
        engineVersion: ENGINE_VERSION,
        subjectKind: request.subjectKind ?? null,
      },
      runs,
    );
  });
  return {
    passId,
    trigger: request.trigger,
    runs,
    fences: tokens.map((token, index) => ({ passId, lane: index + 1, token })),
    signal: request.signal ? AbortSignal.any([request.signal, lost]) : lost,
    dryRun: request.dryRun,
    now: request.now,
    failures: new Map(),
    notifier: new Notifier({
      observers: ctx.observers,
      timeoutMs: ctx.settings.observerTimeoutMs,
      logger: ctx.logger,
    }),
  };
}

/**
 * A quarter of the least settle timeout: another replica, or this one after an update of its options, may have a shorter
 * one than was in force when the pass began.
 */
const HEARTBEAT_MS = 15_000;

/** Beats four times within the time after which others may take the pass for abandoned. */
function startHeartbeat(ctx: EngineContext, pass: Pass, lost: AbortController): Repetition {
  return repeat(HEARTBEAT_MS, async () => {
    try {
      const started = await inLedger(ctx, (tx) => beat(tx, ctx.registry.cohortSchema, pass.passId));
      if (started === 0) lost.abort(new RunLostError(pass.passId));
    } catch (error) {
      ctx.logger.warn(`Heartbeat of pass ${pass.passId} failed: ${(error as Error).name}`);
    }
  });
}

async function settle(ctx: EngineContext, pass: Pass): Promise<SettledPass['settled']> {
  const outcomes = pass.runs.map(({ sweepId }): Settlement & { status: RunStatus } => {
    const failures = pass.failures.get(sweepId) ?? [];
    return failures.length === 0
      ? { sweepId, status: 'succeeded', error: null }
      : { sweepId, status: 'partiallyFailed', error: joinFailures(failures) };
  });
  const settled = await close(ctx, pass, outcomes, { status: 'failed', error: null });
  const statuses = new Map(outcomes.map((outcome) => [outcome.sweepId, outcome.status]));
  return new Map(settled.map((run) => [run.sweepId, { ...run, status: statuses.get(run.sweepId)! }]));
}

/** The terminal write of a pass that did not get to its end. It must not hide what went wrong, so its own failure is logged. */
async function settleUnfinished(
  ctx: EngineContext,
  pass: Pass,
  error: unknown,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (error instanceof RunLostError) return;
  const cancelled = signal?.aborted === true && error === signal.reason;
  const outcome = cancelled
    ? { status: 'cancelled', error: null }
    : { status: 'failed', error: sanitise(ctx, `Pass ${pass.passId}`, error) };
  try {
    await close(ctx, pass, [], outcome);
  } catch (failure) {
    ctx.logger.error(`Pass ${pass.passId} could not be settled; it will be recovered`, failure);
  }
}

async function close(
  ctx: EngineContext,
  pass: Pass,
  outcomes: readonly Settlement[],
  otherwise: Omit<Settlement, 'sweepId'>,
): Promise<SettledRun[]> {
  const { cohortSchema } = ctx.registry;
  const failed = [...pass.failures].flatMap(([sweepId, failures]): FailedEntity[] =>
    failures.map((failure) => ({ sweepId, entityId: failure.entityId })),
  );
  const settled = await inLedger(ctx, async (tx) => {
    if (failed.length > 0) await deleteUnstartedSummaries(tx, cohortSchema, failed);
    const tokens = pass.fences.map((fence) => fence.token);
    const settled = await settlePass(
      tx,
      cohortSchema,
      { passId: pass.passId, tokens, as: 'settled' },
      outcomes,
      otherwise,
    );
    if (settled.length < pass.runs.length) throw new RunLostError(pass.passId);
    // Work that waits for the end of its run may be done now.
    if (ctx.handlers.size > 0) await notifyWaiting(tx, cohortSchema);
    return settled;
  });
  const bySweep = new Map(outcomes.map((outcome) => [outcome.sweepId, outcome]));
  measureRuns(ctx, settled, (sweepId) => (bySweep.get(sweepId) ?? otherwise).status);
  await tellEnd(pass, settled, (sweepId) => bySweep.get(sweepId) ?? otherwise);
  return settled;
}

/** Counts runs by their end, for the metrics of whoever ended them. */
export function measureRuns(
  { meter }: Pick<EngineContext, 'meter'>,
  settled: readonly SettledRun[],
  statusOf: (sweepId: string) => string,
): void {
  for (const { sweepId, tenantId, trigger, dryRun, startedAt, settledAt } of settled) {
    const seconds = Math.max(0, settledAt.getTime() - startedAt.getTime()) / 1000;
    meter?.run({ trigger, dryRun, status: statusOf(sweepId), tenantId, seconds });
  }
}
