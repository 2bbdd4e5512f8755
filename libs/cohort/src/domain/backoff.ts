/** Ten years: far beyond any wait that makes sense, and far below what an instant can hold. */
const LONGEST_MS = 3650 * 86_400_000;

/**
 * How long work that has failed `attempt` times waits: the base, doubled with every further failure, at most `maxMs`.
 * `random`, from 0 to 1, takes up to half of it off, so that what failed together does not come back together.
 */
export function backoffMs(
  attempt: number,
  { baseMs, maxMs }: { baseMs: number; maxMs: number },
  random: number,
): number {
  const whole = Math.min(baseMs * 2 ** Math.max(0, attempt - 1), maxMs, LONGEST_MS);
  return whole * (1 - random / 2);
}
