import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireSignal, requireText } from './arguments.js';

const refusal = (attempt: () => void, message: RegExp) => {
  expect(attempt).toThrow(InvalidArgumentError);
  expect(attempt).toThrow(message);
};

describe('requireText', () => {
  test.each(['a', ' a ', 'Ünïcode 租户', '😀', '\n.'])('takes %j', (value) => {
    expect(() => requireText(value, 'reason')).not.toThrow();
  });

  test.each([null, undefined, NaN, 7, true, {}, [], '', ' ', '\t\n'])(
    'refuses %p as no text, or a blank one',
    (value) => {
      refusal(() => requireText(value, 'reason'), /^reason is [^;]*; wanted: a text that is not blank\.$/);
    },
  );

  test.each(['a\0b', 'a\ud800', '\udc00a'])('refuses %j, which PostgreSQL cannot store as it is', (value) => {
    refusal(() => requireText(value, 'reason'), /^reason is [^;]*; wanted: a text that PostgreSQL can store/);
  });
});

describe('requireOptions', () => {
  test.each([{}, { dryRun: true }, Object.create(null)])('takes %p', (value) => {
    expect(() => requireOptions(value, ['dryRun'])).not.toThrow();
  });

  // To ignore them is to ignore what was asked for: sweep(tenant, now, true) is no dry run.
  test.each([null, 7, true, 'dryRun', [], () => ({})])('refuses %p', (value) => {
    refusal(() => requireOptions(value, ['dryRun'], 'call'), /^call is [^;]*; wanted: an object, or nothing\.$/);
  });

  test('refuses keys that nobody reads, and names those that somebody does', () => {
    refusal(
      () => requireOptions({ dryrun: true, actor: 'x' }, ['dryRun', 'actor']),
      /^options is 'dryrun'; wanted: keys among dryRun, actor\.$/,
    );
  });
});

describe('requireSignal', () => {
  test.each([undefined, new AbortController().signal, AbortSignal.abort()])('takes %p', (value) => {
    expect(() => requireSignal(value)).not.toThrow();
  });

  test.each([null, 7, {}, { aborted: false }, new AbortController()])('refuses %p', (value) => {
    refusal(() => requireSignal(value), /^options\.signal is [^;]*; wanted: an AbortSignal\.$/);
  });
});
