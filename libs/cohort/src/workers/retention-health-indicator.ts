import { Injectable, Logger } from '@nestjs/common';
import { requireText } from '../domain/arguments.js';
import { inLedger } from '../engine/context.js';
import { selectOutcomes, selectRunning } from '../sql/occurrences.js';
import { Readiness } from '../startup/readiness.js';
import { FAILURES_IN_A_ROW, judgeSlots } from './slot-health.js';

/** What @nestjs/terminus takes from an indicator. */
export type RetentionHealth<Key extends string = string> = Record<
  Key,
  {
    readonly status: 'up' | 'down';
    /** In UTC. Null: nothing is swept by a schedule. */
    readonly schedule: string | null;
    readonly killSwitch: boolean;
    readonly lastSlot: string | null;
    /** The first slot that should have been swept and was not. */
    readonly missedSlot: string | null;
    /** Slots that failed one after the other, up to now. */
    readonly failures: number;
    readonly message?: string;
  }
>;

/** A slot that is so late was missed, whatever a replica was doing when its time came. */
const GRACE_MS = 60_000;

/**
 * Tells whether the schedule's slots are swept, as an indicator of @nestjs/terminus:
 * `health.check([() => retention.check('retention')])`. Down when a slot was missed by more than a minute, when the last
 * three failed, or when nobody can tell; up where there is no schedule or the kill switch is on. For an alarm, not for a
 * readiness probe: a restart mends nothing of it.
 */
@Injectable()
export class RetentionHealthIndicator {
  readonly #logger = new Logger('Cohort');
  #followed: { readonly slots: string; readonly since: Date; readonly isChanged: boolean };

  constructor(private readonly readiness: Readiness) {
    this.#followed = { slots: this.#slots(), since: new Date(), isChanged: false };
    readiness.settings.onChange(() => {
      const slots = this.#slots();
      if (slots !== this.#followed.slots) this.#followed = { slots, since: new Date(), isChanged: true };
    });
  }

  async check<const Key extends string>(key: Key): Promise<RetentionHealth<Key>> {
    requireText(key, 'key');
    return { [key]: await this.#look(new Date()) } as RetentionHealth<Key>;
  }

  async #look(now: Date): Promise<RetentionHealth[string]> {
    const { worker, settings } = this.readiness.settings.inForce;
    const { schedule, killSwitch } = worker;
    const idle = { schedule: schedule?.source ?? null, killSwitch, lastSlot: null, missedSlot: null, failures: 0 };
    try {
      const ctx = await this.readiness.context();
      if (!schedule || killSwitch) return { ...idle, status: 'up' };
      const { outcomes, running } = await inLedger(ctx, async (tx) => ({
        outcomes: await selectOutcomes(tx, ctx.registry.cohortSchema, settings.dryRun, FAILURES_IN_A_ROW),
        running: await selectRunning(tx, ctx.registry.cohortSchema, settings.dryRun),
      }));
      const { since, isChanged } = this.#followed;
      const facts = { schedule, since, isChanged, now, graceMs: GRACE_MS, outcomes, running };
      const { isUp, missed, failures } = judgeSlots(facts);
      const lastSlot = outcomes[0]?.slot.toISOString() ?? null;
      return { ...idle, status: isUp ? 'up' : 'down', lastSlot, missedSlot: missed?.toISOString() ?? null, failures };
    } catch (error) {
      // What the database says may name what nobody outside should see.
      this.#logger.error('The health of scheduled sweeps could not be looked at', error);
      return { ...idle, status: 'down', message: 'Cohort cannot reach its tables, or refuses to start; see the log.' };
    }
  }

  /** Which slots the worker follows, as a text that changes with them. */
  #slots(): string {
    const { worker, settings } = this.readiness.settings.inForce;
    return JSON.stringify([worker.schedule?.source, worker.killSwitch, settings.dryRun]);
  }
}
