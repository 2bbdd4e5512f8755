import { Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireSignal, requireText } from '../domain/arguments.js';
import { inLedger } from '../engine/context.js';
import {
  type DeadLetter,
  type RequeueObstacle,
  discardWork,
  lockDeadLetters,
  lockForRequeue,
  requeueWork,
  selectDeadLetters,
} from '../sql/dead-letters.js';
import { DEPENDENT_SKIPPED, clearPayloads, countUnsettled } from '../sql/handler-queue.js';
import { notifyWaiting } from '../sql/wake.js';
import { Readiness } from '../startup/readiness.js';
import { runDispatchLoop } from './dispatch-loop.js';
import { drainQueue } from './drain.js';
import { recoverLost, scrubOld } from './upkeep.js';
import { Wake } from './wake.js';

export interface FlushResult {
  /** Work that somebody is at: other processes, or a claim that has not run out yet. */
  readonly inFlightRemaining: number;
  /** Work that waits, such as for the end of its run. */
  readonly pendingRemaining: number;
  /** Whether there is none of either. */
  readonly settled: boolean;
}

export interface RequeueResult {
  /** What is in the queue again, with the later handlers of the same rows. */
  readonly requeued: readonly string[];
  readonly refused: readonly { readonly id: string; readonly reason: RequeueObstacle }[];
}

export interface DeadLetterPage {
  readonly items: readonly DeadLetter[];
  /** Pass as `cursor` for the next page; null at the end. */
  readonly next: string | null;
}

/**
 * Calls `onAfter` of row handlers for rows that were committed: in the background of every host that has handlers, at
 * least once for each, those of one row one after the other. Stops with the host.
 */
