import type { RetentionAuditObserver } from '../domain/audit-observer.js';
import { type SweepEvent, sweepEvent } from '../domain/sweep-event.js';

export interface NotifierInput {
  readonly observers: readonly RetentionAuditObserver[];
  readonly timeoutMs: number;
  readonly logger: { warn(message: string): void; error(message: string, error: unknown): void };
}

const LATE = Symbol('an observer took too long');

/**
 * Tells the observers of one pass what was committed: event after event, observer after observer, whatever lane it comes
 * from. Who takes too long hears no more of this pass: one that ignores its signal would delay every event. Nothing that
 * an observer does reaches the pass.
 */
export class Notifier {
  readonly #late = new Set<RetentionAuditObserver>();
  #told: Promise<void> = Promise.resolve();

  constructor(private readonly input: NotifierInput) {}

  get isHeard(): boolean {
    return this.input.observers.length > 0;
  }

  /** Resolves once all have been told, or given up. Events are only made when somebody listens, and bear the time at which they are told. */
  notify(events: (at: Date) => readonly SweepEvent[]): Promise<void> {
    if (!this.isHeard) return this.#told;
    this.#told = this.#told
      .then(async () => {
        for (const event of events(new Date()).map(sweepEvent)) await this.#tellAll(event);
      })
      .catch((error: unknown) => this.input.logger.error('Events for audit observers could not be made', error));
    return this.#told;
  }

  async #tellAll(event: SweepEvent): Promise<void> {
    for (const observer of this.input.observers) {
      if (!this.#late.has(observer)) await this.#tell(observer, event);
    }
  }

  async #tell(observer: RetentionAuditObserver, event: SweepEvent): Promise<void> {
    const { timeoutMs, logger } = this.input;
    const name = `Audit observer ${observer.constructor.name}`;
    const where = `event ${event.type} of run ${event.sweepId}`;
    const over = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<typeof LATE>((resolve) => {
      timer = setTimeout(() => resolve(LATE), timeoutMs);
    });
    try {
      // The race keeps hold of what loses it, so that an error that comes later is nobody's unhandled rejection.
      const outcome = await Promise.race([(async () => observer.onCommitted(event, over.signal))(), late]);
      if (outcome !== LATE) return;
      this.#late.add(observer);
      over.abort(new Error(`${name} took more than ${timeoutMs} ms.`));
      logger.warn(`${name} took more than ${timeoutMs} ms for ${where}; it hears no more of pass ${event.passId}.`);
    } catch (error) {
      logger.error(`${name} failed on ${where}`, error);
    } finally {
      clearTimeout(timer);
    }
  }
}
