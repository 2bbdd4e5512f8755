import { Injectable, Logger } from '@nestjs/common';
import { Database } from '../platform/database.js';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { type BusMessage, EventBus } from './event-bus.js';
import { type OutboxRow, claimKeys, markPublished, selectWaiting } from './outbox.queries.js';

const BATCH = 2000;
/** Keys that are published beside each other; the others are left to another relay. */
const LANES = 64;
/** Well below idle_in_transaction_session_timeout: the locks are held while the bus answers. */
const TICK_MS = 10_000;
/**
 * A key whose publication failed waits so long, twice as long each time, and lets the others pass. A pause that did not grow
 * would be over by the next tick, and a key with more events than a batch would be the only one that is ever tried.
 */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

interface FailedKey {
  readonly until: number;
  readonly pauseMs: number;
}

/**
 * Publishes what the outbox holds: at least once, in order for each partition key, by any number of replicas. A relay that
 * dies leaves its locks with its transaction; what it had published and not marked goes out again, with the same ids.
 */
@Injectable()
export class OutboxRelay {
  private readonly logger = new Logger(OutboxRelay.name);
  private readonly failedKeys = new Map<string, FailedKey>();

  constructor(
    private readonly database: Database,
    private readonly bus: EventBus,
    private readonly timeAndIds: TimeAndIds,
  ) {}

  /** Returns how many events were published. */
  tick(): Promise<number> {
    return this.database.asPlatform(async (em) => {
      const keys = await claimKeys(em, { window: BATCH, limit: LANES, except: this.pausedKeys() });
      if (keys.length === 0) return 0;
      const rows = await selectWaiting(em, keys, BATCH);
      const published = await this.publishAll(rows);
      if (published.length > 0) await markPublished(em, published, this.timeAndIds.now());
      return published.length;
    });
  }

  private async publishAll(rows: readonly OutboxRow[]): Promise<string[]> {
    const until = performance.now() + TICK_MS;
    const chains = [...Map.groupBy(rows, (row) => row.partition_key).values()];
    const published: string[] = [];
    const lane = async () => {
      for (let chain = chains.shift(); chain !== undefined; chain = chains.shift()) {
        await this.publishChain(chain, until, published);
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return published;
  }

  /** One after the other; after a failure the rest of the key waits for it. */
  private async publishChain(chain: readonly OutboxRow[], until: number, published: string[]): Promise<void> {
    for (const row of chain) {
      if (performance.now() > until) return;
      try {
        await this.bus.publish(messageOf(row));
        published.push(row.seq);
        this.failedKeys.delete(row.partition_key);
      } catch (error) {
        this.logger.warn(`The event ${row.id} was not published: ${(error as Error).message}`);
        this.pause(row.partition_key);
        return;
      }
    }
  }

  private pause(key: string): void {
    const before = this.failedKeys.get(key)?.pauseMs;
    const pauseMs = before === undefined ? FIRST_PAUSE_MS : Math.min(before * 2, LONGEST_PAUSE_MS);
    this.failedKeys.set(key, { until: performance.now() + pauseMs, pauseMs });
  }

  private pausedKeys(): string[] {
    const now = performance.now();
    for (const [key, { until }] of this.failedKeys) {
      // Not tried for so long: another replica has published it.
      if (until + LONGEST_PAUSE_MS <= now) this.failedKeys.delete(key);
    }
    return [...this.failedKeys].filter(([, { until }]) => until > now).map(([key]) => key);
  }
}

/** CloudEvents attributes as headers; the envelope is the body. */
function messageOf(row: OutboxRow): BusMessage {
  const { id, topic, body } = row;
  const headers = {
    'ce-specversion': '1.0',
    'ce-id': id,
    'ce-source': `/retention-residency/${row.aggregate}`,
    'ce-type': topic,
    // An id of somebody else's may have any letter.
    'ce-subject': encodeURI(row.aggregate_id),
    'ce-time': row.occurred_at,
    'ce-partitionkey': row.partition_key,
    'ce-sequence': row.seq.padStart(20, '0'),
    'ce-datacontenttype': 'application/json',
  };
  return { id, topic, headers, body };
}
