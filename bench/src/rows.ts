import { dispatchHandlers, queueHandlers } from './contenders/dispatch-handlers.js';
import { queueJobs, runGraphile } from './contenders/run-graphile.js';
import { anonymiseLocked, sweepLocked, sweepOnTwoLanes, sweepWithDetail } from './contenders/sweep-locked.js';
import { sweepPorted } from './contenders/sweep-ported.js';
import { deleteUnbounded, updateUnbounded } from './contenders/unbounded.js';
import { openBatchesVsSingle, openEvaluateVsEcho } from './governance/evaluate-residency.js';
import { openOutboxLag, openOutboxVsPublish } from './governance/publish-events.js';
import type { OpenedSides } from './governance/service-row.js';
import type { TableShape, World } from './world.js';

/** Removes or anonymises what is due and returns how many rows that were. */
export type Contender = (world: World) => Promise<number>;

/** One line of the table: how much faster A is than B on the same rows. */
export interface PurgeRow extends TableShape {
  readonly kind: 'purge';
  readonly name: string;
  readonly a: readonly [label: string, contender: Contender];
  readonly b: readonly [label: string, contender: Contender];
  /** The least ratio (time of B over time of A). */
  readonly wanted: number;
  /** The figure presupposes the index and heap walks, which are still to come: it is told, and --check lets it pass. */
  readonly awaitsWalks?: boolean;
}

const ANCHOR_INDEX = 'tenant_id, created_at';

/** Queues work for so many rows. */
export type Queue = (world: World, count: number) => Promise<void>;

/** How much faster A does queued work than B does as much of its own. */
export interface WorkRow {
  readonly kind: 'work';
  readonly name: string;
  readonly a: readonly [label: string, queue: Queue, contender: Contender];
  readonly b: readonly [label: string, queue: Queue, contender: Contender];
  readonly wanted: number;
}

/** Two ways through the governance service, or through it and past it, on a database of its own. */
export interface ServiceRow {
  readonly kind: 'service';
  readonly name: string;
  readonly a: readonly [label: string];
  readonly b: readonly [label: string];
  readonly open: (url: string) => Promise<OpenedSides>;
  /** Null: the time itself counts, not how much was done in it. */
  readonly counts: 'calls' | 'events' | null;
  readonly wanted: number;
}

export type BenchRow = PurgeRow | WorkRow | ServiceRow;

export const ROWS: readonly BenchRow[] = [
  {
    kind: 'purge',
    name: 'locked-vs-ported',
    a: ['purge, locked batches', sweepLocked],
    b: ['purge, ported algorithm', sweepPorted],
    wanted: 1.5,
    tenants: 20,
    index: ANCHOR_INDEX,
  },
  {
    kind: 'purge',
    name: 'locked-vs-delete',
    a: ['purge, locked batches', sweepLocked],
    b: ['one unbounded DELETE', deleteUnbounded],
    wanted: 0.45,
    awaitsWalks: true,
    tenants: 20,
    index: ANCHOR_INDEX,
  },
  {
    kind: 'purge',
    name: 'detail-vs-delete',
    a: ['purge with row detail', sweepWithDetail],
    b: ['one unbounded DELETE', deleteUnbounded],
    wanted: 0.15,
    awaitsWalks: true,
    tenants: 20,
    index: ANCHOR_INDEX,
  },
  {
    kind: 'purge',
    name: 'anonymise-vs-update',
    a: ['anonymise, locked batches', anonymiseLocked],
    b: ['one unbounded UPDATE', updateUnbounded],
    wanted: 1.5,
    awaitsWalks: true,
    tenants: 20,
    index: ANCHOR_INDEX,
  },
  {
    kind: 'purge',
    name: 'two-lanes-vs-one',
    a: ['purge, two lanes', sweepOnTwoLanes],
    b: ['purge, one lane', sweepLocked],
    wanted: 1.3,
    awaitsWalks: true,
    tenants: 20,
    index: ANCHOR_INDEX,
  },
  {
    kind: 'work',
    name: 'handlers-vs-graphile',
    a: ['row handlers', queueHandlers, dispatchHandlers],
    b: ['graphile-worker jobs', queueJobs, runGraphile],
    wanted: 1,
  },
  {
    kind: 'service',
    name: 'evaluate-vs-echo',
    a: ['EvaluateResidency'],
    b: ['bare gRPC echo'],
    open: openEvaluateVsEcho,
    counts: 'calls',
    wanted: 0.8,
  },
  {
    kind: 'service',
    name: 'batches-vs-single',
    a: ['decisions in batches of 50'],
    b: ['single calls'],
    open: openBatchesVsSingle,
    counts: 'calls',
    wanted: 10,
  },
  {
    kind: 'service',
    name: 'outbox-vs-publish',
    a: ['outbox to JetStream'],
    b: ['bare publishes'],
    open: openOutboxVsPublish,
    counts: 'events',
    wanted: 0.5,
  },
  {
    kind: 'service',
    name: 'outbox-lag',
    a: ['p99 at 500 events/s'],
    b: ['allowed'],
    open: openOutboxLag,
    counts: null,
    wanted: 1,
  },
];
