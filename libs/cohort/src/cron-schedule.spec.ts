import { describe, expect, test } from '@jest/globals';
import { parseSchedule } from './cron-schedule.js';

const slotsOf = (source: string, from: string, count: number): string[] => {
  const slots: string[] = [];
  for (let at = new Date(from); slots.length < count; slots.push(at.toISOString()))
    at = parseSchedule(source)!.next(at);
  return slots;
};

describe('parseSchedule', () => {
  // WRK-02
  test.each([
    ['0 2 * * *', '2026-06-30T01:59:59.999Z', ['2026-06-30T02:00:00.000Z', '2026-07-01T02:00:00.000Z']],
    ['0 2 * * *', '2026-06-30T02:00:00.000Z', ['2026-07-01T02:00:00.000Z']],
    ['*/2 * * * * *', '2026-06-30T02:00:00.500Z', ['2026-06-30T02:00:02.000Z', '2026-06-30T02:00:04.000Z']],
    ['  30 4 1 JAN,JUL *  ', '2026-06-30T00:00:00.000Z', ['2026-07-01T04:30:00.000Z', '2027-01-01T04:30:00.000Z']],
    ['0 0 29 2 *', '2026-06-30T00:00:00.000Z', ['2028-02-29T00:00:00.000Z']],
  ])('reads %p in UTC, after %s', (source, from, slots) => {
    expect(slotsOf(source, from, slots.length)).toEqual(slots);
  });

  // field case S18: nothing is skipped or doubled when the clocks of Europe change
  test('knows no summer time', () => {
    expect(slotsOf('30 2 * * *', '2026-03-28T12:00:00.000Z', 3)).toEqual([
      '2026-03-29T02:30:00.000Z',
      '2026-03-30T02:30:00.000Z',
      '2026-03-31T02:30:00.000Z',
    ]);
    expect(slotsOf('30 1 * * *', '2026-10-24T12:00:00.000Z', 2)).toEqual([
      '2026-10-25T01:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  // WRK-01
  test.each([null, undefined, '', ' \t '])('takes %p for no schedule', (value) => {
    expect(parseSchedule(value)).toBeNull();
  });

  // acceptance 419, WRK-02
  test.each([
    ['* * * *', /seen: 4 fields/],
    ['0 0 2 * * * *', /seen: 7 fields/],
    ['@daily', /seen: 1 fields/],
    ['60 2 * * *', /out of range/],
    ['0 25 * * *', /out of range/],
    ['*/0 * * * *', /step of zero/],
    ['0 2 * * someday', /Unknown alias/],
    ['a b c d e', /Unknown alias/],
    ['0 2 x * *', /Unknown alias/],
    ['0 0 30 2 *', /one that fires|that fires: this one has no date in the next 8 years/],
    ['0 0 31 4,6,9,11 *', /that fires/],
    [7, /^Cohort cannot run.*\n- schedule is 7; wanted: a cron expression/],
    [['0 2 * * *'], /wanted: a cron expression/],
  ])('refuses %p', (value, message) => {
    expect(() => parseSchedule(value)).toThrow(message);
    expect(() => parseSchedule(value)).toThrow(/schedule is /);
  });
});
