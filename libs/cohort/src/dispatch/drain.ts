import { type EngineContext, inLedger } from '../engine/context.js';
import { type ClaimedWork, claimWork } from '../sql/handler-queue.js';
import { performWork } from './perform-work.js';
import { Settler } from './settler.js';
import type { Wake } from './wake.js';

export interface DrainRequest {
  /** Whether work that failed is tried again at once. */
  readonly ignoreBackoff: boolean;
  readonly stop: AbortSignal;
  readonly random: () => number;
  /** Called when there may be new work. */
  readonly wake: Wake;
}

interface HeldWork {
  readonly work: ClaimedWork;
  /** By performance.now(), from before the claim: the lease cannot be older. */
  readonly claimedAt: number;
}

/** So much work is claimed as may be begun within about this time, so that no lease grows old in a queue of ours. */
const CLAIM_AHEAD_MS = 100;
const HANDLER_SHARE = 0.9;
/** Work that has waited for so much of its lease is given back. */
const STALE_SHARE = 0.5;

/** Does all work that is due, and all that becomes due by that, then returns. */
export async function drainQueue(ctx: EngineContext, request: DrainRequest): Promise<void> {
  await new Drain(ctx, request).run();
}

/** Slots take work, one at a time each. Whoever finds the store empty fills it for all. */
class Drain {
  readonly #store: HeldWork[] = [];
  readonly #settler: Settler;
  readonly #waiting = new Set<() => void>();
  readonly #over = new AbortController();
  #watching: Promise<void> | undefined;
  #filling: Promise<boolean> | undefined;
  #working = 0;
  #last: { readonly count: number; readonly at: number } | undefined;

  constructor(
    private readonly ctx: EngineContext,
    private readonly request: DrainRequest,
  ) {
    this.#settler = new Settler(ctx);
  }

  async run(): Promise<void> {
    const { maxParallelism } = this.ctx.settings.dispatch;
    try {
      const slots = await Promise.allSettled(Array.from({ length: maxParallelism }, () => this.#slot()));
      const failed = slots.find((slot) => slot.status === 'rejected');
      if (failed) throw failed.reason;
    } finally {
      this.#over.abort();
      await this.#watching;
      this.#store.splice(0).forEach(({ work }) => this.#giveBack(work));
      await this.#settler.idle();
    }
  }

  async #slot(): Promise<void> {
    for (let held = await this.#take(); held; held = await this.#take()) {
      try {
        await this.#perform(held);
      } finally {
        this.#working--;
        this.#wakeWaiting();
      }
    }
  }

  async #perform({ work, claimedAt }: HeldWork): Promise<void> {
    const { claimTimeoutMs } = this.ctx.settings.dispatch;
    const age = performance.now() - claimedAt;
    if (age > claimTimeoutMs * STALE_SHARE) {
      this.#giveBack(work);
      return;
    }
    const { stop, random } = this.request;
    const leaseMs = claimTimeoutMs * HANDLER_SHARE - age;
    const outcome = await performWork(this.ctx, work, { leaseMs, stop, random: random() });
    await this.ctx.dispatchProbe?.('worked');
    this.#settler.add(outcome);
  }

  /** The next work; undefined when there is none, nor will there be any by what others are doing. */
  async #take(): Promise<HeldWork | undefined> {
    while (!this.request.stop.aborted) {
      const held = this.#store.shift();
      if (held) {
        this.#working++;
        return held;
      }
      this.#filling ??= this.#fill();
      const hasFound = await this.#filling;
      if (hasFound) continue;
      if (this.#working === 0) return undefined;
      await this.#changed();
    }
    return undefined;
  }

  /** Until somebody has ended its work, or there may be new: one handler that hangs keeps no other slot idle. */
  async #changed(): Promise<void> {
    this.#watching ??= this.#watch().finally(() => (this.#watching = undefined));
    await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  async #watch(): Promise<void> {
    const { stop, wake } = this.request;
    await wake.sleep(this.ctx.settings.dispatch.pollIntervalMs, AbortSignal.any([stop, this.#over.signal]));
    this.#wakeWaiting();
  }

  async #fill(): Promise<boolean> {
    const before = this.#working;
    try {
      await this.#settler.idle();
      const claimedAt = performance.now();
      const works = await this.#claim(this.#limit(claimedAt));
      this.#last = { count: works.length, at: performance.now() };
      if (works.length > 0) await this.ctx.dispatchProbe?.('claimed');
      this.#store.push(...works.map((work) => ({ work, claimedAt })));
      // Work that ended while we asked may have made more of it due.
      return works.length > 0 || this.#working < before;
    } finally {
      this.#filling = undefined;
    }
  }

  #limit(now: number): number {
    const { batchSize, maxParallelism } = this.ctx.settings.dispatch;
    const { count, at } = this.#last ?? { count: 0, at: now };
    const ahead = Math.floor((count * CLAIM_AHEAD_MS) / Math.max(1, now - at));
    return Math.min(batchSize, Math.max(maxParallelism, ahead));
  }

  #claim(limit: number): Promise<ClaimedWork[]> {
    const { ctx, request } = this;
    const { ignoreBackoff } = request;
    const token = ctx.newId();
    return inLedger(ctx, (tx) => claimWork(tx, ctx.registry.cohortSchema, { limit, token, ignoreBackoff }));
  }

  /** Work that was not begun: the attempt that was counted for it was none. */
  #giveBack({ id, token }: ClaimedWork): void {
    this.#settler.add({ id, token, state: 'pending', delayMs: 0, unmade: 1, error: null });
  }

  #wakeWaiting(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    waiting.forEach((wake) => wake());
  }
}
