import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { type BusMessage, EventBus, type MessageHandler, PoisonMessageError } from './event-bus.js';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
/** Like a broker, it forgets what it was sent long ago. */
const REMEMBERED_IDS = 10_000;

/** A bus within this process, where no broker is configured. What nobody has worked off is gone with the process. */
export class InProcessBus extends EventBus {
  private readonly logger = new Logger(InProcessBus.name);
  private readonly consumers = new Map<string, Queue>();
  private readonly seen = new Set<string>();
  private readonly stopping = new AbortController();

  override async publish(message: BusMessage): Promise<void> {
    if (this.stopping.signal.aborted) throw new Error('The bus is closed.');
    if (this.seen.has(message.id)) return;
    this.seen.add(message.id);
    if (this.seen.size > REMEMBERED_IDS) this.seen.delete(this.seen.values().next().value as string);
    for (const queue of this.consumers.values()) if (queue.topic === message.topic) queue.push(message);
  }

  override subscribe(topic: string, consumer: string, handler: MessageHandler): void {
    const deliver = (message: BusMessage) => this.deliver(message, consumer, handler);
    const known = this.consumers.get(consumer);
    if (known) known.handlers.push(deliver);
    else this.consumers.set(consumer, new Queue(topic, deliver));
  }

  override async close(): Promise<void> {
    this.stopping.abort();
    await Promise.all([...this.consumers.values()].map((queue) => queue.idle));
  }

  private async deliver(message: BusMessage, consumer: string, handler: MessageHandler): Promise<void> {
    for (let pause = FIRST_PAUSE_MS; !this.stopping.signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await handler(message);
      } catch (error) {
        this.logger.warn(`${consumer} did not work off ${message.id}: ${(error as Error).message}`);
        if (error instanceof PoisonMessageError) return;
        await delay(pause, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      }
    }
  }
}

/** Messages of a consumer, one after the other. */
class Queue {
  readonly handlers: ((message: BusMessage) => Promise<void>)[];
  idle: Promise<void> = Promise.resolve();
  private turn = 0;

  constructor(
    readonly topic: string,
    handler: (message: BusMessage) => Promise<void>,
  ) {
    this.handlers = [handler];
  }

  push(message: BusMessage): void {
    const handler = this.handlers[this.turn++ % this.handlers.length] as (message: BusMessage) => Promise<void>;
    this.idle = this.idle.then(() => handler(message));
  }
}
