import { expect, test } from '@jest/globals';
import { backoffMs } from './backoff.js';

const HOUR = 3_600_000;

// acceptance 44
test.each([
  [1, 1000],
  [2, 2000],
  [3, 4000],
  [10, 512_000],
])('waits after failure %i exactly %i ms, from a second', (attempt, ms) => {
  expect(backoffMs(attempt, { baseMs: 1000, maxMs: HOUR }, 0)).toBe(ms);
});

// acceptance 45, 46
test.each([
  [13, 1000, HOUR],
  [1000, 1, HOUR],
  [1, 2 * HOUR, HOUR],
])('never waits longer than it may: failure %i, base %i', (attempt, baseMs, ms) => {
  expect(backoffMs(attempt, { baseMs, maxMs: HOUR }, 0)).toBe(ms);
});

test.each([
  [0, 8000],
  [0.5, 6000],
  [1, 4000],
])('takes up to half off at random: %d', (random, ms) => {
  expect(backoffMs(4, { baseMs: 1000, maxMs: HOUR }, random)).toBe(ms);
});
