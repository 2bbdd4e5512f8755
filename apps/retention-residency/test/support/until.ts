import { setTimeout as delay } from 'node:timers/promises';

/** Waits until something holds, and fails when it does not within the time. Returns how long it took, in ms. */
export async function until(holds: () => Promise<boolean> | boolean, withinMs = 15_000): Promise<number> {
  const started = performance.now();
  while (!(await holds())) {
    if (performance.now() - started > withinMs) throw new Error(`It did not come true within ${withinMs} ms.`);
    await delay(5);
  }
  return performance.now() - started;
}
