import { describe, expect, test } from '@jest/globals';
import { parseSchedule } from '../cron-schedule.js';
import { type SlotFacts, judgeSlots } from './slot-health.js';

const at = (text: string) => new Date(`2026-06-${text}Z`);
const completed = (slot: string, failed = false) => ({ slot: at(slot), completedAt: at(slot), failed });
const facts = (more: Partial<SlotFacts>): SlotFacts => ({
  schedule: parseSchedule('0 2 * * *')!,
  since: at('01T00:00:00'),
  isChanged: false,
  now: at('10T12:00:00'),
  graceMs: 60_000,
  outcomes: [completed('10T02:00:00')],
  running: null,
  ...more,
});

describe('slots', () => {
  test.each<[string, Partial<SlotFacts>, Date | null]>([
    ['the newest was swept', {}, null],
    ['one is late, within its grace', { now: at('11T02:01:00') }, null],
    ['one is later than that', { now: at('11T02:01:00.001') }, at('11T02:00:00')],
    [
      'one is late, and an earlier one is still being swept',
      { now: at('11T03:00:00'), running: at('10T02:00:00') },
      null,
    ],
    ['several were missed: the first is named', { outcomes: [completed('07T02:00:00')] }, at('08T02:00:00')],
    ['none was swept yet, the first is to come', { outcomes: [], since: at('10T03:00:00') }, null],
    ['none was swept yet, and one should have been', { outcomes: [], since: at('09T03:00:00') }, at('10T02:00:00')],
    [
      'the schedule is a new one: what it would have been before does not count',
      { outcomes: [completed('08T17:30:00')], since: at('10T03:00:00') },
      null,
    ],
    [
      'a change made the schedule denser: what it would have been before does not count',
      { outcomes: [completed('07T02:00:00')], since: at('10T03:00:00'), isChanged: true },
      null,
    ],
    [
      'one was missed since the schedule was changed',
      { outcomes: [completed('07T02:00:00')], since: at('09T03:00:00'), isChanged: true },
      at('10T02:00:00'),
    ],
    [
      'the newest was swept since the schedule was changed, and the next was missed',
      { outcomes: [completed('09T02:00:00')], since: at('07T03:00:00'), isChanged: true },
      at('10T02:00:00'),
    ],
    [
      'only where nobody was there',
      { outcomes: [completed('09T02:00:00')], since: at('10T11:00:00') },
      at('10T02:00:00'),
    ],
  ])('%s', (_, more, missed) => {
    expect(judgeSlots(facts(more))).toMatchObject({ missed, isUp: missed === null });
  });

  test.each([
    [[true, true, false], 2, true],
    [[true, true, true], 3, false],
    [[false, true, true, true], 0, true],
  ])('that failed %j, newest first: %i in a row', (failed, failures, isUp) => {
    const outcomes = failed.map((each, index) => completed(`${10 - index}`.padStart(2, '0') + 'T02:00:00', each));
    expect(judgeSlots(facts({ outcomes }))).toMatchObject({ failures, isUp, missed: null });
  });
});
