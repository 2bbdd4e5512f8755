import type { SchedulerRegistry } from '@nestjs/schedule';
import type { EngineLogger } from '../engine/context.js';
import { sqlStateOf } from '../engine/failure.js';
import { pruneHistory } from '../engine/prune-history.js';
import { COHORT_TABLES } from '../schema/cohort-entities.js';
import type { Readiness } from '../startup/readiness.js';
import { PRUNED } from '../startup/schema-contract.js';
import { WorkLoop } from './work-loop.js';

export interface PrunerInput {
  readonly readiness: Readiness;
  readonly logger: EngineLogger & { log(message: string): void };
  readonly timers: SchedulerRegistry;
  readonly clock: () => Date;
}

/** Start-up asks for DELETE only where history is pruned by then; a live change may ask for it later. */
function explain(error: unknown): never {
  if (sqlStateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
  const tables = PRUNED.map((role) => COHORT_TABLES[role]).join(', ');
  throw new Error(
    `${(error as Error).message}; pruning history needs DELETE on ${tables}. Grant it, or set historyPruning to null.`,
    { cause: error },
  );
}

const INSUFFICIENT_PRIVILEGE = '42501';
const HOUR_MS = 3_600_000;

/** Prunes history at the host's start and every hour, where `historyPruning` says how long it is kept. Any number of replicas share the work. */
export class HistoryPruner {
  readonly #loop: WorkLoop;
  #isStopped = false;
  #stopListening: () => void = () => undefined;

  constructor(private readonly input: PrunerInput) {
    this.#loop = new WorkLoop({
      ...input,
      name: 'cohort-history-pruner',
      tick: () => this.tick(input.clock()),
      keepsAlive: false,
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.input.readiness.context();
    this.#stopListening = this.input.readiness.settings.onChange(() => this.#loop.wake());
    this.#loop.start();
  }

  /** Ends after the batch in progress, and waits for it, so long as `worker.shutdownTimeout` says. */
  async onModuleDestroy(): Promise<void> {
    this.#isStopped = true;
    this.#stopListening();
    await this.#loop.stop(this.input.readiness.settings.inForce.worker.shutdownTimeoutMs);
  }

  /** One pass over all that is too old. Returns when to look again; null: when the settings change. */
  async tick(now: Date): Promise<Date | null> {
    const { readiness, logger } = this.input;
    const { pruning, worker } = readiness.settings.inForce;
    if (worker.killSwitch || Object.values(pruning).every((period) => period === null)) return null;
    const goesOn = () => !this.#isStopped && !readiness.settings.inForce.worker.killSwitch;
    const { runs, holds } = await pruneHistory(await readiness.context(), pruning, goesOn).catch(explain);
    if (runs + holds > 0) logger.log(`History was pruned: ${runs} runs, ${holds} holds.`);
    return new Date(now.getTime() + HOUR_MS);
  }
}
