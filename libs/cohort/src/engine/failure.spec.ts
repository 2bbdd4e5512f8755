import { describe, expect, test } from '@jest/globals';
import { CohortError, RuleResolutionError } from '../cohort.errors.js';
import { type EntityFailure, joinFailures, sanitise, sqlStateOf } from './failure.js';

const ID = '0b0e5a4c-3f5e-4c3e-9d4e-0c6f8a1b2c3d';
const HEX = ID.replaceAll('-', '');

function setup() {
  const logged: { message: string; error: unknown }[] = [];
  const ctx = {
    newId: () => ID,
    logger: {
      log: () => undefined,
      warn: () => undefined,
      error: (message: string, error: unknown) => void logged.push({ message, error }),
    },
  };
  return { logged, envelopeOf: (error: unknown, extra?: string) => sanitise(ctx, 'Entity Note', error, extra) };
}

class DatabaseError extends Error {
  constructor(
    readonly code: unknown,
    options?: ErrorOptions,
  ) {
    super(`duplicate key (email)=(ada@mail.test)`, options);
  }
}
const named = (name: string) => new { [name]: class extends Error {} }[name]!('secret');
const wrapped = (cause: unknown, depth = 1): Error =>
  depth === 0 ? (cause as Error) : new Error('ada@mail.test', { cause: wrapped(cause, depth - 1) });

describe('sanitise', () => {
  // DIAG-01, DIAG-03, acceptance 292, 460
  test('names the type, the SQLSTATE and the diagnostic id of a database error, and nothing else', () => {
    const { envelopeOf } = setup();
    expect(envelopeOf(new DatabaseError('23505'))).toBe(`type=DatabaseError;code=sqlstate:23505;diagnosticId=${HEX}`);
  });

  // DIAG-04, acceptance 460
  test('logs the error itself under the same diagnostic id', () => {
    const { envelopeOf, logged } = setup();
    const error = new Error('ada@mail.test');
    expect(envelopeOf(error)).toContain(HEX);
    expect(logged).toEqual([{ message: `Entity Note failed; diagnosticId=${HEX}`, error }]);
  });

  // DIAG-05
  test.each([
    ['an Error', new Error('ada@mail.test')],
    ['a database error', new DatabaseError('22001')],
    ['a wrapped error', wrapped(new DatabaseError('22001'), 3)],
    ['an error of Cohort', new RuleResolutionError('notes', 'ada@mail.test')],
    ['a code that is a text', new DatabaseError('ada@mail.test')],
    ['a thrown text', 'ada@mail.test'],
    ['a thrown object', { email: 'ada@mail.test' }],
    ['an aggregate', new AggregateError([new Error('ada@mail.test')], 'ada@mail.test')],
  ])('never lets the message of %s out', (_, error) => {
    const { envelopeOf } = setup();
    expect(envelopeOf(error)).not.toMatch(/ada|mail|key/);
    expect(envelopeOf(error)).toMatch(/^type=\w+;code=[\w:-]+;diagnosticId=[0-9a-f]{32}$/);
  });

  // DIAG-02
  test('names the root cause, however deep', () => {
    const { envelopeOf } = setup();
    expect(envelopeOf(wrapped(new DatabaseError('40001'), 1))).toContain('type=DatabaseError;code=sqlstate:40001;');
    expect(envelopeOf(wrapped(new DatabaseError('40001'), 10))).toContain('type=DatabaseError;code=sqlstate:40001;');
  });

  test('ends when causes go round in a circle', () => {
    const { envelopeOf } = setup();
    const first = new RangeError('a');
    const second = new RangeError('b', { cause: first });
    first.cause = second;
    expect(envelopeOf(second)).toContain('type=RangeError;');
  });

  test('stops at a cause that is no error', () => {
    const { envelopeOf } = setup();
    expect(envelopeOf(new TypeError('a', { cause: 'ada@mail.test' }))).toContain('type=TypeError;code=none;');
  });

  // DIAG-02
  test.each([
    ['Übel-Error 1', '_bel_Error_1'],
    ['a.b_c+d`e', 'a.b_c+d`e'],
    ['x;code=none\n', 'x_code_none_'],
    ['N'.repeat(600), 'N'.repeat(512)],
  ])('spells the type %j as %s', (name, spelled) => {
    const { envelopeOf } = setup();
    expect(envelopeOf(named(name))).toContain(`type=${spelled};code=none;`);
  });

  // DIAG-02: a name of last resort
  test.each([
    ['null', null],
    ['undefined', undefined],
    ['an object without a prototype', Object.create(null)],
    ['an error of a class without a name', new (class extends Error {})('secret')],
  ])('calls %s an Error', (_, error) => {
    const { envelopeOf } = setup();
    expect(envelopeOf(error)).toBe(`type=Error;code=none;diagnosticId=${HEX}`);
  });

  // DIAG-03
  test.each([
    ['23505', 'sqlstate:23505'],
    ['P0001', 'sqlstate:P0001'],
    ['XX000', 'sqlstate:XX000'],
    ['23505x', 'none'],
    ['2350', 'none'],
    ['abcde', 'none'],
    [23505, 'none'],
    [undefined, 'none'],
    ['ECONNRESET', 'ECONNRESET'],
    ['ERR_INVALID_ARG_TYPE', 'ERR_INVALID_ARG_TYPE'],
    ['ada@mail.test', 'none'],
    [`E${'X'.repeat(41)}`, 'none'],
  ])('takes the code %p for %s', (code, shown) => {
    const { envelopeOf } = setup();
    expect(envelopeOf(new DatabaseError(code))).toContain(`;code=${shown};`);
  });

  // DIAG-03: five capitals, and no SQLSTATE
  test.each(['EPIPE', 'EPERM', 'EBUSY'])('takes %s for the code of the operating system that it is', (code) => {
    const { envelopeOf } = setup();
    expect(envelopeOf(new DatabaseError(code))).toContain(`;code=${code};`);
    expect(sqlStateOf(new DatabaseError(code))).toBeUndefined();
  });

  test('shows the stable code of an error of Cohort', () => {
    const { envelopeOf } = setup();
    const error = new RuleResolutionError('notes', 'none');
    expect(error).toBeInstanceOf(CohortError);
    expect(envelopeOf(error)).toContain('type=RuleResolutionError;code=rule-resolution;');
    expect(envelopeOf(wrapped(error))).toContain('type=RuleResolutionError;code=rule-resolution;');
  });

  test('puts what it is asked to add before the diagnostic id', () => {
    const { envelopeOf } = setup();
    expect(envelopeOf(new DatabaseError('23514'), ';refusedRows=3')).toBe(
      `type=DatabaseError;code=sqlstate:23514;refusedRows=3;diagnosticId=${HEX}`,
    );
  });
});

