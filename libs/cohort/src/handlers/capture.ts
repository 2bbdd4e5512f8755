import type { RegisteredHandler, RetentionBeforeContext, RowSnapshot } from '../domain/row-handler.js';
import { unlessAborted } from '../domain/unless-aborted.js';
import { encodeSnapshot } from './snapshot.js';

/** A row to be captured, as an entity and as the handlers are told of it. */
export interface CaptureRow<Row> {
  readonly row: Row;
  readonly entity: object;
  readonly context: Omit<RetentionBeforeContext, 'snapshot' | 'signal'>;
}

export interface CapturedRow<Row> {
  readonly row: Row;
  readonly payload: string;
}

/** A row that is kept, because one handler could not capture it. */
export interface FailedRow<Row> {
  readonly row: Row;
  readonly handler: RegisteredHandler;
  readonly error: unknown;
}

export interface CaptureResult<Row> {
  readonly captured: readonly CapturedRow<Row>[];
  readonly failed: readonly FailedRow<Row>[];
}

/** `onBefore` took all the time that a batch has. */
class CaptureTimeoutError extends Error {
  constructor(ms: number) {
    super(`onBefore took more than ${ms} ms, which is all that a batch may stand still.`);
  }
}

export interface CaptureLimits {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Calls `onBefore` of all handlers, row after row. When the time is over, the rows not reached wait for the next batch; a
 * row that alone took all of it has failed. A cancelled pass is thrown: it is nobody's failure.
 */
export async function captureRows<Row>(
  rows: Iterable<CaptureRow<Row>>,
  handlers: readonly RegisteredHandler[],
  { signal, timeoutMs }: CaptureLimits,
): Promise<CaptureResult<Row>> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new CaptureTimeoutError(timeoutMs)), timeoutMs);
  const stop = AbortSignal.any([signal, over.signal]);
  const captured: CapturedRow<Row>[] = [];
  const failed: FailedRow<Row>[] = [];
  try {
    for (const each of rows) {
      const outcome = await captureRow(each, handlers, stop);
      signal.throwIfAborted();
      const isFirst = captured.length + failed.length === 0;
      if (over.signal.aborted && !isFirst) break;
      if ('payload' in outcome) captured.push(outcome);
      else failed.push(outcome);
      if (over.signal.aborted) break;
    }
  } finally {
    clearTimeout(timer);
  }
  return { captured, failed };
}

async function captureRow<Row>(
  { row, entity, context }: CaptureRow<Row>,
  handlers: readonly RegisteredHandler[],
  signal: AbortSignal,
): Promise<CapturedRow<Row> | FailedRow<Row>> {
  const snapshot: RowSnapshot = {};
  let payload = '{}';
  for (const handler of handlers) {
    try {
      await unlessAborted(handler.instance.onBefore?.(entity, { ...context, snapshot, signal }), signal);
      // After every handler, so that the one that put in what cannot be kept is the one that failed.
      payload = encodeSnapshot(snapshot);
    } catch (error) {
      return { row, handler, error };
    }
  }
  return { row, payload };
}
