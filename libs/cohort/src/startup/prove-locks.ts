import { type EngineContext, inLedger } from '../engine/context.js';
import { lockKeys, tryLockKey } from '../sql/hold-locks.js';

/**
 * Holds are created under advisory locks, and some poolers and distributed servers grant those to everybody. So one
 * connection takes a lock that no one else knows of, and another must not get it.
 */
export async function lockProblems(ctx: EngineContext): Promise<string[]> {
  const key = `cohort-proof:${ctx.newId()}`;
  const granted = await inLedger(ctx, async (holder) => {
    await lockKeys(holder, [key]);
    return inLedger(ctx, (other) => tryLockKey(other, key));
  });
  if (!granted) return [];
  return [
    "Advisory locks do not lock: two connections were granted the same one. Cohort needs PostgreSQL's own; connect past the pooler, or to a server that has them.",
  ];
}
