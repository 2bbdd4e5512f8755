import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Meter, MeteredEntity, MeteredRest, MeteredRun } from '../domain/meter.js';
import { type EngineContext, inLedger } from '../engine/context.js';
import { longestOverdue } from '../engine/overdue.js';
import { type QueueState, selectQueueState } from '../sql/handler-queue.js';
import { Look } from './look.js';

export interface MetricsSettings {
  readonly registry: Registry;
  readonly tenantLabel: boolean;
  readonly probeIntervalMs: number;
}

/** From a batch of a few rows to one that is cut off by its timeout. */
const BATCH_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const RUN_SECONDS = [0.1, 1, 5, 15, 60, 300, 900, 3600, 14_400];

/**
 * The metrics of one host in a registry of its choice. Gauges of the queue and of overdue rows ask the database when they
 * are scraped, at most once in `probeIntervalMs`.
 */
export class CohortMetrics implements Meter {
  readonly byTenant: boolean;
  readonly #affected: Counter;
  readonly #held: Counter;
  readonly #skipped: Counter;
  readonly #batches: Histogram;
  readonly #runs: Counter;
  readonly #runSeconds: Histogram;
  #queue: Look<QueueState> | undefined;
  #overdue: Look<ReadonlyMap<string, number>> | undefined;

  constructor(private readonly settings: MetricsSettings) {
    const { registry, tenantLabel } = settings;
    this.byTenant = tenantLabel;
    const tenant = tenantLabel ? ['tenant'] : [];
    const registers = [registry];
    const counter = (name: string, help: string, labelNames: string[]) =>
      new Counter({ name, help, labelNames: [...labelNames, ...tenant], registers });
    const ofEntity = ['entity', 'strategy'];
    this.#affected = counter('cohort_affected_rows_total', 'Rows purged, soft-deleted or anonymised.', ofEntity);
    this.#held = counter(
      'cohort_held_rows_total',
      'Rows that a sweep or erasure left because of a legal hold.',
      ofEntity,
    );
    this.#skipped = counter('cohort_skipped_rows_total', 'Rows that were due and left, by cause.', [
      ...ofEntity,
      'cause',
    ]);
    this.#runs = counter('cohort_runs_total', 'Runs that ended, by how.', ['trigger', 'dry_run', 'status']);
    this.#batches = new Histogram({
      ...{ name: 'cohort_batch_duration_seconds', help: 'Time for which a batch held its rows locked.' },
      ...{ labelNames: ofEntity, buckets: BATCH_SECONDS, registers },
    });
    this.#runSeconds = new Histogram({
      ...{ name: 'cohort_run_duration_seconds', help: 'From the start of a run to its end.' },
      ...{ labelNames: ['trigger'], buckets: RUN_SECONDS, registers },
    });
    this.#gauge(
      'cohort_handler_queue_depth',
      'Row handler work, by state.',
      ['state'],
      () => this.#queue,
      (gauge, queue) => {
        gauge.set({ state: 'pending' }, queue.pending);
        gauge.set({ state: 'inFlight' }, queue.inFlight);
      },
    );
    this.#gauge(
      'cohort_handler_queue_age_seconds',
      'Age of the oldest row handler work that is not done.',
      [],
      () => this.#queue,
      (gauge, queue) => gauge.set(queue.oldestSeconds),
    );
    this.#gauge(
      'cohort_dead_letters',
      'Row handler work that nobody tries any more, and nobody discarded.',
      [],
      () => this.#queue,
      (gauge, queue) => gauge.set(queue.deadLetters),
    );
    this.#gauge(
      'cohort_oldest_overdue_row_seconds',
      'For how long the oldest row that may go has been due; 0 where there is none.',
      ['entity'],
      () => this.#overdue,
      (gauge, overdue) => {
        for (const [entity, seconds] of overdue) gauge.set({ entity }, seconds);
      },
    );
  }

  batch({ entity, strategy }: MeteredEntity, rows: ReadonlyMap<string, number>, seconds: number): void {
    for (const [tenant, count] of rows) this.#affected.inc(this.#labels({ entity, strategy }, tenant), count);
    this.#batches.observe({ entity, strategy }, seconds);
  }

  leftOver({ entity, strategy }: MeteredEntity, tenantId: string, { held, skippedByCause }: MeteredRest): void {
    if (held > 0) this.#held.inc(this.#labels({ entity, strategy }, tenantId), held);
    for (const [cause, count] of Object.entries(skippedByCause))
      this.#skipped.inc(this.#labels({ entity, strategy, cause }, tenantId), count);
  }

  run({ trigger, dryRun, status, tenantId, seconds }: MeteredRun): void {
    this.#runs.inc(this.#labels({ trigger, dry_run: String(dryRun), status }, tenantId));
    this.#runSeconds.observe({ trigger }, seconds);
  }

  /** From here on the gauges have somebody to ask. */
  watch(ctx: EngineContext): void {
    const { probeIntervalMs } = this.settings;
    this.#queue = lookAt(ctx, 'the row handler queue', probeIntervalMs, () =>
      inLedger(ctx, (tx) => selectQueueState(tx, ctx.registry.cohortSchema)),
    );
    this.#overdue = lookAt(ctx, 'overdue rows', probeIntervalMs, () =>
      longestOverdue(ctx, new Date(), AbortSignal.timeout(probeIntervalMs)),
    );
  }

  #labels(labels: Record<string, string>, tenant: string): Record<string, string> {
    return this.byTenant ? { ...labels, tenant } : labels;
  }

  #gauge<T>(
    name: string,
    help: string,
    labelNames: string[],
    look: () => Look<T> | undefined,
    show: (gauge: Gauge, seen: T) => void,
  ): void {
    new Gauge({
      ...{ name, help, labelNames, registers: [this.settings.registry] },
      async collect() {
        const seen = await look()?.see();
        // What cannot be looked at is not shown: an old value would pass for a new one.
        this.reset();
        if (seen !== undefined) show(this as unknown as Gauge, seen);
        // A gauge without labels would still show 0.
        else if (labelNames.length === 0) this.remove();
      },
    });
  }
}

/** All gauges of one scrape share a look. */
function lookAt<T>(ctx: EngineContext, subject: string, everyMs: number, look: () => Promise<T>): Look<T> {
  return new Look<T>(everyMs, () =>
    look().catch((error: unknown) => {
      ctx.logger.error(`The metrics of ${subject} could not be looked at`, error);
      return undefined;
    }),
  );
}
