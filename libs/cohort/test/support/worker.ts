import { SchedulerRegistry } from '@nestjs/schedule';
import { HistoryPruner } from '../../src/workers/history-pruner.js';
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
  return new RetentionWorker(inputOf(host, clock, timers));
}

/** What prunes the history of one replica. */
export function openPruner(host: Host, clock = () => new Date()): HistoryPruner {
  return new HistoryPruner(inputOf(host, clock, new SchedulerRegistry()));
}

function inputOf(host: Host, clock: () => Date, timers: SchedulerRegistry) {
  return {
    readiness: host.readiness,
    timers,
    clock,
    logger: {
      log: (message: string) => void host.logs.push(message),
      warn: (message: string) => void host.logs.push(message),
      error: (message: string, error: unknown) => void host.logs.push(`${message}: ${(error as Error)?.message}`),
    },
  };
}
