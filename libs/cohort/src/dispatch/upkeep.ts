import { type EngineContext, inLedger } from '../engine/context.js';
import { recoverAbandoned } from '../engine/recover.js';
import { clearPayloads, expireClaims, lockOldPayloads, scrubPayloads } from '../sql/handler-queue.js';

/** Most snapshots cleared in one transaction. */
const MOST = 10_000;

/** Ends what others left: passes without a sign of life, claims whose lease has run out. */
export async function recoverLost(ctx: EngineContext): Promise<void> {
  await recoverAbandoned(ctx);
  const { cohortSchema } = ctx.registry;
  const { claimTimeoutMs, maxAttempts, deadLetterPayloadRetentionMs } = ctx.settings.dispatch;
  await inLedger(ctx, async (tx) => {
    const touched = await expireClaims(tx, cohortSchema, { claimTimeoutMs, maxAttempts });
    if (touched.length > 0) await clearPayloads(tx, cohortSchema, touched, deadLetterPayloadRetentionMs > 0);
  });
}

/** Clears snapshots that nobody may have any longer. */
export async function scrubOld(ctx: EngineContext): Promise<void> {
  const { cohortSchema } = ctx.registry;
  const { dispatch } = ctx.settings;
  let cleared = 0;
  for (let locked = MOST; locked === MOST;) {
    await inLedger(ctx, async (tx) => {
      const rows = await lockOldPayloads(tx, cohortSchema, dispatch, MOST);
      locked = rows.length;
      if (locked > 0) cleared += await scrubPayloads(tx, cohortSchema, dispatch, rows);
    });
  }
  if (cleared > 0) ctx.logger.warn(`${cleared} captured snapshots were older than they may get and have been cleared.`);
}
