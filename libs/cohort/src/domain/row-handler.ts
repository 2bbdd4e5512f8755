import type { Strategy } from './strategy.js';

/** When a handler's `onAfter` may run: as soon as its row is committed, or once the whole run has a terminal state. */
export const DispatchPhase = {
  Immediate: 'immediate',
  AfterSweepSettled: 'afterSweepSettled',
} as const;
export type DispatchPhase = (typeof DispatchPhase)[keyof typeof DispatchPhase];

/**
 * What `onBefore` puts aside for `onAfter`: texts, booleans, numbers, null, Date, bigint, Buffer, Uint8Array, arrays and
 * plain objects of these. Anything else is refused, and with it the row.
 */
export type RowSnapshot = Record<string, unknown>;

interface RowContext {
  readonly sweepId: string;
  readonly entity: string;
  readonly entityId: string;
  /** The id of the row as the database prints it. */
  readonly recordId: string;
  readonly category: string;
  readonly strategy: Exclude<Strategy, 'exempt'>;
  /** The zero UUID for rows without a tenant. */
  readonly tenantId: string;
  /** When the batch was, by the database's clock. */
  readonly at: Date;
  /** Aborted when the work is no longer wanted: the pass or the host stops, or it took too long. */
  readonly signal: AbortSignal;
}

export interface RetentionBeforeContext extends RowContext {
  /** One for all handlers of the row. Whatever is put in comes back in `onAfter`, with its type. */
  readonly snapshot: RowSnapshot;
}

export interface RetentionAfterContext extends RowContext {
  /** From 1. Above 1 the work may have been done before. */
  readonly attempt: number;
  readonly snapshot: Readonly<RowSnapshot>;
}

/**
 * Does what belongs to a row that is about to go: a provider marked with `@RowHandler(Entity)`. `onBefore` runs inside of
 * the sweep's transaction, for capturing alone: it may run for a row that stays after all. It may read through the host's
 * ORM, on one connection at a time besides the sweep's own; a row whose `onBefore` waits too long for one stays. `onAfter`
 * runs after the commit, at least once, and must stand being called again.
 */
export interface RetentionRowHandler<T extends object = object> {
  onBefore?(row: T, context: RetentionBeforeContext): Promise<void> | void;
  onAfter?(context: RetentionAfterContext): Promise<void> | void;
}

/** A handler as start-up found it. */
export interface RegisteredHandler {
  /** What queued work names it by: the UUID it was given, or its class name. */
  readonly identity: string;
  readonly typeName: string;
  readonly phase: DispatchPhase;
  readonly instance: RetentionRowHandler;
}

/** Handlers by entity id, in the order in which they run. */
export type HandlerBook = ReadonlyMap<string, readonly RegisteredHandler[]>;

/** Who does queued work: found by identity first, then by class name, so that work queued before an identity was given is done. */
export function findHandler(book: HandlerBook, entityId: string, handlerType: string): RegisteredHandler | undefined {
  const handlers = book.get(entityId) ?? [];
  return (
    handlers.find((handler) => handler.identity === handlerType) ??
    handlers.find((handler) => handler.typeName === handlerType)
  );
}
