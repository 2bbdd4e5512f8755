import { type EngineContext, inLedger } from '../engine/context.js';
import { type WorkOutcome, clearPayloads, settleWork } from '../sql/handler-queue.js';

/** Most outcomes written in one statement. */
const MOST = 1000;

/** Records outcomes as they come: what ends while one statement is under way goes with the next. */
export class Settler {
  readonly #waiting: WorkOutcome[] = [];
  #settling: Promise<void> | undefined;

  constructor(private readonly ctx: EngineContext) {}

  add(outcome: WorkOutcome): void {
    this.#waiting.push(outcome);
    this.#settling ??= this.#settleAll();
  }

  /** Resolves when everything added so far is recorded. */
  idle(): Promise<void> {
    return this.#settling ?? Promise.resolve();
  }

  async #settleAll(): Promise<void> {
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#settle(this.#waiting.splice(0, MOST));
    this.#settling = undefined;
  }

  /** An outcome that cannot be recorded is no failure of its handler: the claim runs out, and the work is done again. */
  async #settle(outcomes: readonly WorkOutcome[]): Promise<void> {
    try {
      await this.ctx.dispatchProbe?.('settling');
      await recordOutcomes(this.ctx, outcomes);
      await this.ctx.dispatchProbe?.('settled');
    } catch (error) {
      this.ctx.logger.error(`Outcomes of ${outcomes.length} row handler calls could not be recorded`, error);
    }
  }
}

async function recordOutcomes(ctx: EngineContext, outcomes: readonly WorkOutcome[]): Promise<void> {
  const { cohortSchema } = ctx.registry;
  await inLedger(ctx, async (tx) => {
    const touched = await settleWork(tx, cohortSchema, outcomes);
    const keep = ctx.settings.dispatch.deadLetterPayloadRetentionMs > 0;
    if (touched.length > 0) await clearPayloads(tx, cohortSchema, touched, keep);
  });
}
