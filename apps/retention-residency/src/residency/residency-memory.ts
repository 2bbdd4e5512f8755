import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { Database } from '../platform/database.js';
import { Listener } from '../platform/listener.js';
import { Settings } from '../settings.js';
import type { DecidingRule } from './evaluate-residency.js';
import { ResidencyRule } from './residency-rule.js';

const CHANNEL = 'data_foundations_residency';

/** A rule as it decides, and its version. */
export interface RememberedRule {
  readonly rule: NonNullable<DecidingRule>;
  readonly version: number;
}

/** The residency rules of every tenant, in memory. Another replica's changes arrive by NOTIFY; all are read again after a lost connection. */
@Injectable()
export class ResidencyMemory implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly rules = new Map<string, RememberedRule>();
  /** What is told of while all are read again; null where a rule has gone. Undefined: nothing is being read. */
  private told: Map<string, RememberedRule | null> | undefined;
  private readonly listener: Listener;

  constructor(
    private readonly database: Database,
    @Inject(Settings) settings: Pick<Settings, 'platformDatabaseUrl'>,
  ) {
    this.listener = new Listener({
      url: settings.platformDatabaseUrl,
      channels: { [CHANNEL]: (tenantId) => this.reload(tenantId) },
      onConnect: () => this.reloadAll(),
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.reloadAll();
    this.listener.start();
  }

  async onModuleDestroy(): Promise<void> {
    await this.listener.stop();
  }

  get(tenantId: string): RememberedRule | undefined {
    return this.rules.get(tenantId);
  }

  /** A change of this replica, once it is committed. An older one that comes late is left out. */
  remember(rule: ResidencyRule): void {
    if (this.told) keepYounger(this.told, rule);
    keepYounger(this.rules, rule);
  }

  private async reload(tenantId: string): Promise<void> {
    const rule = await this.database.asPlatform((em) => em.findOne(ResidencyRule, { tenantId }));
    if (rule) return this.remember(rule);
    this.told?.set(tenantId, null);
    this.rules.delete(tenantId);
  }

  /**
   * What is read is believed as it is: a database that was restored has lower versions than those that are remembered. What
   * was told of meanwhile may be younger than what was read.
   */
  private async reloadAll(): Promise<void> {
    const told = (this.told = new Map<string, RememberedRule | null>());
    let stored: ResidencyRule[];
    try {
      stored = await this.database.asPlatform((em) => em.findAll(ResidencyRule));
    } finally {
      this.told = undefined;
    }
    this.rules.clear();
    for (const [tenantId, entry] of told) if (entry) this.rules.set(tenantId, entry);
    for (const rule of stored) if (told.get(rule.tenantId) !== null) keepYounger(this.rules, rule);
  }
}

function keepYounger(rules: Map<string, RememberedRule | null>, stored: ResidencyRule): void {
  const known = rules.get(stored.tenantId);
  if (known && known.version > stored.version) return;
  const { region, allowedRegions, allowedEngines, modelDataResidency, pendingRegion, version } = stored;
  rules.set(stored.tenantId, {
    rule: { region, allowedRegions, allowedEngines, modelDataResidency, pendingRegion },
    version,
  });
}
