import { describe, expect, test } from '@jest/globals';
import { RunLostError } from '../cohort.errors.js';
import { PassedOverError, ReopenedRowsError, RowsRefusedError, isBusy, remedyFor } from './batch-failure.js';

const idle = new AbortController().signal;
const database = (code: string) => Object.assign(new Error(`state ${code}`), { code });
const wrapped = (cause: Error) => new Error('outer', { cause });

describe('remedyFor', () => {
  test.each([
    ['40001', 'serialisation failure', 'retry'],
    ['40P01', 'deadlock', 'retry'],
    ['55P03', 'lock not available', 'retry'],
    ['57014', 'statement timeout', 'halve'],
    ['25P03', 'idle in transaction timeout', 'halve'],
    ['25P04', 'transaction timeout', 'halve'],
    ['22001', 'text too long', 'halve'],
    ['22P02', 'text not readable', 'halve'],
    ['22003', 'number out of range', 'halve'],
    ['23502', 'not null', 'halve'],
    ['23503', 'foreign key', 'halve'],
    ['23505', 'unique', 'halve'],
    ['23514', 'check', 'halve'],
    ['P0001', 'raised by a trigger', 'halve'],
    ['P0004', 'assertion in a trigger', 'halve'],
    ['08000', 'connection', 'reconnect'],
    ['08006', 'connection failure', 'reconnect'],
    ['57P01', 'server shut down', 'reconnect'],
    ['57P02', 'server crashed', 'reconnect'],
    ['57P03', 'server starting', 'reconnect'],
    ['57P05', 'idle session', 'reconnect'],
    ['42501', 'not permitted', 'fail'],
    ['42P01', 'no such table', 'fail'],
    ['42703', 'no such column', 'fail'],
    ['25006', 'read-only', 'fail'],
    ['25P02', 'transaction aborted', 'fail'],
    ['40002', 'constraint at commit', 'fail'],
    ['53100', 'disk full', 'fail'],
    ['53300', 'too many connections', 'fail'],
    ['54000', 'program limit', 'fail'],
    ['55000', 'object state', 'fail'],
    ['57P06', 'unknown of its class', 'fail'],
    ['XX000', 'internal', 'fail'],
  ])('of %s (%s) is %s, wrapped or not', (state, _, remedy) => {
    expect(remedyFor(database(state), idle)).toBe(remedy);
    expect(remedyFor(wrapped(database(state)), idle)).toBe(remedy);
  });

  test.each([
    ['a connection reset', Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), 'reconnect'],
    ['a connection that timed out', Object.assign(new Error('x'), { code: 'ETIMEDOUT' }), 'reconnect'],
    ['a connection that ended', new Error('Connection terminated unexpectedly'), 'reconnect'],
    ['a refused connection', Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 'fail'],
    ['an error without a code', new Error('boom'), 'fail'],
    ['an error that only mentions a connection', new Error('no Connection terminated'), 'fail'],
    ['rows that a trigger reopened', new ReopenedRowsError(), 'halve'],
    ['too many refused rows', new RowsRefusedError(101, database('23514')), 'fail'],
    ['a lost run', new RunLostError('p'), 'stop'],
  ])('of %s is right', (_, error, remedy) => {
    expect(remedyFor(error, idle)).toBe(remedy);
  });

  test('of rows that were passed over, or put back, is halve', () => {
    expect(remedyFor(new PassedOverError(), idle)).toBe('halve');
    expect(remedyFor(new ReopenedRowsError(), idle)).toBe('halve');
  });

  test('of a connection that broke while it was written to is reconnect', () => {
    expect(remedyFor(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }), idle)).toBe('reconnect');
  });

  // acceptance 300
  test('of the reason of a cancellation is to stop, and of anything else that fails meanwhile it is not', () => {
    const cancelled = new AbortController();
    const reason = database('23514');
    expect(remedyFor(reason, cancelled.signal)).toBe('halve');
    cancelled.abort(reason);
    expect(remedyFor(reason, cancelled.signal)).toBe('stop');
    expect(remedyFor(database('23514'), cancelled.signal)).toBe('halve');
  });
});

describe('isBusy', () => {
  test.each(['40001', '40P01', '55P03'])('is true for %s: others were in the way', (state) => {
    expect(isBusy(database(state))).toBe(true);
    expect(isBusy(wrapped(database(state)))).toBe(true);
  });

  test.each(['23514', '57014', '08006', 'XX000'])('is false for %s', (state) => {
    expect(isBusy(database(state))).toBe(false);
  });

  test('is false for an error without a state', () => {
    expect(isBusy(new Error('boom'))).toBe(false);
    expect(isBusy(undefined)).toBe(false);
  });
});

test('an entity that is given up says how many rows refused, and what the last one met', () => {
  const cause = database('23514');
  const refused = new RowsRefusedError(101, cause);
  expect(refused.message).toMatch(/^101 rows could not be changed/);
  expect(refused.cause).toBe(cause);
});
