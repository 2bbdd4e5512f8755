import { Problem } from '../problem.js';

const DEEPEST = 20;

/** Refuses a body that is nested deeper than any of ours: whoever walks it by recursion would overflow its stack. */
export function refuseDeep(body: unknown): void {
  let level: unknown[] = [body];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEEPEST) {
      throw new Problem('validation', `The body is nested deeper than ${DEEPEST} levels.`, { isMalformed: true });
    }
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null
        ? (Object.values(value) as unknown[]).filter((each) => typeof each === 'object' && each !== null)
        : [],
    );
  }
}
