import type { SchedulerRegistry } from '@nestjs/schedule';
import type { EngineLogger } from '../engine/context.js';

/**
 * Longest single wait. The clock is read again after each: it may have been set, the machine may have slept, and a timer
 * of more than 24.8 days would fire at once.
 */
const LONGEST_WAIT_MS = 60_000;

export interface LoopInput {
  /** Under which its timers stand in Nest's registry. */
  readonly name: string;
  /** Does what is due, and says when to look again; null: when somebody wakes the loop. */
  readonly tick: () => Promise<Date | null>;
  readonly timers: SchedulerRegistry;
  readonly clock: () => Date;
  readonly logger: EngineLogger;
  /** Whether a wait keeps the process running. */
  readonly keepsAlive: boolean;
}

/** Ticks, waits, and ticks again, until it is stopped. A tick that fails is logged and does not end it. */
export class WorkLoop {
  #running: Promise<void> | undefined;
  #stopped = false;
  #woken = false;
  #wake: () => void = () => undefined;

  constructor(private readonly input: LoopInput) {}

  start(): void {
    this.#running ??= this.#run();
  }

  /** Ticks at once, or right after the tick in progress. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Begins no more ticks, and waits for the one in progress, so long at most. False: it is still at it. */
  async stop(timeoutMs: number): Promise<boolean> {
    this.#stopped = true;
    this.wake();
    const late = new Promise<false>((resolve) => void setTimeout(resolve, timeoutMs, false).unref());
    return Promise.race([(this.#running ?? Promise.resolve()).then(() => true), late]);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#woken = false;
      const next = await this.#tick();
      await this.#waitUntil(next);
    }
  }

  async #tick(): Promise<Date | null> {
    const { name, tick, clock, logger } = this.input;
    try {
      return await tick();
    } catch (error) {
      logger.error(`${name} failed; it goes on`, error);
      return new Date(clock().getTime() + LONGEST_WAIT_MS);
    }
  }

  async #waitUntil(next: Date | null): Promise<void> {
    while (!this.#woken) {
      const leftMs = next ? next.getTime() - this.input.clock().getTime() : Infinity;
      if (leftMs <= 0) return;
      await this.#wait(next ? Math.min(leftMs, LONGEST_WAIT_MS) : null);
    }
  }

  /** One wait, which `wake` ends early. */
  #wait(ms: number | null): Promise<void> {
    const { name, timers, keepsAlive } = this.input;
    return new Promise((resolve) => {
      const done = () => {
        if (timers.doesExist('timeout', name)) timers.deleteTimeout(name);
        resolve();
      };
      this.#wake = done;
      if (ms === null) return;
      const timer = setTimeout(done, ms);
      if (!keepsAlive) timer.unref();
      timers.addTimeout(name, timer);
    });
  }
}
