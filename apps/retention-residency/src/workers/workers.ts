import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { Evidence } from '../evidence/evidence.js';
import { EventBus } from '../outbox/event-bus.js';
import { OutboxRelay } from '../outbox/outbox-relay.js';
import { OutboxRelays } from '../outbox/outbox-relays.js';
import { Database } from '../platform/database.js';
import { WorkerLoop } from '../platform/worker-loop.js';
import { CheckResidency } from '../residency/check-residency.js';
import { RuleActivator } from '../rules/rule-activator.js';
import { Settings } from '../settings.js';

const ACTIVATION_MS = 1000;
const AGEING_MS = 3_600_000;
const CHAINS_A_TICK = 100;

/** What goes on by itself: started with the application, ended before its connections are closed. */
@Injectable()
export class Workers implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly relays: OutboxRelays;
  private readonly loops: readonly WorkerLoop[];

  constructor(
    relay: OutboxRelay,
    activator: RuleActivator,
    evidence: Evidence,
    database: Database,
    private readonly checkResidency: CheckResidency,
    private readonly bus: EventBus,
    @Inject(Settings) settings: Pick<Settings, 'platformDatabaseUrl'>,
  ) {
    this.relays = new OutboxRelays(relay, settings.platformDatabaseUrl);
    const age = () => evidence.age(database, CHAINS_A_TICK);
    this.loops = [
      new WorkerLoop({ name: 'rule activation', tick: () => activator.tick(), intervalMs: ACTIVATION_MS }),
      new WorkerLoop({ name: 'ageing of evidence', tick: age, intervalMs: AGEING_MS }),
    ];
  }

  onApplicationBootstrap(): void {
    this.checkResidency.start();
    this.relays.start();
    for (const loop of this.loops) loop.start();
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.all([this.relays, ...this.loops].map((each) => each.stop()));
    await this.bus.close();
  }
}
