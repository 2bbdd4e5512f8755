import { before } from '../domain/period.js';
import {
  type PruneBefore,
  deleteEmptyPasses,
  deleteInactiveHolds,
  deleteRowDetails,
  deleteRuns,
  deleteSummaries,
  lockHandlerWork,
  lockPrunableRuns,
} from '../sql/history.js';
import { selectNow } from '../sql/transaction.js';
import { type EngineContext, inLedger } from './context.js';

/** How long history is kept, as ISO-8601 periods. Null: for ever. */
export interface HistoryRetention {
  readonly succeededRuns: string | null;
  readonly failedRuns: string | null;
  readonly inactiveHolds: string | null;
}

export interface PrunedHistory {
  readonly runs: number;
  readonly holds: number;
}

/** Most runs, or holds, that go in one transaction. */
const BATCH = 100;
/** Most passes: small rows, which every batch looks for from the start. */
const PASS_BATCH = 10_000;

/**
 * Deletes what of the ledger, and of the holds that have ended, is older than it is kept, batch after batch, until there is
 * no more or `goesOn` says no. What somebody else has locked is left to the next time. Ages are judged by the database's clock.
 */
export async function pruneHistory(
  ctx: EngineContext,
  retention: HistoryRetention,
  goesOn: () => boolean,
): Promise<PrunedHistory> {
  const now = await inLedger(ctx, selectNow);
  const earlier = (period: string | null) => (period === null ? null : before(now, period));
  const cutoffs: PruneBefore = {
    succeededRuns: earlier(retention.succeededRuns),
    failedRuns: earlier(retention.failedRuns),
    inactiveHolds: earlier(retention.inactiveHolds),
  };
  const { succeededRuns, failedRuns, inactiveHolds } = cutoffs;
  // A pass without a run is of neither class: the shorter time goes for it.
  const passes = new Date(Math.max(succeededRuns?.getTime() ?? -Infinity, failedRuns?.getTime() ?? -Infinity));
  const hasRuns = succeededRuns !== null || failedRuns !== null;
  const runs = hasRuns ? await inBatches(goesOn, () => pruneRuns(ctx, cutoffs)) : 0;
  if (hasRuns) await inBatches(goesOn, () => prunePasses(ctx, passes));
  const holds = inactiveHolds ? await inBatches(goesOn, () => pruneHolds(ctx, inactiveHolds)) : 0;
  return { runs, holds };
}

async function inBatches(goesOn: () => boolean, batch: () => Promise<number>): Promise<number> {
  let total = 0;
  while (goesOn()) {
    const count = await batch();
    total += count;
    if (count === 0) break;
  }
  return total;
}

/** Details, summaries, runs: a run is there whole, or not at all. */
function pruneRuns(ctx: EngineContext, cutoffs: PruneBefore): Promise<number> {
  const { cohortSchema } = ctx.registry;
  return inLedger(ctx, async (tx) => {
    const locked = await lockPrunableRuns(tx, cohortSchema, cutoffs, BATCH);
    if (locked.length === 0) return 0;
    const atWork = await lockHandlerWork(tx, cohortSchema, locked);
    const runs = locked.filter((sweepId) => !atWork.has(sweepId));
    await deleteRowDetails(tx, cohortSchema, runs);
    await deleteSummaries(tx, cohortSchema, runs);
    await deleteRuns(tx, cohortSchema, runs);
    return runs.length;
  });
}

function prunePasses(ctx: EngineContext, endedBefore: Date): Promise<number> {
  return inLedger(ctx, (tx) => deleteEmptyPasses(tx, ctx.registry.cohortSchema, endedBefore, PASS_BATCH));
}

function pruneHolds(ctx: EngineContext, endedBefore: Date): Promise<number> {
  return inLedger(ctx, (tx) => deleteInactiveHolds(tx, ctx.registry.cohortSchema, endedBefore, BATCH));
}
