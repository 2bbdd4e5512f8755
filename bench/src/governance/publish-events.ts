import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type JetStreamClient, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, headers as natsHeaders } from '@nats-io/transport-node';
import { openNats } from 'local-stack/testing';
import { type BusMessage, EventBus } from 'retention-residency/outbox/event-bus';
import type { DomainEvent, Envelope } from 'retention-residency/outbox/event';
import { PUBLISHED } from 'retention-residency/outbox/event-catalog';
import { NatsBus } from 'retention-residency/outbox/nats-bus';
import { Outbox } from 'retention-residency/outbox/outbox';
import { OutboxRelay } from 'retention-residency/outbox/outbox-relay';
import { OutboxRelays } from 'retention-residency/outbox/outbox-relays';
import { Database } from 'retention-residency/platform/database';
import { migrate, openRoles } from 'retention-residency/platform/migrate';
import { TimeAndIds } from 'retention-residency/platform/time-and-ids';
import { Closing, type OpenedSides, timed } from './service-row.js';

const KEYS = 200;
/** Events of one change. */
const BURST = 5;
/** As many as the relay publishes beside each other. */
const AT_ONCE = 64;
const EVENTS_PER_SECOND = 500;
const PACE_MS = 10;
const LONGEST_RUN = 10 * EVENTS_PER_SECOND;
const ORIGIN = { traceId: '0'.repeat(32), correlationId: 'bench', causationId: 'bench' };
const RULE_ID = randomUUID();

/** Events that wait in the outbox until they stand in JetStream, against bare publishes of the same messages. */
export function openOutboxVsPublish(url: string): Promise<OpenedSides> {
  return Closing.around(async (closing) => {
    const { append, relayTo, bus, natsUrl } = await openOutbox(url, closing);
    const connection = await connect({ servers: natsUrl });
    closing.add(() => connection.close());
    const client = jetstream(connection);
    const manager = await jetstreamManager(connection);
    const relay = relayTo(bus);
    const emptied = () => manager.streams.purge('DATA_FOUNDATIONS');
    // Makes the streams.
    await append(keyOf(0), 1);
    await relay.tick();
    return {
      a: timed(
        async () => {
          // As the service does: one publishes while the other reads and commits.
          const [first, second] = await Promise.all([drain(relay), drain(relay)]);
          return first + second;
        },
        async (count) => {
          await emptied();
          for (let left = count, key = 0; left > 0; left -= BURST, key++)
            await append(keyOf(key), Math.min(BURST, left));
        },
      ),
      b: timed(
        (count) => publishBare(client, count),
        async () => void (await emptied()),
      ),
      close: () => closing.close(),
    };
  });
}

/**
 * How long an event is under way at 500 a second, from its change to the acknowledgement of JetStream: one time in a
 * hundred longer than this. B is the second that it may take.
 */
export function openOutboxLag(url: string): Promise<OpenedSides> {
  return Closing.around(async (closing) => {
    const { append, relayTo, bus, platformUrl } = await openOutbox(url, closing);
    const lags = new LagBus(bus);
    const relays = new OutboxRelays(relayTo(lags), platformUrl);
    relays.start();
    closing.add(() => relays.stop());
    return {
      a: { measure: (count) => lagAt(append, lags, Math.min(count, LONGEST_RUN)) },
      b: { measure: async () => 1000 },
      close: () => closing.close(),
    };
  });
}

async function openOutbox(url: string, closing: Closing) {
  await migrate(url);
  const urls = await openRoles(url);
  const [server] = await openNats();
  closing.add(() => server!.stop());
  await server!.start();
  const database = await Database.open({ urls, pool: 10 });
  closing.add(() => database.onApplicationShutdown());
  const timeAndIds = new TimeAndIds();
  const outbox = new Outbox(timeAndIds);
  const bus = new NatsBus({ url: server!.url, replicas: 1 });
  closing.add(() => bus.close());
  return {
    natsUrl: server!.url,
    platformUrl: urls.platform,
    bus,
    relayTo: (to: EventBus) => new OutboxRelay(database, to, timeAndIds),
    append: (key: string, count: number) =>
      database.inTenant(key, (em) => outbox.append(em, Array(count).fill(eventOf(key)) as DomainEvent[], ORIGIN)),
  };
}

async function drain(relay: OutboxRelay): Promise<number> {
  let published = 0;
  for (let done = await relay.tick(); done > 0; done = await relay.tick()) published += done;
  return published;
}

function eventOf(key: string): DomainEvent {
  const payload = { ruleId: RULE_ID, tenantId: key, storeClass: 'runs', classification: 'public', retentionDays: 30 };
  return { type: 'RetentionRuleChanged', tenantId: key, aggregateId: RULE_ID, partitionKey: key, payload };
}

function keyOf(index: number): string {
  return `tenant-${index % KEYS}`;
}

/** The same messages without an outbox, as many on their way at once. */
async function publishBare(client: JetStreamClient, count: number): Promise<number> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const { topic, id, headers, body } = messageOf(keyOf(next++));
      const carried = natsHeaders();
      for (const [name, value] of Object.entries(headers)) carried.set(name, value);
      await client.publish(topic, body, { msgID: id, headers: carried });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return count;
}

function messageOf(key: string): BusMessage {
  const { type: eventType, tenantId, payload } = eventOf(key);
  const { topic } = PUBLISHED.RetentionRuleChanged;
  const id = randomUUID();
  const occurredAt = new Date().toISOString();
  const envelope: Envelope = { eventId: id, eventType, tenantId, ...ORIGIN, occurredAt, payload };
  const headers = {
    'ce-specversion': '1.0',
    'ce-id': id,
    'ce-source': '/retention-residency/RetentionRule',
    'ce-type': topic,
    'ce-subject': RULE_ID,
    'ce-time': occurredAt,
    'ce-partitionkey': key,
    'ce-sequence': '0'.repeat(20),
    'ce-datacontenttype': 'application/json',
  };
  return { id, topic, headers, body: JSON.stringify(envelope) };
}

/** Passes on, and notes how old each message is once it has been taken. */
class LagBus extends EventBus {
  readonly lags: number[] = [];

  constructor(private readonly inner: EventBus) {
    super();
  }

  override async publish(message: BusMessage): Promise<void> {
    await this.inner.publish(message);
    const { occurredAt } = JSON.parse(message.body) as Envelope;
    this.lags.push(Date.now() - Date.parse(occurredAt));
  }

  override subscribe(): void {
    throw new Error('Nobody listens to this bus.');
  }

  override async close(): Promise<void> {}
}

/** Appends so many events at 500 a second, each in a transaction of its own, and returns the p99 of their lags in ms. */
async function lagAt(
  append: (key: string, count: number) => Promise<void>,
  bus: LagBus,
  count: number,
): Promise<number> {
  bus.lags.length = 0;
  const appending: Promise<void>[] = [];
  const started = performance.now();
  while (appending.length < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - started) / 1000) * EVENTS_PER_SECOND));
    while (appending.length < due) appending.push(append(keyOf(appending.length), 1));
    await delay(PACE_MS);
  }
  await Promise.all(appending);
  while (bus.lags.length < count) await delay(PACE_MS);
  const sorted = bus.lags.toSorted((x, y) => x - y);
  return Math.max(1, sorted[Math.ceil(sorted.length * 0.99) - 1]!);
}
