import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { MIN_INSTANT, requireInstant } from './instant.js';

describe('requireInstant', () => {
  test.each(['0001-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z'])(
    'takes the Date of %s',
    (text) => {
      const instant = new Date(text);
      expect(requireInstant(instant, 'now')).toEqual(instant);
    },
  );

  // acceptance 367, DOM-16: an offset is part of a text, a Date is an instant
  test('takes an instant that was written with an offset', () => {
    expect(requireInstant(new Date('2026-06-30T13:00:00+01:00'), 'now').toISOString()).toEqual(
      '2026-06-30T12:00:00.000Z',
    );
  });

  test('returns a copy, which does not move with the original', () => {
    const given = new Date('2026-06-30T12:00:00.000Z');
    const taken = requireInstant(given, 'now');
    given.setFullYear(2100);
    expect(taken).toEqual(new Date('2026-06-30T12:00:00.000Z'));
  });

  test.each([
    [new Date(MIN_INSTANT.getTime() - 1), '0000-12-31T23:59:59.999Z'],
    [new Date('+010000-01-01T00:00:00.000Z'), '+010000-01-01T00:00:00.000Z'],
    [new Date(NaN), 'an invalid Date'],
    [null, 'null'],
    [undefined, 'undefined'],
    [NaN, 'NaN'],
    [0, '0'],
    [Date.UTC(2026, 0, 1), '1767225600000'],
    ['2026-06-30T12:00:00.000Z', "'2026-06-30T12:00:00.000Z'"],
    ['', 'an empty string'],
    [{ getTime: () => 0 }, 'a value of type Object'],
  ])('refuses %p, naming the argument, what it saw and what it wants', (value, seen) => {
    const attempt = () => requireInstant(value, 'now');
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(`now is ${seen}; wanted: a valid Date between the years 1 and 9999.`);
  });
});
