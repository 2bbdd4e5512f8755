import { SchedulerRegistry } from '@nestjs/schedule';
import { RetentionWorker } from '../../src/workers/retention-worker.js';
import type { Host } from './host.js';

export interface DrivenWorker {
  readonly worker: RetentionWorker;
  /** Lets the worker's clock show an instant and ticks. */
  tickAt(instant: string | Date): Promise<Date | null>;
}

/** The worker of one replica, whose clock the test winds. What it tells goes into the host's logs. */
export function workerOf(host: Host, at: string | Date): DrivenWorker {
  let now = new Date(at);
  const worker = openWorker(host, () => now);
  return {
    worker,
    tickAt: (instant) => {
      now = new Date(instant);
      return worker.tick(now);
    },
  };
}

/** The worker of one replica, for a test that lets it run by itself. */
export function openWorker(host: Host, clock = () => new Date(), timers = new SchedulerRegistry()): RetentionWorker {
  return new RetentionWorker({
    readiness: host.readiness,
    timers,
    clock,
    logger: {
      log: (message) => void host.logs.push(message),
      warn: (message) => void host.logs.push(message),
      error: (message, error) => void host.logs.push(`${message}: ${(error as Error)?.message}`),
    },
  });
}
