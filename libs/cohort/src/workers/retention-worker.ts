import type { SchedulerRegistry } from '@nestjs/schedule';
import type { CronSchedule } from '../cron-schedule.js';
import { type EngineLogger, inLedger } from '../engine/context.js';
import { insertFirstOccurrence } from '../sql/occurrences.js';
import type { Readiness } from '../startup/readiness.js';
import { type SlotContext, type SlotRequest, finishInterrupted, sweepSlot } from './sweep-slot.js';
import { WorkLoop } from './work-loop.js';

export interface WorkerInput {
  readonly readiness: Readiness;
  readonly logger: EngineLogger & { log(message: string): void };
  readonly timers: SchedulerRegistry;
  readonly clock: () => Date;
}

/** A completed slot is remembered this long at least: one that comes later could have been swept long ago. */
const REMEMBERED_MS = 86_400_000;

/**
 * Sweeps all tenants at every slot of the schedule, in one pass a slot. Any number of replicas may run: one of them claims
 * the slot, and another finishes what it leaves unfinished. Slots that nobody was there for are not caught up.
 */
export class RetentionWorker {
  readonly #loop: WorkLoop;
  #stopListening: () => void = () => undefined;
  /** What `#next` was computed for. */
  #followed: { readonly schedule: CronSchedule; readonly dryRun: boolean } | null = null;
  #next: Date | null = null;
  #halt = new AbortController();

  constructor(private readonly input: WorkerInput) {
    this.#loop = new WorkLoop({
      ...input,
      name: 'cohort-retention-worker',
      tick: () => this.tick(input.clock()),
      keepsAlive: true,
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.input.readiness.context();
    this.start();
  }

  /** In the first of Nest's hooks: what the sweep needs is still there. */
  async onModuleDestroy(): Promise<void> {
    await this.stop();
  }

  start(): void {
    this.#stopListening = this.input.readiness.settings.onChange(() => this.#settingsChanged());
    this.#loop.start();
  }

  /** Ends the sweep in progress before its next batch and waits for it, so long as `worker.shutdownTimeout` says. */
  async stop(): Promise<void> {
    this.#stopListening();
    this.#halt.abort(new Error('the host shuts down.'));
    const { shutdownTimeoutMs } = this.input.readiness.settings.inForce.worker;
    if (await this.#loop.stop(shutdownTimeoutMs)) return;
    this.input.logger.warn(
      `The worker is still busy after ${shutdownTimeoutMs} ms; it is left, and another replica finishes the slot.`,
    );
  }

  /**
   * Does what is due at `now`: the slot whose time has come, and what others left unfinished. Returns when to look again:
   * at the next slot, and in between once a lease, for slots of owners that are gone.
   */
  async tick(now: Date): Promise<Date | null> {
    const { worker, settings } = this.input.readiness.settings.inForce;
    // Taken before any wait, so that a kill switch thrown during one is not missed.
    const request: SlotRequest = { now, dryRun: settings.dryRun, signal: this.#halt.signal };
    if (!worker.schedule || worker.killSwitch) {
      this.#followed = this.#next = null;
      return null;
    }
    const ctx = await this.#slotContext(worker.slotLeaseMs);
    if (!this.#follows(worker.schedule, request.dryRun)) await this.#follow(ctx, worker.schedule, request);
    if (this.#next! <= now) await this.#sweepNext(ctx, request);
    else await finishInterrupted(ctx, request);
    return this.#wakeAt(worker.slotLeaseMs);
  }

  #follows({ source }: CronSchedule, dryRun: boolean): boolean {
    return this.#followed?.schedule.source === source && this.#followed.dryRun === dryRun;
  }

  /** The first slot under a schedule is the first after it came into force. */
  async #follow(ctx: SlotContext, schedule: CronSchedule, { now, dryRun }: SlotRequest): Promise<void> {
    await inLedger(ctx, (tx) => insertFirstOccurrence(tx, ctx.registry.cohortSchema, now, dryRun));
    this.#next = schedule.next(now);
    this.#followed = { schedule, dryRun };
  }

  async #sweepNext(ctx: SlotContext, request: SlotRequest): Promise<void> {
    const slot = this.#next!;
    const { schedule } = this.#followed!;
    try {
      if (request.now.getTime() - slot.getTime() < REMEMBERED_MS) await sweepSlot(ctx, slot, request);
      else ctx.logger.warn(`Slot ${slot.toISOString()} is more than a day ago; it was missed.`);
    } finally {
      // From the clock, not from the slot: what passed while the sweep took its time is not caught up.
      this.#next = schedule.next(this.input.clock());
    }
  }

  #wakeAt(slotLeaseMs: number): Date {
    const look = new Date(this.input.clock().getTime() + slotLeaseMs);
    return this.#next! < look ? this.#next! : look;
  }

  #settingsChanged(): void {
    if (this.input.readiness.settings.inForce.worker.killSwitch) {
      this.#halt.abort(new Error('the kill switch is on.'));
      this.#halt = new AbortController();
    }
    this.#loop.wake();
  }

  async #slotContext(slotLeaseMs: number): Promise<SlotContext> {
    const { readiness, logger } = this.input;
    return { ...(await readiness.context()), slotLeaseMs, inform: (message) => logger.log(message) };
  }
}
