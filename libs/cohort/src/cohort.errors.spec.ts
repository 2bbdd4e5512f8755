import { describe, expect, test } from '@jest/globals';
import {
  AliasCycleError,
  CohortConfigurationError,
  CohortError,
  DryRunOnlyError,
  InvalidArgumentError,
  RetentionDeletionError,
  RetentionHoldError,
  RuleResolutionError,
  RunLostError,
  SlotLostError,
  SoftDeleteErasureError,
  describeValue,
} from './cohort.errors.js';

describe('describeValue', () => {
  test.each([
    [null, 'null'],
    [undefined, 'undefined'],
    [NaN, 'NaN'],
    [-1, '-1'],
    [1e21, '1e+21'],
    [true, 'true'],
    [12n, '12n'],
    ['', 'an empty string'],
    ['acme', "'acme'"],
    ['x'.repeat(80), `'${'x'.repeat(80)}'`],
    ['x'.repeat(81), `'${'x'.repeat(80)}…'`],
    [new Date('2026-06-30T12:00:00Z'), '2026-06-30T12:00:00.000Z'],
    [new Date(NaN), 'an invalid Date'],
    [class Note {}, 'the function Note'],
    [() => 1, 'the function (anonymous)'],
    [[1, 2], 'a value of type Array'],
    [new Map(), 'a value of type Map'],
    [{ email: 'ada@mail.test' }, 'a value of type Object'],
    [Object.create(null), 'a value of type object'],
    [Symbol('secret'), 'a value of type Symbol'],
  ])('of %p is %s', (value, text) => {
    expect(describeValue(value)).toBe(text);
  });
});

describe('CohortConfigurationError', () => {
  test('lists every problem once, sorted, in its message and as data', () => {
    const error = new CohortConfigurationError(['b is wrong.', 'a is wrong.', 'b is wrong.']);
    expect(error.problems).toEqual(['a is wrong.', 'b is wrong.']);
    expect(error.message).toBe('Cohort cannot run with this configuration:\n- a is wrong.\n- b is wrong.');
    expect(() => (error.problems as string[]).push('c')).toThrow(TypeError);
  });
});

test.each<[string, () => unknown, string]>([
  ['a revoked proxy', revoked, 'a value of type object'],
  [
    'an object that throws when it is asked for its class',
    () =>
      Object.defineProperty({}, 'constructor', {
        get: () => {
          throw new Error('private');
        },
      }),
    'a value of type object',
  ],
  ['a symbol', () => Symbol('x'), 'a value of type Symbol'],
  ['an object without a prototype', () => Object.create(null) as unknown, 'a value of type object'],
])('%s is described without an error of its own', (_, make, text) => {
  expect(describeValue(make())).toBe(text);
});

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('every error', () => {
  const cause = new Error('inner');
  test.each([
    [new CohortConfigurationError(['x']), 'CohortConfigurationError', 'configuration'],
    [new InvalidArgumentError('now', 1, 'a Date'), 'InvalidArgumentError', 'invalid-argument'],
    [new RuleResolutionError('notes', 'no rule.', { cause }), 'RuleResolutionError', 'rule-resolution'],
    [new AliasCycleError(['a', 'a']), 'AliasCycleError', 'alias-cycle'],
    [new DryRunOnlyError(), 'DryRunOnlyError', 'dry-run-only'],
    [new SoftDeleteErasureError(['Note']), 'SoftDeleteErasureError', 'erasure-soft-delete'],
    [new RetentionDeletionError('deletion-busy', 'x'), 'RetentionDeletionError', 'deletion-busy'],
    [new RunLostError('p'), 'RunLostError', 'run-lost'],
    [new SlotLostError(new Date(0)), 'SlotLostError', 'slot-lost'],
    [new RetentionHoldError('hold-busy', 'x', { cause, sqlState: '55P03' }), 'RetentionHoldError', 'hold-busy'],
  ])('has a name and a stable code: %p', (error, name, code) => {
    expect(error).toBeInstanceOf(CohortError);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name, code });
  });

  test('has the fields that a program needs beside its text', () => {
    expect(new InvalidArgumentError('now', 'x', 'a Date')).toMatchObject({
      argument: 'now',
      message: "now is 'x'; wanted: a Date.",
    });
    expect(new RuleResolutionError('notes', 'no rule.', { cause })).toMatchObject({ category: 'notes', cause });
    expect(new RunLostError('pass-1')).toMatchObject({ passId: 'pass-1' });
    expect(new RetentionHoldError('hold-busy', 'x', { cause, sqlState: '55P03' })).toMatchObject({
      sqlState: '55P03',
      cause,
    });
    expect(new RetentionHoldError('hold-busy', 'x').sqlState).toBeUndefined();
  });
});
