import { Migrator } from '@mikro-orm/migrations';
import { defineConfig } from '@mikro-orm/postgresql';
import { retentionResidencyMigrations } from 'migrations';
import { evidenceHeadMapping, evidenceMapping } from '../evidence/evidence.mapping.js';
import { inboxMapping, outboxMapping } from '../outbox/outbox.mapping.js';
import { residencyRuleMapping } from '../residency/residency-rule.mapping.js';
import { storeBindingMapping } from '../residency/store-binding.mapping.js';
import { retentionRuleMapping } from '../rules/retention-rule.mapping.js';

export interface OrmSettings {
  readonly url: string;
  /** Connections at most. */
  readonly pool?: number;
  readonly contextName?: string;
}

/** The MikroORM configuration of the service, for whichever role the url logs in as. */
export function ormOptions({ url, pool = 10, contextName }: OrmSettings) {
  return defineConfig({
    clientUrl: url,
    ...(contextName && { contextName }),
    pool: { min: 0, max: pool },
    entities: [
      retentionRuleMapping,
      residencyRuleMapping,
      storeBindingMapping,
      outboxMapping,
      inboxMapping,
      evidenceMapping,
      evidenceHeadMapping,
    ],
    discovery: { inferDefaultValues: false },
    extensions: [Migrator],
    // Triggers and the functions behind them are the migrations' alone.
    schemaGenerator: { ignoreTriggers: true, ignoreRoutines: true },
    migrations: {
      migrationsList: retentionResidencyMigrations,
      tableName: 'retention_residency_migrations',
      snapshot: false,
      silent: true,
    },
    logger: (message) => console.error(message),
  });
}
