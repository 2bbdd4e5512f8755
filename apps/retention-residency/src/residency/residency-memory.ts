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
    const known = this.rules.get(rule.tenantId);
    if (known && known.version > rule.version) return;
    const { region, allowedRegions, allowedEngines, modelDataResidency, pendingRegion, version } = rule;
    this.rules.set(rule.tenantId, {
      rule: { region, allowedRegions, allowedEngines, modelDataResidency, pendingRegion },
      version,
    });
  }

  private async reload(tenantId: string): Promise<void> {
    const rule = await this.database.asPlatform((em) => em.findOne(ResidencyRule, { tenantId }));
    if (rule) this.remember(rule);
    else this.rules.delete(tenantId);
  }

  private async reloadAll(): Promise<void> {
    const before = new Map(this.rules);
    const stored = await this.database.asPlatform((em) => em.findAll(ResidencyRule));
    const tenants = new Set(stored.map(({ tenantId }) => tenantId));
    // What was remembered meanwhile may be younger than what was read.
    for (const [tenantId, rule] of before) {
      if (!tenants.has(tenantId) && this.rules.get(tenantId) === rule) this.rules.delete(tenantId);
    }
    for (const rule of stored) this.remember(rule);
  }
}
