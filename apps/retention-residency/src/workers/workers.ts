import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { Evidence } from '../evidence/evidence.js';
import { EventBus } from '../outbox/event-bus.js';
import { OutboxRelay } from '../outbox/outbox-relay.js';
import { Database } from '../platform/database.js';
import { Listener } from '../platform/listener.js';
import { WorkerLoop } from '../platform/worker-loop.js';
import { CheckResidency } from '../residency/check-residency.js';
import { RuleActivator } from '../rules/rule-activator.js';
import { Settings } from '../settings.js';

const RELAY_MS = 1000;
/** One publishes while the other reads and commits. */
const RELAYS = 2;
const ACTIVATION_MS = 1000;
const AGEING_MS = 3_600_000;
const CHAINS_A_TICK = 100;

/** What goes on by itself: started with the application, ended before its connections are closed. */
@Injectable()
export class Workers implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly loops: readonly WorkerLoop[];
  private readonly listener: Listener;

  constructor(
    relay: OutboxRelay,
    activator: RuleActivator,
    evidence: Evidence,
    database: Database,
    private readonly checkResidency: CheckResidency,
    private readonly bus: EventBus,
    @Inject(Settings) settings: Pick<Settings, 'platformDatabaseUrl'>,
  ) {
    const relays = Array.from(
      { length: RELAYS },
      () => new WorkerLoop({ name: 'outbox relay', tick: () => relay.tick(), intervalMs: RELAY_MS }),
    );
    const wake = () => relays.forEach((each) => each.wake());
    const age = () => evidence.age(database, CHAINS_A_TICK);
    this.loops = [
      ...relays,
      new WorkerLoop({ name: 'rule activation', tick: () => activator.tick(), intervalMs: ACTIVATION_MS }),
      new WorkerLoop({ name: 'ageing of evidence', tick: age, intervalMs: AGEING_MS }),
    ];
    this.listener = new Listener({
      url: settings.platformDatabaseUrl,
      channels: { data_foundations_outbox: wake },
      onConnect: async () => wake(),
    });
  }

  onApplicationBootstrap(): void {
    this.checkResidency.start();
    for (const loop of this.loops) loop.start();
    this.listener.start();
  }

  async onModuleDestroy(): Promise<void> {
    await this.listener.stop();
    await Promise.all(this.loops.map((loop) => loop.stop()));
    await this.bus.close();
  }
}
