import { RunLostError } from '../cohort.errors.js';
import { sqlStateOf } from './failure.js';

/**
 * What a failed batch calls for. `retry`: others are in the way, once more, then smaller. `halve`: some row is at fault,
 * or there are too many for the time; smaller at once. `reconnect`: once more on another connection. `fail`: the entity
 * fails. `stop`: the pass is lost or cancelled.
 */
export type Remedy = 'retry' | 'halve' | 'reconnect' | 'fail' | 'stop';

/** A trigger undid what a batch did: its rows would be due again for ever. */
export class ReopenedRowsError extends Error {
  constructor() {
    super('A trigger of the table put rows back into the state they were in before.');
  }
}

/** A row was locked, was due, and is still there: a trigger returned nothing for it, or a policy hid it. */
export class PassedOverError extends Error {
  constructor() {
    super('A trigger or policy of the table passed the row over.');
  }
}

/** An erasure waited as long as a batch may take, and somebody still had its rows locked. */
export class RowsLockedError extends Error {
  constructor(cause: unknown) {
    super('Rows of the subject stayed locked by other transactions; ask again when those are over.', { cause });
  }
}

/** What a mutation reaches, and which holds it sees, was judged by the schema of the pass's beginning. */
export class SchemaChangedError extends Error {
  constructor() {
    super(
      'While the pass ran, a foreign key that cascades was added, or policies were put on the holds; the next pass takes it into account.',
    );
  }
}

/** The entity cannot be swept: too many of its rows refuse, or all that were tried. */
export class RowsRefusedError extends Error {
  constructor(refused: number, cause: unknown) {
    super(`${refused} rows could not be changed, so the rest of the entity was left alone.`, { cause });
  }
}

const IN_THE_WAY = new Set(['40001', '40P01', '55P03']);
const TIMED_OUT = new Set(['57014', '25P03', '25P04']);
const CONNECTION = /^(08...|57P0[1-5])$/;
/** Bad data (22), a constraint (23), a trigger that changes rows of its own statement (27), or one that raises (P0). */
const ROWS = /^(22|23|27|P0)...$/;

export function remedyFor(error: unknown, signal: AbortSignal): Remedy {
  if (error instanceof RunLostError || (signal.aborted && error === signal.reason)) return 'stop';
  if (error instanceof RowsRefusedError) return 'fail';
  if (error instanceof ReopenedRowsError || error instanceof PassedOverError) return 'halve';
  const state = sqlStateOf(error);
  if (state === undefined) return isBrokenConnection(error) ? 'reconnect' : 'fail';
  if (IN_THE_WAY.has(state)) return 'retry';
  if (TIMED_OUT.has(state) || ROWS.test(state)) return 'halve';
  return CONNECTION.test(state) ? 'reconnect' : 'fail';
}

function isBrokenConnection(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(code as string) ||
    /^Connection terminated|^Client has encountered a connection error/.test(String(message))
  );
}

/** Whether a single row that failed this way is only busy, so that it may go next time and nobody needs to look at it. */
export function isBusy(error: unknown): boolean {
  return IN_THE_WAY.has(sqlStateOf(error) ?? '');
}
