import { Migrator } from '@mikro-orm/migrations';
import { defineConfig } from '@mikro-orm/postgresql';
import { retentionResidencyMigrations } from 'migrations';
import type pg from 'pg';
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
    driverOptions: { onPoolCreated: giveBackLostConnections },
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

/**
 * A transaction whose connection is lost is not given back to the pool: its rollback fails first. Without this a database that
 * goes away and comes back would leave a pool in which every connection is taken for ever.
 */
function giveBackLostConnections(pool: pg.Pool): void {
  pool.on('connect', (client) => {
    client.once('end', () => {
      const { release } = client;
      // Whoever still holds it gives it back a second time.
      client.release = () => undefined;
      try {
        release(true);
      } catch {
        // It was not taken.
      }
    });
  });
}
