import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { repeat } from './repeat.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

test('calls again and again, but never while a call is under way, and not after its end', async () => {
  let calls = 0;
  let done = () => {};
  const work = () => {
    calls++;
    return new Promise<void>((resolve) => (done = resolve));
  };
  const repetition = repeat(10, work);
  await jest.advanceTimersByTimeAsync(35);
  expect(calls).toBe(1);
  done();
  await jest.advanceTimersByTimeAsync(10);
  expect(calls).toBe(2);
  done();
  await repetition.end();
  await jest.advanceTimersByTimeAsync(50);
  expect(calls).toBe(2);
});

test('ends when the call under way has ended', async () => {
  const said: string[] = [];
  let done = () => {};
  const repetition = repeat(10, () =>
    new Promise<void>((resolve) => (done = resolve)).then(() => void said.push('work')),
  );
  await jest.advanceTimersByTimeAsync(10);
  const ending = repetition.end().then(() => said.push('end'));
  await jest.advanceTimersByTimeAsync(10);
  expect(said).toEqual([]);
  done();
  await ending;
  expect(said).toEqual(['work', 'end']);
});
