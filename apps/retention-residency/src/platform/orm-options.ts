import { Migrator } from '@mikro-orm/migrations';
import { defineConfig } from '@mikro-orm/postgresql';
import { retentionResidencyMigrations } from 'migrations';
import { giveBackLostConnections } from 'nestjs-cohort';
import type pg from 'pg';
import { evidenceHeadMapping, evidenceMapping } from '../evidence/evidence.mapping.js';
import { inboxMapping, outboxMapping } from '../outbox/outbox.mapping.js';
import { residencyRuleMapping } from '../residency/residency-rule.mapping.js';
import { storeBindingMapping } from '../residency/store-binding.mapping.js';
import { retentionRuleMapping } from '../rules/retention-rule.mapping.js';

/** For a connection: a free one of the pool, or a new one. */
const CONNECT_MS = 5000;

export interface OrmSettings {
  readonly url: string;
  /** Connections at most. */
  readonly pool?: number;
  /** A statement that has no answer after so many milliseconds takes its connection with it. Undefined: it may take any time. */
  readonly answerMs?: number;
  readonly contextName?: string;
}

/** The MikroORM configuration of the service, for whichever role the url logs in as. */
export function ormOptions({ url, pool = 10, answerMs, contextName }: OrmSettings) {
  return defineConfig({
    clientUrl: url,
    ...(contextName && { contextName }),
    pool: { min: 0, max: pool },
    driverOptions: {
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      onPoolCreated: (connections: pg.Pool) => {
        giveBackLostConnections(connections);
        connections.on('connect', (client) => {
          leaveAtOnce(client);
          if (answerMs !== undefined) endWithoutAnswer(client, answerMs);
        });
      },
    },
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

/** A frozen server would never answer the goodbye; waiting for it would keep the pool, and the process, from ending. */
function leaveAtOnce({ connection: { stream } }: pg.PoolClient): void {
  stream.once('finish', () => stream.destroy());
}

/**
 * The driver's own query_timeout fails the statement and leaves the connection as it is: in its transaction, with the answer
 * still to come. So it is destroyed, and that fails the statement.
 */
function endWithoutAnswer(client: pg.PoolClient, answerMs: number): void {
  const query = client.query.bind(client) as (...input: unknown[]) => Promise<unknown>;
  client.query = (async (...input: unknown[]) => {
    const timer = setTimeout(() => client.connection.stream.destroy(new NoAnswerError(answerMs)), answerMs);
    try {
      return await query(...input);
    } finally {
      clearTimeout(timer);
    }
  }) as typeof client.query;
}

/** The database is frozen, or cut off. */
class NoAnswerError extends Error {
  readonly code = 'ETIMEDOUT';

  constructor(answerMs: number) {
    super(`The database did not answer a statement within ${answerMs} ms; its connection was ended.`);
    this.name = 'NoAnswerError';
  }
}