describe('sqlStateOf', () => {
  test('finds the SQLSTATE of the root cause, and none where there is none', () => {
    expect(sqlStateOf(wrapped(new DatabaseError('40P01'), 2))).toBe('40P01');
    expect(sqlStateOf(new Error('x'))).toBeUndefined();
    expect(sqlStateOf(null)).toBeUndefined();
    expect(sqlStateOf('40P01')).toBeUndefined();
  });
});

describe('joinFailures', () => {
  const failures = (...lengths: number[]): EntityFailure[] =>
    lengths.map((length, index) => ({ entity: 'Note', entityId: ID, error: String(index).repeat(length) }));

  test('puts each failure on a line of its own', () => {
    expect(joinFailures(failures(3, 2))).toBe('000\n11');
    expect(joinFailures([])).toBe('');
  });

  test('keeps a text of exactly 4000 characters whole', () => {
    expect(joinFailures(failures(1999, 2000))).toHaveLength(4000);
  });

  test('cuts a longer one at the end of the last line that fits', () => {
    expect(joinFailures(failures(1000, 2000, 1000))).toBe(`${'0'.repeat(1000)}\n${'1'.repeat(2000)}`);
    expect(joinFailures(failures(1999, 2001))).toBe('0'.repeat(1999));
    expect(joinFailures(failures(4000, 10))).toBe('0'.repeat(4000));
  });

  test('cuts inside a line only where the first one does not fit', () => {
    expect(joinFailures(failures(4001))).toBe('0'.repeat(4000));
  });
});
