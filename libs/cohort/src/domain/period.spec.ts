import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { MIN_INSTANT } from './instant.js';
import { before, parsePeriod } from './period.js';

const at = (text: string) => new Date(text);

describe('parsePeriod', () => {
  test.each([
    ['P30D', 'P30D'],
    ['P6M', 'P6M'],
    ['P7Y', 'P7Y'],
    ['P2W', 'P2W'],
    ['P1Y2M3DT4H5M6S', 'P1Y2M3DT4H5M6S'],
    ['P14M', 'P14M'],
    ['PT36H', 'PT36H'],
    ['P30d', 'P30D'],
    ['PT0.5H', 'PT30M'],
    ['P4294967295Y', 'P4294967295Y'],
  ])('takes %s and returns it as %s', (value, canonical) => {
    expect(parsePeriod(value, 'rule.period')).toBe(canonical);
  });

  // acceptance 61, field case C21
  test.each(['P0D', 'PT0S', 'P0Y', 'P0M0D', 'PT0.000S'])('takes %s as "at once", spelled P0D', (value) => {
    expect(parsePeriod(value, 'rule.period')).toBe('P0D');
  });

  // acceptance 60, DOM-01, field case C21
  test.each([
    [0, '0'],
    [-1, '-1'],
    [30, '30'],
    [1e12, '1000000000000'],
    [NaN, 'NaN'],
    [Infinity, 'Infinity'],
    [30n, '30n'],
    [null, 'null'],
    [undefined, 'undefined'],
    [true, 'true'],
    [{}, 'a value of type Object'],
    [['P1D'], 'a value of type Array'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    ['', 'an empty string'],
    [' ', "' '"],
    ['30', "'30'"],
    ['30D', "'30D'"],
    ['P', "'P'"],
    ['PT', "'PT'"],
    ['P30', "'P30'"],
    ['P1D ', "'P1D '"],
    [' P1D', "' P1D'"],
    ['P0.5D', "'P0.5D'"],
    ['P1e3D', "'P1e3D'"],
    ['p30d', "'p30d'"],
    ['+P1D', "'+P1D'"],
    ['-P1D', "'-P1D'"],
    ['P-1D', "'P-1D'"],
    ['P1Y-1D', "'P1Y-1D'"],
    ['P4294967296Y', "'P4294967296Y'"],
    ['forever', "'forever'"],
    ['30 days', "'30 days'"],
  ])('refuses %p, naming the field, what it saw and what it wants', (value, seen) => {
    const attempt = () => parsePeriod(value, 'rule.period');
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(`rule.period is ${seen}; wanted: an ISO-8601 duration that is not negative`);
  });
});

describe('before', () => {
  // acceptance 22, DOM-13
  test.each([
    ['a fixed number of days', '2026-06-30T12:00:00.000Z', 'P30D', '2026-05-31T12:00:00.000Z'],
    ['hours across midnight', '2026-06-30T12:00:00.000Z', 'PT36H', '2026-06-29T00:00:00.000Z'],
    ['weeks', '2026-06-30T12:00:00.000Z', 'P2W', '2026-06-16T12:00:00.000Z'],
    ['milliseconds', '2026-06-30T12:00:00.000Z', 'PT0.001S', '2026-06-30T11:59:59.999Z'],
    ['a month into a shorter one', '2026-03-31T08:00:00.000Z', 'P1M', '2026-02-28T08:00:00.000Z'],
    ['a month into February of a leap year', '2024-03-31T08:00:00.000Z', 'P1M', '2024-02-29T08:00:00.000Z'],
    ['a month from the last of a short one', '2026-02-28T08:00:00.000Z', 'P1M', '2026-01-28T08:00:00.000Z'],
    ['twelve months as a year', '2026-11-30T00:00:00.000Z', 'P12M', '2025-11-30T00:00:00.000Z'],
    ['a year from a leap day', '2024-02-29T23:59:59.999Z', 'P1Y', '2023-02-28T23:59:59.999Z'],
    ['four years from a leap day to a leap day', '2024-02-29T00:00:00.000Z', 'P4Y', '2020-02-29T00:00:00.000Z'],
    ['a century without its leap day', '2104-02-29T00:00:00.000Z', 'P4Y', '2100-02-28T00:00:00.000Z'],
    [
      'a leap year of days and a year are not the same',
      '2024-12-31T00:00:00.000Z',
      'P365D',
      '2024-01-01T00:00:00.000Z',
    ],
    ['years, then months, then days', '2026-03-31T00:00:00.000Z', 'P1Y1M1D', '2025-02-27T00:00:00.000Z'],
  ])('goes back %s', (_, now, period, expected) => {
    expect(before(at(now), period)).toEqual(at(expected));
  });

  // field case C22
  test.each([
    ['spring', '2026-03-29T12:00:00.000Z', '2026-03-28T12:00:00.000Z'],
    ['autumn', '2026-10-25T12:00:00.000Z', '2026-10-24T12:00:00.000Z'],
  ])('takes a day for 24 hours when clocks change in %s', (_, now, expected) => {
    expect(before(at(now), 'P1D')).toEqual(at(expected));
    expect(before(at(now), 'PT24H')).toEqual(at(expected));
  });

  // acceptance 23
  test('of P0D is now itself', () => {
    expect(before(at('2026-06-30T12:00:00.123Z'), 'P0D')).toEqual(at('2026-06-30T12:00:00.123Z'));
  });

  test('rounds a fraction of a millisecond away from the rows: they are kept for it', () => {
    expect(before(at('2026-06-30T12:00:00.000Z'), 'PT0.0000001S')).toEqual(at('2026-06-30T11:59:59.999Z'));
  });

  // acceptance 26, 42, DOM-13
  test.each([
    ['exactly to the earliest instant', '2026-01-01T00:00:00.000Z', 'P2025Y'],
    ['one day beyond it', '2026-01-01T00:00:00.000Z', 'P2025Y1D'],
    ['thousands of years beyond it', '2026-01-01T00:00:00.000Z', 'P9999Y'],
    ['further than any calendar', '2026-01-01T00:00:00.000Z', 'P4294967295Y'],
    ['further than any clock', '2026-01-01T00:00:00.000Z', 'PT9007199254740991S'],
  ])('saturates when a period reaches back %s', (_, now, period) => {
    expect(before(at(now), period)).toEqual(MIN_INSTANT);
  });

  test('refuses a negative one, before which lies the future', () => {
    expect(() => before(at('2026-01-01T00:00:00.000Z'), '-P30D')).toThrow(InvalidArgumentError);
  });

  test('does not saturate one day inside the earliest instant', () => {
    expect(before(at('2026-01-01T00:00:00.000Z'), 'P2024Y364D')).toEqual(at('0001-01-02T00:00:00.000Z'));
  });
});
