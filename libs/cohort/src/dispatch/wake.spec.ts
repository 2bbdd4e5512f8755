import { describe, expect, test } from '@jest/globals';
import { Wake, nextSleepMs } from './wake.js';

// acceptance 43, 20
test.each([
  [59_999, 59_999],
  [60_000, 60_000],
  [60_001, 60_000],
  [2 ** 40, 60_000],
  [0, 0],
  [-1, 0],
])('of %i ms sleeps %i', (left, ms) => {
  expect(nextSleepMs(left)).toBe(ms);
});

describe('a sleep', () => {
  const never = new AbortController().signal;

  test('ends when its time is over', async () => {
    await new Wake().sleep(1, never);
  });

  test('ends at once when it is called, and when it was called before', async () => {
    const wake = new Wake();
    const sleep = wake.sleep(2 ** 40, never);
    wake.call();
    await sleep;
    wake.call();
    await wake.sleep(2 ** 40, never);
  });

  // acceptance 407
  test('ends when it is stopped, and does not begin after that', async () => {
    const stop = new AbortController();
    const sleep = new Wake().sleep(2 ** 40, stop.signal);
    stop.abort();
    await sleep;
    await new Wake().sleep(2 ** 40, stop.signal);
  });
});
