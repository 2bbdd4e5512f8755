/** One message as it travels. `id` is the same each time that it is sent. */
export interface BusMessage {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Returns when the message is worked off. Whatever it throws means: again later, unless it is a PoisonMessageError. */
export type MessageHandler = (message: BusMessage) => Promise<void>;

/**
 * Carries events at least once, in the order of `publish`. Both implementations pass test/event-bus.contract.ts.
 * In-process where no broker is configured, NATS JetStream else.
 */
export abstract class EventBus {
  /** Returns once the message is safe with the bus; throws when it cannot say so. */
  abstract publish(message: BusMessage): Promise<void>;

  /** One consumer of a topic: each message goes to one of those that have its name. */
  abstract subscribe(topic: string, consumer: string, handler: MessageHandler): void;

  /** Takes nothing new, lets the handlers end. */
  abstract close(): Promise<void>;
}

/** A message that no later attempt would work off. It is logged and left. */
export class PoisonMessageError extends Error {
  readonly code = 'poison-message';

  constructor(message: string) {
    super(message);
    this.name = 'PoisonMessageError';
  }
}
