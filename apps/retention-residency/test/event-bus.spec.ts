import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type BusMessage, type EventBus, PoisonMessageError } from '../src/outbox/event-bus.js';
import { InProcessBus } from '../src/outbox/in-process-bus.js';
import { NatsBus } from '../src/outbox/nats-bus.js';
import { NATS_MISSING, type NatsNode, openNats } from 'local-stack/testing';
import { until } from './support/until.js';

const TOPIC = 'data-foundations.test.v1.happened';

function message(body: string, id: string = randomUUID()): BusMessage {
  return { id, topic: TOPIC, headers: { 'ce-id': id, 'ce-partitionkey': 'a' }, body };
}

/** What the service rests on, whichever bus there is. */
function contract(open: () => EventBus): void {
  let bus: EventBus;
  let consumer: string;
  let seen: BusMessage[];
  beforeEach(() => {
    bus = open();
    consumer = `test.${randomUUID()}`;
    seen = [];
  });
  afterEach(() => bus.close());

  const bodies = () => seen.map(({ body }) => body);
  /** A message of its own ends each test's stream, since a broker keeps what earlier tests have sent. */
  const sent = async (...all: BusMessage[]) => {
    const marker = message(`end ${randomUUID()}`);
    for (const each of [...all, marker]) await bus.publish(each);
    await until(() => bodies().includes(marker.body));
    const known = new Set(all.map(({ id }) => id));
    seen = seen.filter(({ id }) => known.has(id));
  };
  const take = async (each: BusMessage) => void seen.push(each);

  test('carries messages whole, in order, to each consumer', async () => {
    const others: string[] = [];
    bus.subscribe(TOPIC, consumer, take);
    bus.subscribe(TOPIC, `${consumer}.other`, async ({ id }) => void others.push(id));
    const all = Array.from({ length: 20 }, (_, index) => message(JSON.stringify({ index, text: 'ä🙂' })));
    await sent(...all);
    expect(seen.map(({ id, topic, body }) => ({ id, topic, body }))).toEqual(
      all.map(({ id, topic, body }) => ({ id, topic, body })),
    );
    expect(seen[0]?.headers).toMatchObject(all[0]!.headers);
    await until(() => all.every(({ id }) => others.includes(id)));
  });

  test('drops a message that is sent again', async () => {
    bus.subscribe(TOPIC, consumer, take);
    const first = message('once');
    await sent(first, first, message('other'));
    expect(bodies()).toEqual(['once', 'other']);
  });

  test('brings a message again whose handler failed, before those after it', async () => {
    let failures = 0;
    bus.subscribe(TOPIC, consumer, async (each) => {
      if (each.body === 'hard' && failures++ < 2) throw new Error('not yet');
      seen.push(each);
    });
    await sent(message('hard'), message('next'));
    expect([bodies(), failures]).toEqual([['hard', 'next'], 3]);
  });

  test('leaves a message that nobody can work off', async () => {
    let attempts = 0;
    bus.subscribe(TOPIC, consumer, async (each) => {
      if (each.body === 'poison') {
        attempts++;
        throw new PoisonMessageError('unreadable');
      }
      seen.push(each);
    });
    await sent(message('poison'), message('next'));
    expect([bodies(), attempts]).toEqual([['next'], 1]);
  });

  test('gives each message to one of the consumers that have one name', async () => {
    const counts = [0, 0];
    for (const index of [0, 1]) {
      bus.subscribe(TOPIC, consumer, async (each) => {
        counts[index]!++;
        seen.push(each);
      });
    }
    const all = Array.from({ length: 30 }, (_, index) => message(String(index)));
    await sent(...all);
    await until(() => seen.length >= 30);
    expect(new Set(seen.map(({ id }) => id))).toEqual(new Set(all.map(({ id }) => id)));
    expect(seen).toHaveLength(30);
  });

  test('takes nothing once it is closed', async () => {
    await bus.close();
    await expect(bus.publish(message('late'))).rejects.toThrow();
  });
}

describe('the bus within the process', () => contract(() => new InProcessBus()));

(NATS_MISSING ? describe.skip : describe)('NATS JetStream', () => {
  let node: NatsNode;
  beforeAll(async () => {
    [node] = (await openNats()) as [NatsNode];
    await node.start();
  });
  afterAll(() => node.stop());

  contract(() => new NatsBus({ url: node.url, replicas: 1 }));

  test('that is down says so at each publication, and carries again once it is up', async () => {
    const [other] = (await openNats()) as [NatsNode];
    const bus = new NatsBus({ url: other.url, replicas: 1 });
    const seen: string[] = [];
    try {
      bus.subscribe(TOPIC, 'test.down', async ({ body }) => void seen.push(body));
      await expect(bus.publish(message('nobody there'))).rejects.toThrow();
      await other.start();
      await until(() =>
        bus.publish(message('hello')).then(
          () => true,
          () => false,
        ),
      );
      await until(() => seen.includes('hello'));
      await other.kill();
      await expect(bus.publish(message('gone'))).rejects.toThrow();
      await other.start();
      await until(() =>
        bus.publish(message('again')).then(
          () => true,
          () => false,
        ),
      );
      await until(() => seen.includes('again'), 30_000);
    } finally {
      await bus.close();
      await other.stop();
    }
  });
});
