import {
  AckPolicy,
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import { type NatsConnection, connect, headers as natsHeaders, nanos } from '@nats-io/transport-node';
import { Logger } from '@nestjs/common';
import { type BusMessage, EventBus, type MessageHandler, PoisonMessageError } from './event-bus.js';

/** Streams of ours and of the neighbour that we listen to; made where they are missing, left as they are where not. */
const STREAMS = [
  { name: 'DATA_FOUNDATIONS', subjects: ['data-foundations.>'] },
  { name: 'STORE_PROFILES', subjects: ['store-profiles.>'] },
];
const ACK_TIMEOUT_MS = 5000;
/** A message id that comes again within this time is dropped by the server. */
const DUPLICATE_WINDOW_MS = 2 * 60_000;
const REDELIVERY_MS = 1000;
/** A server that forgot a pull, being another one now, is asked again after this. */
const PULL_MS = 5000;
/** A message that is neither worked off nor refused by then comes again: a server that was killed forgets the last answers. */
const HANDLER_TIMEOUT_MS = 10_000;

export interface NatsBusSettings {
  readonly url: string;
  /** Of each stream. */
  readonly replicas: number;
}

interface Session {
  readonly connection: NatsConnection;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
}

/** NATS JetStream. A server that cannot be reached is tried again and again; until then `publish` throws. */
export class NatsBus extends EventBus {
  private readonly logger = new Logger(NatsBus.name);
  private readonly running: Promise<void>[] = [];
  private readonly consumed: ConsumerMessages[] = [];
  private session: Promise<Session> | undefined;
  private isClosing = false;

  constructor(private readonly settings: NatsBusSettings) {
    super();
  }

  override async publish({ id, topic, headers, body }: BusMessage): Promise<void> {
    const { client } = await this.open();
    const carried = natsHeaders();
    for (const [name, value] of Object.entries(headers)) carried.set(name, value);
    await client.publish(topic, body, { msgID: id, headers: carried, timeout: ACK_TIMEOUT_MS });
  }

  override subscribe(topic: string, consumer: string, handler: MessageHandler): void {
    this.running.push(this.consume(topic, consumer, handler));
  }

  override async close(): Promise<void> {
    this.isClosing = true;
    await Promise.all(this.consumed.map((messages) => messages.close()));
    const session = await this.session?.catch(() => undefined);
    await session?.connection.drain().catch(() => undefined);
    await Promise.all(this.running);
  }

  /** The connection, which reconnects by itself; made again after a first attempt that failed. */
  private open(): Promise<Session> {
    if (this.isClosing) return Promise.reject(new Error('The bus is closed.'));
    this.session ??= this.connect().catch((error: unknown) => {
      this.session = undefined;
      throw error;
    });
    return this.session;
  }

  private async connect(): Promise<Session> {
    const { url, replicas } = this.settings;
    const servers = url.split(',');
    const connection = await connect({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 500, timeout: 3000 });
    try {
      const manager = await jetstreamManager(connection);
      for (const stream of STREAMS) await ensureStream(manager, stream, replicas);
      return { connection, manager, client: jetstream(connection) };
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  private async consume(topic: string, consumer: string, handler: MessageHandler): Promise<void> {
    const durable = consumer.replace(/[^\w-]/g, '_');
    while (!this.isClosing) {
      try {
        const { manager, client } = await this.open();
        const stream = await manager.streams.find(topic);
        await manager.consumers.add(stream, {
          durable_name: durable,
          filter_subject: topic,
          ack_policy: AckPolicy.Explicit,
          deliver_policy: DeliverPolicy.All,
          ack_wait: nanos(HANDLER_TIMEOUT_MS),
          // One at a time: a message that fails is not overtaken.
          max_ack_pending: 1,
        });
        const messages = await (
          await client.consumers.get(stream, durable)
        ).consume({
          max_messages: 1,
          expires: PULL_MS,
          idle_heartbeat: PULL_MS / 5,
        });
        this.consumed.push(messages);
        for await (const message of messages) await this.deliver(message, consumer, handler);
      } catch (error) {
        if (!this.isClosing) this.logger.warn(`${consumer} is interrupted: ${(error as Error).message}`);
      }
      if (!this.isClosing) await new Promise((resolve) => setTimeout(resolve, REDELIVERY_MS).unref());
    }
  }

  private async deliver(message: JsMsg, consumer: string, handler: MessageHandler): Promise<void> {
    const carried = message.headers;
    const headers = Object.fromEntries((carried?.keys() ?? []).map((name) => [name, carried?.get(name) ?? '']));
    const id = carried?.get('Nats-Msg-Id') || `${message.info.stream}:${message.seq}`;
    try {
      await handler({ id, topic: message.subject, headers, body: message.string() });
      message.ack();
    } catch (error) {
      this.logger.warn(`${consumer} did not work off ${id}: ${(error as Error).message}`);
      if (error instanceof PoisonMessageError) message.term();
      else message.nak(REDELIVERY_MS);
    }
  }
}

async function ensureStream(
  manager: JetStreamManager,
  stream: (typeof STREAMS)[number],
  replicas: number,
): Promise<void> {
  const exists = await manager.streams.info(stream.name).then(
    () => true,
    () => false,
  );
  if (exists) return;
  await manager.streams
    .add({ ...stream, num_replicas: replicas, duplicate_window: nanos(DUPLICATE_WINDOW_MS) })
    .catch(async (error: unknown) => {
      // Another replica was faster.
      await manager.streams.info(stream.name).catch(() => {
        throw error;
      });
    });
}
