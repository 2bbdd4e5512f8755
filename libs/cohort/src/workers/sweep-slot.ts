import { RunLostError, SlotLostError } from '../cohort.errors.js';
import { type EngineContext, inLedger } from '../engine/context.js';
import { endPass } from '../engine/recover.js';
import { type RetentionSweepResult, sweepTenants } from '../engine/sweep.js';
import {
  type OccurrenceClaim,
  claimOccurrence,
  completeOccurrence,
  deleteOldOccurrences,
  renewLease,
  takeOverOccurrence,
} from '../sql/occurrences.js';
import { listTenants } from '../engine/list-tenants.js';
import { keepLease } from './slot-lease.js';

export interface SlotContext extends EngineContext {
  readonly slotLeaseMs: number;
  readonly inform: (message: string) => void;
}

export interface SlotRequest {
  /** Logical now: cutoffs are counted from it. */
  readonly now: Date;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

/** Sweeps a slot whose time has come, unless another replica does, or is still busy with an earlier one. */
export async function sweepSlot(ctx: SlotContext, slot: Date, request: SlotRequest): Promise<void> {
  const claim = { slot, dryRun: request.dryRun, token: ctx.newId() };
  const { won, busyWith } = await inLedger(ctx, (tx) =>
    claimOccurrence(tx, ctx.registry.cohortSchema, claim, ctx.slotLeaseMs),
  );
  if (won) await sweepClaimed(ctx, claim, request);
  else if (busyWith && busyWith.getTime() !== slot.getTime())
    ctx.inform(`Slot ${slot.toISOString()} is skipped: slot ${busyWith.toISOString()} is still being swept.`);
  else ctx.inform(`Slot ${slot.toISOString()} is skipped: another replica sweeps it.`);
}

/** Sweeps again what an owner began and did not finish: it was killed, stopped or cut off. Whether there was such a slot. */
export async function finishInterrupted(ctx: SlotContext, request: SlotRequest): Promise<boolean> {
  const claim = { dryRun: request.dryRun, token: ctx.newId() };
  const taken = await inLedger(ctx, (tx) => takeOverOccurrence(tx, ctx.registry.cohortSchema, claim, ctx.slotLeaseMs));
  if (!taken) return false;
  ctx.inform(`Slot ${taken.slot.toISOString()} was left unfinished; it is swept again.`);
  // Without a lease its owner may commit nothing more. One that stands in a batch finds out at its next renewal.
  if (taken.formerPassId) await endPass(ctx, taken.formerPassId, 0);
  await sweepClaimed(ctx, { ...claim, slot: taken.slot }, request);
  return true;
}

/** Keep the lease, list the tenants, sweep them in one pass, complete. A failure is logged: the next slot tries again. */
async function sweepClaimed(ctx: SlotContext, claim: OccurrenceClaim, request: SlotRequest): Promise<void> {
  const lease = keepLease(ctx, claim, ctx.slotLeaseMs, request.signal);
  const slot = `Slot ${claim.slot.toISOString()}`;
  try {
    const sweeping = sweepAll(ctx, claim, { ...request, signal: lease.signal });
    // Before anything else is written: a renewal under way would take back what is given back.
    ctx.inform(`${slot}: ${summaryOf(await sweeping.finally(() => lease.end()))}`);
  } catch (error) {
    if (request.signal.aborted) return await giveBack(ctx, claim, request.signal.reason);
    const isLost = lease.signal.aborted || error instanceof RunLostError || error instanceof SlotLostError;
    if (isLost) return ctx.logger.warn((error as Error).message);
    ctx.logger.error(`${slot} failed`, error);
  }
  await inLedger(ctx, async (tx) => {
    await completeOccurrence(tx, ctx.registry.cohortSchema, claim);
    await deleteOldOccurrences(tx, ctx.registry.cohortSchema, claim.dryRun);
  });
}

async function sweepAll(
  ctx: SlotContext,
  occurrence: OccurrenceClaim,
  { now, dryRun, signal }: SlotRequest,
): Promise<RetentionSweepResult[]> {
  const tenants = await listTenants(ctx, signal);
  return sweepTenants(ctx, { tenants, now, dryRun, signal, actor: null, occurrence });
}

/** An interrupted slot is not done: whoever looks next sweeps it again. */
async function giveBack(ctx: SlotContext, claim: OccurrenceClaim, reason: unknown): Promise<void> {
  await inLedger(ctx, (tx) => renewLease(tx, ctx.registry.cohortSchema, claim, 0));
  ctx.inform(`Slot ${claim.slot.toISOString()} was interrupted: ${(reason as Error).message}`);
}

function summaryOf(results: readonly RetentionSweepResult[]): string {
  const counts = results.flatMap((result) => result.counts);
  const sum = (of: 'affected' | 'held' | 'skipped') => counts.reduce((total, count) => total + count[of], 0);
  const failed = results.filter((result) => result.status !== 'succeeded').length;
  return `${results.length} runs, ${failed} of them with failures; ${sum('affected')} rows affected, ${sum('held')} held, ${sum('skipped')} skipped.`;
}