@Injectable()
export class RetentionRowDispatcher implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #stop = new AbortController();
  #loop: Promise<void> | undefined;
  readonly #flushes = new Set<Promise<FlushResult>>();

  constructor(private readonly readiness: Readiness) {}

  /** @internal */
  onApplicationBootstrap(): void {
    const control = { stop: this.#stop.signal, random: Math.random };
    this.#loop = this.readiness.context().then(
      (ctx) => runDispatchLoop(ctx, control),
      // The host's start fails for the same reason, and says it.
      () => undefined,
    );
  }

  /**
   * @internal Ends the loop: handlers at work are asked to stop, work not begun goes back to the queue. Waits for flushes in
   * progress as well, so long as `worker.shutdownTimeout` says: what they need of the host is still there.
   */
  async onModuleDestroy(): Promise<void> {
    this.#stop.abort(new Error('The host stops.'));
    await this.#loop;
    if (this.#flushes.size === 0) return;
    const { shutdownTimeoutMs } = this.readiness.settings.inForce.worker;
    const late = new Promise<'late'>((resolve) => void setTimeout(resolve, shutdownTimeoutMs, 'late').unref());
    const end = await Promise.race([Promise.allSettled(this.#flushes), late]);
    if (end !== 'late') return;
    (await this.readiness.context()).logger.warn(
      `A flush is still busy after ${shutdownTimeoutMs} ms; it is left, and what it has claimed is done again after claimTimeout.`,
    );
  }

  /**
   * Does all work there is, now and here: recovers, scrubs, and tries again at once what fails, until it succeeds or is a
   * dead letter. Returns what is left. A signal that is aborted puts work back that was not begun, and is not thrown.
   */
  async flush(options: { readonly signal?: AbortSignal } = {}): Promise<FlushResult> {
    requireOptions(options, ['signal']);
    requireSignal(options.signal);
    const flush = this.#flush(options.signal);
    this.#flushes.add(flush);
    try {
      return await flush;
    } finally {
      this.#flushes.delete(flush);
    }
  }

  async #flush(signal: AbortSignal | undefined): Promise<FlushResult> {
    const ctx = await this.readiness.context();
    await recoverLost(ctx);
    await scrubOld(ctx);
    const stop = AbortSignal.any([this.#stop.signal, ...(signal ? [signal] : [])]);
    await drainQueue(ctx, { ignoreBackoff: true, stop, random: Math.random, wake: new Wake() });
    const { inFlight, pending } = await inLedger(ctx, (tx) => countUnsettled(tx, ctx.registry.cohortSchema));
    return { inFlightRemaining: inFlight, pendingRemaining: pending, settled: inFlight + pending === 0 };
  }

  /** Work that nobody tries any more and nobody has discarded, oldest first. `limit`: 1 to 1000, default 100. */
  async deadLetters(options: { readonly cursor?: string; readonly limit?: number } = {}): Promise<DeadLetterPage> {
    requireOptions(options, ['cursor', 'limit']);
    const { cursor = '0', limit = 100 } = options;
    if (typeof cursor !== 'string' || !/^\d{1,18}$/.test(cursor))
      throw new InvalidArgumentError('options.cursor', cursor, 'the next of an earlier page');
    if (!Number.isInteger(limit) || limit < 1 || limit > 1000)
      throw new InvalidArgumentError('options.limit', limit, 'a whole number from 1 to 1000');
    const ctx = await this.readiness.context();
    const items = await inLedger(ctx, (tx) => selectDeadLetters(tx, ctx.registry.cohortSchema, cursor, limit));
    return { items, next: items.length === limit ? items.at(-1)!.id : null };
  }

  /**
   * Puts dead letters back into the queue, with all of their attempts. What cannot go back is in `refused`: a snapshot that
   * was cleared is gone (`deadLetterPayloadRetention`), and a row that was left alone comes with the next sweep.
   */
  async requeue(ids: readonly string[]): Promise<RequeueResult> {
    const asked = requireIds(ids);
    const ctx = await this.readiness.context();
    const { cohortSchema } = ctx.registry;
    return inLedger(ctx, async (tx) => {
      await lockDeadLetters(tx, cohortSchema, asked);
      const candidates = await lockForRequeue(tx, cohortSchema, asked);
      const obstacles = new Map(candidates.map(({ id, obstacle }) => [id, obstacle]));
      const free = asked.filter((id) => obstacles.get(id) === null);
      const refused = asked.flatMap((id) => {
        const reason = obstacles.has(id) ? obstacles.get(id)! : 'notFound';
        return reason === null ? [] : [{ id, reason }];
      });
      const requeued = free.length === 0 ? [] : await requeueWork(tx, cohortSchema, free, DEPENDENT_SKIPPED);
      if (requeued.length > 0) await notifyWaiting(tx, cohortSchema);
      return { requeued, refused };
    });
  }

  /**
   * Says that nothing is to be done about dead letters: they are listed no more, and what was kept for them is cleared.
   * The reason, at most 500 characters, stays in the ledger: no personal data. Returns the ids that were discarded.
   */
  async discard(ids: readonly string[], reason: string): Promise<readonly string[]> {
    const asked = requireIds(ids);
    requireText(reason, 'reason');
    if (reason.length > MAX_REASON_LENGTH)
      throw new InvalidArgumentError('reason', reason, `at most ${MAX_REASON_LENGTH} characters`);
    const ctx = await this.readiness.context();
    const { cohortSchema } = ctx.registry;
    return inLedger(ctx, async (tx) => {
      await lockDeadLetters(tx, cohortSchema, asked);
      const discarded = await discardWork(tx, cohortSchema, asked, reason);
      const keep = ctx.settings.dispatch.deadLetterPayloadRetentionMs > 0;
      if (discarded.length > 0) await clearPayloads(tx, cohortSchema, discarded, keep);
      return discarded.map(({ id }) => id);
    });
  }
}

const MAX_REASON_LENGTH = 500;
const MAX_IDS = 10_000;

function requireIds(ids: readonly string[]): string[] {
  if (!Array.isArray(ids) || ids.length > MAX_IDS)
    throw new InvalidArgumentError('ids', ids, `a list of at most ${MAX_IDS} ids of dead letters`);
  for (const [index, id] of (ids as unknown[]).entries()) {
    if (typeof id !== 'string' || !/^\d{1,18}$/.test(id))
      throw new InvalidArgumentError(`ids[${index}]`, id, 'the id of a dead letter');
  }
  return [...new Set(ids as string[])];
}
