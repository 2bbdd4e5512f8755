import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { PUBLISHED } from '../src/outbox/event-catalog.js';
import { type BusMessage, EventBus } from '../src/outbox/event-bus.js';
import type { DomainEvent, Envelope } from '../src/outbox/event.js';
import { OutboxRelay } from '../src/outbox/outbox-relay.js';
import { selectLag } from '../src/outbox/outbox.queries.js';
import { WorkerLoop } from '../src/platform/worker-loop.js';
import { actor, openGovernance } from './support/governance.js';
import { NATS_MISSING, openNats } from 'local-stack/testing';
import { until } from './support/until.js';

/** Keeps what it is given, and fails where a test wants it to. */
class RecordingBus extends EventBus {
  readonly seen: BusMessage[] = [];
  constructor(private readonly fails: (message: BusMessage) => boolean = () => false) {
    super();
  }
  override async publish(message: BusMessage): Promise<void> {
    // Gives way, as a network does.
    await delay(0);
    if (this.fails(message)) throw new Error('the bus is out of order');
    this.seen.push(message);
  }
  override subscribe(): void {}
  override async close(): Promise<void> {}
}

const RULE_ID = randomUUID();
const event = (key: string, retentionDays: number): DomainEvent => ({
  type: 'RetentionRuleChanged',
  tenantId: key,
  aggregateId: RULE_ID,
  partitionKey: key,
  payload: { ruleId: RULE_ID, tenantId: key, storeClass: 'runs', classification: 'public', retentionDays },
});
const daysOf = ({ body }: { body: string }) => (JSON.parse(body) as Envelope).payload.retentionDays as number;
const keyOf = ({ body }: { body: string }) => (JSON.parse(body) as Envelope).tenantId;

