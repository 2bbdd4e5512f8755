import { RunLostError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import type { Fence } from '../sql/lanes.js';
import { mutateLocked } from '../sql/mutate.js';
import { type KeyPath, isNulling, lockPath } from '../sql/foreign-keys.js';
import {
  type Exclusions,
  type LockedRows,
  type Selection,
  isLocked,
  lockCandidates,
  stillEligible,
} from '../sql/selection.js';
import type { Executor } from '../sql/transaction.js';
import {
  PassedOverError,
  ReopenedRowsError,
  RowsLockedError,
  RowsRefusedError,
  SchemaChangedError,
  isBusy,
  remedyFor,
} from './batch-failure.js';
import { type EngineContext, inBatch } from './context.js';
import { MAX_HANDLED_ROWS, bookHandled, captureBatch, captureOf, inTurn } from './handled-batch.js';
import type { Pass } from './pass.js';
import { type ToldBatch, tellBatch } from './tell.js';
import type { PlannedSlice, Walk } from './plan.js';
import { type ScrubValues, scrubValues } from './scrub-values.js';
import type { TableFacts } from './table-facts.js';

/** Rows hold their locks about this long. A batch that takes longer is followed by a smaller one. */
const TARGET_MS = 100;
const MAX_LEFT_OUT = 100;
const HOPELESS = 32;

/** A walk that selects rows for changing: never exempt. */
export interface MutatingWalk extends Walk {
  readonly strategy: Exclude<Strategy, 'exempt'>;
}

/** What the lanes of one walk find out together. */
export interface WalkState {
  /** Rows that the table refused to change, with the error of the last one. */
  readonly refused: Set<string>;
  /** Rows that were too busy even alone; somebody else holds what they need. */
  readonly busy: Set<string>;
  affected: number;
  refusal: unknown;
  /** Rows changed by run, where an observer will be told. */
  readonly affectedByRun: Map<string, number>;
}

/**
 * The walk that is right for every table: locked batches, oldest first, until a fresh select finds nothing. Lanes share
 * the backlog by SKIP LOCKED and nothing else.
 */
export async function limitWalk(
  ctx: EngineContext,
  pass: Pass,
  walk: MutatingWalk,
  facts: TableFacts,
  mostRows: number,
): Promise<WalkState> {
  const state: WalkState = {
    refused: new Set(),
    busy: new Set(),
    affected: 0,
    refusal: undefined,
    affectedByRun: new Map(),
  };
  const lanes = facts.oneLane || waits(walk) ? pass.fences.slice(0, 1) : pass.fences;
  const failed = new AbortController();
  const signal = AbortSignal.any([pass.signal, failed.signal]);
  const results = await Promise.allSettled(
    lanes.map((fence, index) =>
      runLane(
        { ctx, pass, walk, facts, state, fence, signal, mostRows },
        Math.floor((index * walk.slices.length) / lanes.length),
      ).catch((error: unknown) => {
        failed.abort(error);
        throw error;
      }),
    ),
  );
  // The lane that failed first says why; the others stopped because of it.
  if (failed.signal.aborted) throw failed.signal.reason;
  const rejected = results.find((result) => result.status === 'rejected');
  if (rejected) throw rejected.reason;
  return state;
}

/** An erasure does not leave out a row because somebody is at it. */
function waits(walk: Walk): boolean {
  return walk.subjects !== undefined;
}

interface Lane {
  readonly ctx: EngineContext;
  readonly pass: Pass;
  readonly walk: MutatingWalk;
  readonly facts: TableFacts;
  readonly state: WalkState;
  readonly fence: Fence;
  readonly signal: AbortSignal;
  /** The walk ends once so many rows are changed. */
  readonly mostRows: number;
}

interface BatchRequest {
  /** First tenant to look at, as an index into the slices. */
  readonly from: number;
  readonly size: number;
  /** What was locked: known even if the batch then fails. */
  locked?: Pick<LockedRows, 'count' | 'recordIds'>;
}

interface BatchResult {
  readonly affected: number;
  readonly refused: readonly string[];
  /** The tenant to go on from: earlier ones have nothing left in this snapshot. */
  readonly next: number;
  readonly mutationMs: number;
}

interface MeasuredBatch extends BatchResult {
  readonly told: ToldBatch;
}

async function runLane(lane: Lane, start: number): Promise<void> {
  const { ctx, state, signal, mostRows, walk } = lane;
  let busySince: number | undefined;
  let from = start;
  let size = sizeCeiling(lane);
  let retried = false;
  while (state.affected < mostRows) {
    signal.throwIfAborted();
    const request: BatchRequest = { from, size: Math.min(size, mostRows - state.affected) };
    try {
      const batch = isHandled(lane)
        ? await inTurn(ctx, signal, () => runBatch(lane, request))
        : await runBatch(lane, request);
      retried = false;
      busySince = undefined;
      if (!batch && from === 0) return;
      if (!batch) {
        from = 0;
        continue;
      }
      state.affected += batch.affected;
      for (const id of batch.refused) leaveOut(state, id, new PassedOverError());
      from = batch.next;
      size = nextSize(size, batch.mutationMs, sizeCeiling(lane));
    } catch (error) {
      const remedy = remedyFor(error, signal);
      if (remedy === 'stop' || remedy === 'fail') throw error;
      // In slices shorter than the server's deadlock_timeout, so that we give way before it picks a victim.
      if (waits(walk) && isBusy(error)) {
        busySince ??= performance.now();
        if (performance.now() - busySince < ctx.settings.batchTimeoutMs) continue;
        throw new RowsLockedError(error);
      }
      if (!retried && remedy !== 'halve') {
        retried = true;
        continue;
      }
      // Where no row was locked yet, the select itself failed, and a smaller batch would fail in the same way.
      if (remedy === 'reconnect' || !request.locked) throw error;
      retried = false;
      if (size > 1) size = Math.ceil(Math.min(size, request.locked.count) / 2);
      else leaveOut(state, request.locked.recordIds[0]!, error);
    }
  }
}

/** begin | lock | lock what it would set to NULL | fence, mutation, details, progress | look again | commit. Null: nothing to lock. */
async function runBatch(lane: Lane, request: BatchRequest): Promise<BatchResult | null> {
  const { ctx, pass, walk, facts, state, fence, signal } = lane;
  const selection: Selection<PlannedSlice> = selectForWalk(ctx, walk, walk.slices.slice(request.from));
  const exclusions = exclusionsOf(lane);
  const tenantByTenant = selection.slices.length === 1 || facts.isServed(walk.strategy);
  const withIds = facts.hasTriggers || request.size === 1;
  const result = await inBatch(ctx, async (tx) => {
    await ctx.probe?.('before-lock', walk.entry.entityName);
    const locked = await lockCandidates(tx, selection, {
      limit: request.size,
      exclusions,
      waits: waits(walk),
      tenantByTenant,
      withIds,
    });
    if (!locked) return null;
    request.locked = locked;
    await ctx.probe?.('locked', walk.entry.entityName);

    const started = performance.now();
    for (const path of nullingPaths(lane)) await lockPath(tx, path, walk.entry, isLocked(locked));
    const reached = { ...selection, slices: locked.slices.map((slice) => selection.slices[slice]!) };
    const handled = isHandled(lane) ? await captureBatch(tx, ctx, reached, locked, exclusions, signal) : null;
    const toChange = handled?.locked ?? locked;
    const { scrubs, rows } = await valuesFor(tx, lane, reached, toChange);
    const places = handled && rows.length === 0 ? handled.places : rows;
    const { fenced, schemaChanged, changed, report } = await mutateLocked(tx, {
      selection: reached,
      locked: toChange,
      scrubs,
      rows: places,
      capture: handled && captureOf(handled, places),
      report: pass.notifier.isHeard || ctx.meter?.byTenant === true,
      exclusions,
      fence,
      knownKeys: facts.knownKeys,
      passId: pass.passId,
      now: pass.now,
    });
    if (schemaChanged) throw new SchemaChangedError();
    if (!fenced) throw new RunLostError(pass.passId);
    if (handled) await bookHandled(tx, ctx, reached, handled);
    const refused = await refusedRows(tx, selection, toChange, changed, exclusions);
    await ctx.probe?.('mutated', walk.entry.entityName);
    signal.throwIfAborted();
    return {
      affected: changed,
      refused,
      next: tenantByTenant ? request.from + locked.slices.at(-1)! : 0,
      mutationMs: performance.now() - started,
      told: { reached: reached.slices, report, skipped: handled?.failed.map(({ row }) => row.slice) ?? [] },
    };
  });
  await ctx.probe?.('committed', walk.entry.entityName);
  if (result) {
    measureBatch(lane, result);
    await tellBatch(pass, walk, state, result.told);
  }
  return result;
}

function measureBatch({ ctx, walk }: Lane, { affected, mutationMs, told: { reached, report } }: MeasuredBatch): void {
  const rows = report
    ? new Map(report.bySlice.map((each) => [reached[each.slice]!.tenantId, each.affected]))
    : new Map([['', affected]]);
  ctx.meter?.batch({ entity: walk.entry.entityName, strategy: walk.strategy }, rows, mutationMs / 1000);
}

function valuesFor(
  tx: Executor,
  { ctx, walk, pass }: Lane,
  reached: Selection,
  locked: LockedRows,
): Promise<ScrubValues> | ScrubValues {
  return walk.strategy === Strategy.Anonymise
    ? scrubValues(tx, ctx, reached, locked, pass.now)
    : { scrubs: [], rows: [] };
}

/**
 * Rows that are still due although they were locked and should have been changed. Without their ids nobody can tell
 * them from rows that stopped being due in between, so the batch is done again in halves, down to single rows.
 */
async function refusedRows(
  tx: Executor,
  selection: Selection,
  locked: LockedRows,
  changed: number,
  exclusions: Exclusions,
): Promise<string[]> {
  if (locked.recordIds.length === 0) {
    if (changed < locked.count) throw new PassedOverError();
    return [];
  }
  const remaining = await stillEligible(tx, selection, locked.recordIds, exclusions);
  if (changed + remaining.length > locked.count) throw new ReopenedRowsError();
  return remaining;
}

function nullingPaths({ walk, facts }: Lane): KeyPath[] {
  return keyPathsOf(walk, facts).filter((path) => isNulling(path.at(-1)!));
}

/** The rows that a walk means, of some of its tenants. */
export function selectForWalk(
  ctx: Pick<EngineContext, 'registry'>,
  walk: MutatingWalk,
  slices: readonly PlannedSlice[],
): Selection<PlannedSlice> {
  const { entry, strategy, subjects } = walk;
  return { entry, strategy, cohortSchema: ctx.registry.cohortSchema, slices, subjects };
}

function exclusionsOf(lane: Lane): Exclusions {
  const { walk, facts, state } = lane;
  return { refused: [...state.refused, ...state.busy], keyPaths: keyPathsOf(walk, facts), handled: isHandled(lane) };
}

/** Whether rows of the walk go through Node, for their handlers to see. */
function isHandled({ ctx, walk }: Pick<Lane, 'ctx' | 'walk'>): boolean {
  return ctx.handlers.has(walk.entry.entityId);
}

function sizeCeiling(lane: Lane): number {
  const { sweepBatchSize } = lane.ctx.settings;
  return isHandled(lane) ? Math.min(sweepBatchSize, MAX_HANDLED_ROWS) : sweepBatchSize;
}

/** What can keep a row of the walk where it is: only a purge takes rows from under those that point at them. */
export function keyPathsOf(walk: MutatingWalk, facts: TableFacts): readonly KeyPath[] {
  return walk.strategy === Strategy.Purge ? facts.blocking : [];
}

/** Leaves a row out for the rest of the walk: busy, to go another time, or refused, for somebody to look at. */
function leaveOut(state: WalkState, id: string, error: unknown): void {
  if (isBusy(error)) state.busy.add(id);
  else {
    state.refused.add(id);
    state.refusal = error;
  }
  const hopeless = state.affected === 0 && state.refused.size >= HOPELESS;
  if (hopeless || state.refused.size > MAX_LEFT_OUT || state.busy.size > MAX_LEFT_OUT) {
    throw new RowsRefusedError(Math.max(state.refused.size, state.busy.size), error);
  }
}

function nextSize(size: number, mutationMs: number, ceiling: number): number {
  const factor = Math.min(2, Math.max(0.5, TARGET_MS / Math.max(1, mutationMs)));
  return Math.max(1, Math.min(ceiling, Math.round(size * factor)));
}
