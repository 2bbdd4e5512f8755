import { RequestContext } from '@mikro-orm/core';
import type { MikroORM } from '@mikro-orm/postgresql';
import type { RegisteredHandler } from '../domain/row-handler.js';
import { type CaptureRow, type FailedRow, captureRows } from '../handlers/capture.js';
import { entityColumns, toEntity } from '../handlers/entity-rows.js';
import { type EntityRow, selectEntityRows } from '../sql/entity-rows.js';
import { insertSkippedRows } from '../sql/handler-queue.js';
import type { BookedSlice, Capture, RowPlace } from '../sql/mutate.js';
import type { Exclusions, LockedRows, Selection } from '../sql/selection.js';
import type { Executor } from '../sql/transaction.js';
import { notifyWaiting } from '../sql/wake.js';
import { type EngineContext, poolSize } from './context.js';
import { sanitise } from './failure.js';

/** Rows of a handled entity come to Node one batch at a time, so that memory is bounded whatever the batch size says. */
export const MAX_HANDLED_ROWS = 500;
/** Of the time after which the server ends an idle transaction. */
const CAPTURE_SHARE = 0.8;

/** How many more batches may stand still for handlers, and who waits for one of them to end, by pool. */
const turns = new WeakMap<MikroORM, { free: number; readonly waiting: (() => void)[] }>();

/**
 * Runs a batch whose handlers are called, or first waits until so few others are that one connection of the pool is left.
 * Each keeps a connection while `onBefore` may ask for another: where all are kept, none gets one, until every batch runs
 * out of time and healthy rows are written off.
 */
export async function inTurn<T>(
  { orm }: Pick<EngineContext, 'orm'>,
  signal: AbortSignal,
  batch: () => Promise<T>,
): Promise<T> {
  const turn = turns.get(orm) ?? { free: poolSize(orm) - 1, waiting: [] };
  turns.set(orm, turn);
  if (turn.free > 0) turn.free--;
  else await new Promise<void>((resolve) => turn.waiting.push(resolve));
  try {
    signal.throwIfAborted();
    return await batch();
  } finally {
    const next = turn.waiting.shift();
    if (next) next();
    else turn.free++;
  }
}

/** A locked batch after its handlers have seen it: what may be changed, and what a handler kept. */
export interface HandledBatch {
  /** Of the locked rows, those that were captured. */
  readonly locked: LockedRows;
  readonly failed: readonly FailedRow<EntityRow>[];
  readonly at: Date;
  readonly handlers: readonly RegisteredHandler[];
  readonly payloads: ReadonlyMap<string, string>;
  readonly places: readonly RowPlace[];
}

/** Reads the locked rows and calls `onBefore` for each, inside of the batch's transaction. */
export async function captureBatch(
  tx: Executor,
  ctx: EngineContext,
  selection: Selection<BookedSlice>,
  locked: LockedRows,
  exclusions: Exclusions,
  signal: AbortSignal,
): Promise<HandledBatch> {
  const { entry } = selection;
  const handlers = ctx.handlers.get(entry.entityId)!;
  const columns = entityColumns(ctx.orm, entry.entityClass);
  const { rows, at } = await selectEntityRows(tx, selection, locked, exclusions, columns);
  const batchTime = at ?? new Date(0);
  const { captured, failed } = await RequestContext.create(ctx.orm.em, () =>
    captureRows(toCapture(ctx, selection, rows, batchTime), handlers, {
      signal,
      timeoutMs: ctx.settings.idleTimeoutMs * CAPTURE_SHARE,
    }),
  );
  const places = captured.map(({ row }) => row);
  return {
    locked: { ...lockedAt(places), slices: locked.slices },
    failed,
    at: batchTime,
    handlers,
    payloads: new Map(captured.map(({ row, payload }) => [placeKey(row), payload])),
    places,
  };
}

/** One entity at a time, in an entity manager that nobody else sees. */
function* toCapture(
  ctx: EngineContext,
  { entry, strategy, slices }: Selection<BookedSlice>,
  rows: readonly EntityRow[],
  at: Date,
): Generator<CaptureRow<EntityRow>> {
  const em = ctx.orm.em.fork();
  const { entityName: entity, entityId, category } = entry;
  for (const row of rows) {
    const { sweepId, tenantId } = slices[row.slice]!;
    yield {
      row,
      entity: toEntity(em, entry.entityClass, row),
      context: { sweepId, entity, entityId, recordId: row.recordId, category, strategy, tenantId, at },
    };
  }
}

function lockedAt(rows: readonly EntityRow[]): Omit<LockedRows, 'slices'> {
  const oids = [...new Set(rows.map((row) => row.oid))];
  const array = (values: readonly string[]) => `{${values.map((value) => `"${value}"`).join(',')}}`;
  return {
    count: rows.length,
    tids: array(rows.map((row) => row.tid)),
    oid: oids.length > 1 ? null : (oids[0] ?? '0'),
    oids: oids.length > 1 ? array(rows.map((row) => row.oid)) : null,
    recordIds: rows.map((row) => row.recordId),
  };
}

/** What the mutation writes beside the rows, in the order of the places that it is given. */
export function captureOf(batch: HandledBatch, places: readonly RowPlace[]): Capture {
  return {
    at: batch.at,
    payloads: places.map((place) => batch.payloads.get(placeKey(place))!),
    handlers: batch.handlers.map(({ identity, phase }) => ({ identity, phase })),
  };
}

function placeKey({ oid, tid }: RowPlace): string {
  return `${oid} ${tid}`;
}

/** Writes down, in the same transaction, what handlers kept and why; and wakes those who wait for work. */
export async function bookHandled(
  tx: Executor,
  ctx: EngineContext,
  { entry, strategy, cohortSchema, slices }: Selection<BookedSlice>,
  { failed, at, places }: HandledBatch,
): Promise<void> {
  if (failed.length > 0) {
    const rows = failed.map(({ row, handler, error }) => ({
      sweepId: slices[row.slice]!.sweepId,
      tenantId: slices[row.slice]!.tenantId,
      recordId: row.recordId,
      handlerType: handler.identity,
      phase: handler.phase,
      error: sanitise(ctx, `onBefore of row handler ${handler.typeName}`, error),
    }));
    await insertSkippedRows(tx, cohortSchema, { entry, strategy, at }, rows);
  }
  if (places.length > 0) await notifyWaiting(tx, cohortSchema);
}