describe('the outbox', () => {
  let world: Awaited<ReturnType<typeof openGovernance>>;
  beforeEach(async () => {
    world = await openGovernance({ pool: 10 });
  });
  afterEach(() => world.close());

  const append = (key: string, ...days: number[]) =>
    world.database.inTenant(key, (em) =>
      world.outbox.append(
        em,
        days.map((each) => event(key, each)),
        actor('x').origin,
      ),
    );
  const relayTo = (bus: EventBus) => new OutboxRelay(world.database, bus, world.time);
  const drain = async (relay: OutboxRelay) => {
    while ((await relay.tick()) > 0);
  };
  const lag = () => world.database.asPlatform((em) => selectLag(em));

  test('publishes what was committed, and nothing else', async () => {
    await append('acme', 1, 2);
    const failing = world.database.inTenant('acme', async (em) => {
      await world.outbox.append(em, [event('acme', 3)], actor('x').origin);
      throw new Error('the change failed');
    });
    await expect(failing).rejects.toThrow('the change failed');
    const bus = new RecordingBus();
    await drain(relayTo(bus));
    expect(bus.seen.map(daysOf)).toEqual([1, 2]);
    expect(await lag()).toMatchObject({ waiting: 0, seconds: 0 });
    await drain(relayTo(bus));
    expect(bus.seen).toHaveLength(2);
  });

  test('carries the envelope, and CloudEvents attributes as headers', async () => {
    await append('acme', 7);
    const bus = new RecordingBus();
    await drain(relayTo(bus));
    const [{ id, topic, headers, body }] = bus.seen as [BusMessage];
    const { topic: expected } = PUBLISHED.RetentionRuleChanged;
    expect(topic).toBe(expected);
    expect(headers).toEqual({
      'ce-specversion': '1.0',
      'ce-id': id,
      'ce-source': '/retention-residency/RetentionRule',
      'ce-type': expected,
      'ce-subject': RULE_ID,
      'ce-time': world.time.now().toISOString(),
      'ce-partitionkey': 'acme',
      'ce-sequence': expect.stringMatching(/^\d{20}$/),
      'ce-datacontenttype': 'application/json',
    });
    expect(JSON.parse(body)).toEqual({
      eventId: id,
      eventType: 'RetentionRuleChanged',
      tenantId: 'acme',
      traceId: expect.any(String),
      correlationId: expect.any(String),
      causationId: expect.any(String),
      occurredAt: world.time.now().toISOString(),
      payload: event('acme', 7).payload,
    });
  });

  test.each<[string, Record<string, unknown>]>([
    ['no days', { retentionDays: undefined }],
    ['days that are text', { retentionDays: '30' }],
    ['a member that nobody knows', { email: 'a@b.example' }],
    ['an id that is none', { ruleId: 'x' }],
  ])('refuses an event whose payload has %s, before anything is stored', async (_, change) => {
    const wrong = { ...event('acme', 1), payload: { ...event('acme', 1).payload, ...change } };
    const storing = world.database.inTenant('acme', (em) => world.outbox.append(em, [wrong], actor('x').origin));
    await expect(storing).rejects.toThrow(/RetentionRuleChanged does not fit its schema/);
    await expect(storing).rejects.not.toThrow(/a@b/);
    expect(await lag()).toMatchObject({ waiting: 0 });
  });

  test('lets other keys pass one that cannot be published, and keeps its order', async () => {
    await append('poor', 1, 2);
    await append('rich', 1, 2);
    let isBroken = true;
    const bus = new RecordingBus((message) => isBroken && keyOf(message) === 'poor');
    const relay = relayTo(bus);
    await drain(relay);
    expect(bus.seen.map((each) => `${keyOf(each)} ${daysOf(each)}`)).toEqual(['rich 1', 'rich 2']);
    isBroken = false;
    await until(async () => {
      await relay.tick();
      return bus.seen.length === 4;
    });
    expect(bus.seen.slice(2).map(daysOf)).toEqual([1, 2]);
  });

  test('lets other keys pass one that fills the window with what cannot be published', async () => {
    const all = Array.from({ length: 2100 }, (_, index) => index + 1);
    await append('poor', ...all);
    await append('rich', 1);
    let isBroken = true;
    const bus = new RecordingBus((message) => isBroken && keyOf(message) === 'poor');
    const relay = relayTo(bus);
    // As often as the service does, so that each pause of a failed key that is no longer is over by the next tick.
    const loop = new WorkerLoop({ name: 'relay', tick: () => relay.tick(), intervalMs: 1000 });
    loop.start();
    try {
      await until(() => bus.seen.length > 0);
      expect(bus.seen.map(keyOf)).toEqual(['rich']);
      isBroken = false;
      await until(() => bus.seen.length > all.length);
      expect(bus.seen.slice(1).map(daysOf)).toEqual(all);
    } finally {
      await loop.stop();
    }
  });

  test('keeps the order of each key with many writers and several relays, and publishes each event once', async () => {
    const keys = ['a', 'b', 'c'];
    const bus = new RecordingBus();
    const loops = Array.from(
      { length: 4 },
      () => new WorkerLoop({ name: 'relay', tick: () => relayTo(bus).tick(), intervalMs: 5 }),
    );
    for (const loop of loops) loop.start();
    // Of each key the counter is read and raised in the transaction of the event, under a lock: so the order is known.
    const counters = new Map(keys.map((key) => [key, 0]));
    const write = (key: string) =>
      world.database.inTenant(key, async (em) => {
        await world.outbox.append(em, [event(key, 1)], actor('x').origin);
        counters.set(key, counters.get(key)! + 1);
      });
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let n = 0; n < 40; n++) await write(keys[n % 3]!);
      }),
    );
    await until(() => bus.seen.length >= 320);
    for (const loop of loops) await loop.stop();
    expect(bus.seen).toHaveLength(320);
    for (const key of keys) {
      const sequence = bus.seen.filter((each) => keyOf(each) === key).map(({ headers }) => headers['ce-sequence']!);
      expect(sequence).toEqual([...sequence].sort());
      expect(sequence).toHaveLength(counters.get(key)!);
    }
  });

  test('of many tenants at once is appended and published whole', async () => {
    const events = Array.from({ length: 3000 }, (_, index) => event(`t${index}`, 1));
    await world.database.asPlatform((em) => world.outbox.append(em, events, actor('x').origin));
    const bus = new RecordingBus();
    await drain(relayTo(bus));
    expect(new Set(bus.seen.map(keyOf)).size).toBe(3000);
  });
});

