import { Listener } from '../platform/listener.js';
import { WorkerLoop } from '../platform/worker-loop.js';
import type { OutboxRelay } from './outbox-relay.js';

const INTERVAL_MS = 1000;
/** One publishes while the other reads and commits. */
const RELAYS = 2;

/** The relays of one replica: woken by what is appended anywhere, and by the clock where nobody woke them. */
export class OutboxRelays {
  private readonly loops: readonly WorkerLoop[];
  private readonly listener: Listener;

  constructor(relay: OutboxRelay, platformDatabaseUrl: string) {
    this.loops = Array.from(
      { length: RELAYS },
      () => new WorkerLoop({ name: 'outbox relay', tick: () => relay.tick(), intervalMs: INTERVAL_MS }),
    );
    const wake = () => this.loops.forEach((loop) => loop.wake());
    this.listener = new Listener({
      url: platformDatabaseUrl,
      channels: { data_foundations_outbox: wake },
      onConnect: async () => wake(),
    });
  }

  start(): void {
    for (const loop of this.loops) loop.start();
    this.listener.start();
  }

  /** Returns once the ticks that are running have ended. */
  async stop(): Promise<void> {
    await this.listener.stop();
    await Promise.all(this.loops.map((loop) => loop.stop()));
  }
}
