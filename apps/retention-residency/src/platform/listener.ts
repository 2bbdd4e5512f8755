import { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import pg from 'pg';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
/** A connection that was cut without a word is noticed by this. */
const PING_MS = 2000;
const ANSWER_MS = 2000;

export interface ListenerInput {
  readonly url: string;
  /** What to do with a message of each channel. When that fails, all is begun again: `onConnect` reads what was missed. */
  readonly channels: Readonly<Record<string, (payload: string) => void | Promise<void>>>;
  /** After each connect: what was said while nobody listened is not said again. */
  readonly onConnect: () => Promise<void>;
}

/** LISTEN on a connection of its own, made again whenever it is lost. Correctness must never rest on it. */
export class Listener {
  private readonly logger = new Logger(Listener.name);
  private readonly stopping = new AbortController();
  private running: Promise<void> | undefined;
  private socket: Socket | undefined;

  constructor(private readonly input: ListenerInput) {}

  start(): void {
    this.running = this.run();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.socket?.destroy();
    await this.running;
  }

  private async run(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!this.stopping.signal.aborted) {
      // A socket of our own: `end` of the client waits for a server that is frozen, and never settles while it connects.
      const socket = new Socket();
      const client = new pg.Client({
        connectionString: this.input.url,
        stream: () => socket,
        connectionTimeoutMillis: 5000,
        keepAlive: true,
      });
      this.socket = socket;
      try {
        await this.listen(client, () => (pause = FIRST_PAUSE_MS));
      } catch (error) {
        if (!this.stopping.signal.aborted) this.logger.warn(`Listening was interrupted: ${(error as Error).message}`);
      }
      socket.destroy();
      await delay(pause, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  /** Returns or throws when the connection has ended. */
  private async listen(client: pg.Client, onConnected: () => void): Promise<void> {
    const { channels, onConnect } = this.input;
    const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
    ended.catch(() => undefined);
    client.once('end', resolve);
    client.on('error', reject);
    client.on('notification', ({ channel, payload = '' }) => {
      Promise.resolve(channels[channel]?.(payload)).catch(reject);
    });
    const ask = (text: string) => Promise.race([client.query(text), refuseAfter(ANSWER_MS)]);
    await client.connect();
    for (const channel of Object.keys(channels)) await ask(`listen ${client.escapeIdentifier(channel)}`);
    // Listening first: what changes while everything is read is heard.
    await onConnect();
    onConnected();
    for (;;) {
      const isOver = await Promise.race([
        ended.then(() => true),
        delay(PING_MS, false, { signal: this.stopping.signal }),
      ]);
      if (isOver) return;
      await ask('select 1');
    }
  }
}

async function refuseAfter(ms: number): Promise<never> {
  await delay(ms, undefined, { ref: false });
  throw new Error(`the connection did not answer within ${ms} ms`);
}