(NATS_MISSING ? describe.skip : describe)('the outbox on NATS JetStream', () => {
  const RELAY = fileURLToPath(new URL('programs/relay.mjs', import.meta.url));
  let world: Awaited<ReturnType<typeof openGovernance>>;
  beforeEach(async () => {
    world = await openGovernance({ pool: 10 });
  });
  afterEach(() => world.close());

  const startRelay = async (url: string, replicas: number): Promise<ChildProcess> => {
    const args = [RELAY, world.urls.app, world.urls.platform, url, String(replicas)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    return child;
  };
  const endProgram = async (child: ChildProcess) => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };

  /** Writers append numbers that grow within each key, one transaction each. */
  const load = async (keys: readonly string[], each: number) => {
    await Promise.all(
      keys.map(async (key) => {
        for (let n = 1; n <= each; n++) {
          await world.database.inTenant(key, (em) => world.outbox.append(em, [event(key, n)], actor('x').origin));
        }
      }),
    );
  };

  /** Everything that the stream holds, in its order. */
  const stored = async (url: string) => {
    const connection = await connect({ servers: url });
    try {
      const manager = await jetstreamManager(connection);
      const { state } = await manager.streams.info('DATA_FOUNDATIONS');
      const name = `reader_${randomUUID()}`;
      await manager.consumers.add('DATA_FOUNDATIONS', {
        name,
        deliver_policy: DeliverPolicy.All,
        mem_storage: true,
        inactive_threshold: 60e9,
      });
      const consumer = await jetstream(connection).consumers.get('DATA_FOUNDATIONS', name);
      const messages = [];
      while (messages.length < state.messages) {
        for await (const message of await consumer.fetch({ max_messages: 500, expires: 2000 })) {
          messages.push({ id: message.headers?.get('Nats-Msg-Id') ?? '', body: message.string() });
          message.ack();
        }
      }
      return messages;
    } finally {
      await connection.close();
    }
  };

  const expectWhole = (messages: readonly { id: string; body: string }[], keys: readonly string[], each: number) => {
    // A duplicate has the id of the first; what is left keeps the order of its key.
    const unique = [...new Map(messages.map((message) => [message.id, message])).values()];
    expect(unique).toHaveLength(keys.length * each);
    const wanted = Array.from({ length: each }, (_, index) => index + 1);
    for (const key of keys) expect(unique.filter((message) => keyOf(message) === key).map(daysOf)).toEqual(wanted);
    for (const { id, body } of messages) expect((JSON.parse(body) as Envelope).eventId).toBe(id);
  };

  test('loses nothing and keeps the order while its relays are killed twenty times under load', async () => {
    const [node] = await openNats();
    await node!.start();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    const relays = [await startRelay(node!.url, 1), await startRelay(node!.url, 1)];
    try {
      const loading = load(keys, 300);
      for (let kill = 0; kill < 20; kill++) {
        // Somewhere within a batch, each time somewhere else.
        await delay((kill * 37) % 90);
        await endProgram(relays[kill % 2]!);
        relays[kill % 2] = await startRelay(node!.url, 1);
      }
      await loading;
      await until(async () => (await world.database.asPlatform((em) => selectLag(em))).waiting === 0, 30_000);
      expectWhole(await stored(node!.url), keys, 300);
    } finally {
      for (const relay of relays) await endProgram(relay);
      await node!.stop();
    }
  }, 120_000);

  test('loses nothing when one of three clustered servers is killed', async () => {
    const nodes = await openNats(3);
    await Promise.all(nodes.map((node) => node.start()));
    const url = nodes.map((node) => node.url).join(',');
    const relay = await startRelay(url, 3);
    const keys = ['a', 'b', 'c'];
    try {
      const loading = load(keys, 200);
      await until(async () => (await stored(url).catch(() => [])).length > 50, 30_000);
      await nodes[1]!.kill();
      await loading;
      await until(async () => (await world.database.asPlatform((em) => selectLag(em))).waiting === 0, 45_000);
      // The rest may still be choosing a leader, which answers then.
      let messages: { id: string; body: string }[] = [];
      const rest = [nodes[0]!.url, nodes[2]!.url].join(',');
      await until(async () => (messages = await stored(rest).catch(() => [])).length > 0, 30_000);
      expectWhole(messages, keys, 200);
    } finally {
      await endProgram(relay);
      await Promise.all(nodes.map((node) => node.stop()));
    }
  }, 120_000);
});
