import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { createTestDatabase, ensureTemplate } from 'local-stack/testing';
import { Evidence } from '../../src/evidence/evidence.js';
import type { Envelope } from '../../src/outbox/event.js';
import { Outbox } from '../../src/outbox/outbox.js';
import type { Actor } from '../../src/platform/actor.js';
import { Database } from '../../src/platform/database.js';
import { migrate, openRoles, roleUrls } from '../../src/platform/migrate.js';
import { runSql } from '../../src/platform/sql.js';
import { TimeAndIds } from '../../src/platform/time-and-ids.js';
import { RuleActivator } from '../../src/rules/rule-activator.js';
import { RulesService } from '../../src/rules/rules.service.js';
import { type PlatformDefaults, seedPlatformRules } from '../../src/rules/seed-platform-rules.js';

const MIGRATED = 'governance';
export const DAY_MS = 86_400_000;
export const DEFAULTS: PlatformDefaults = { traces: 30, runs: 365, artifacts: 365, audit: 2555, projections: 395 };

/** Stands until a test moves it. */
export class TestTime extends TimeAndIds {
  constructor(private at = new Date('2026-03-01T12:00:00.123Z')) {
    super();
  }

  override now(): Date {
    return new Date(this.at);
  }

  advance(ms: number): void {
    this.at = new Date(this.at.getTime() + ms);
  }
}

/** A database of its own, migrated and empty, and the urls of its roles. */
export async function governanceDatabase() {
  await ensureTemplate(MIGRATED, async (url) => {
    await migrate(url);
    await openRoles(url);
  });
  const { url, drop } = await createTestDatabase({ template: MIGRATED, name: MIGRATED });
  return { ownerUrl: url, urls: roleUrls(url), drop };
}

export function actor(clientId: string, isPlatformAdmin = false): Actor {
  const traceId = randomUUID().replaceAll('-', '');
  return { clientId, isPlatformAdmin, origin: { traceId, correlationId: traceId, causationId: traceId } };
}

/** The parts of the service on a database of their own, with platform rules seeded and a clock of the test. */
export async function openGovernance({ graceDays = 7, pool = 5 } = {}) {
  const { urls, ownerUrl, drop } = await governanceDatabase();
  const database = await Database.open({ urls, pool });
  const time = new TestTime();
  const outbox = new Outbox(time);
  const evidence = new Evidence(time);
  await seedPlatformRules(database, DEFAULTS, time);
  return {
    urls,
    ownerUrl,
    database,
    time,
    outbox,
    evidence,
    rules: new RulesService(database, outbox, evidence, time, { graceDays }),
    activator: new RuleActivator(database, outbox, evidence, time),
    close: async () => {
      await database.onApplicationShutdown();
      await drop();
    },
  };
}

/** Everything that was appended, in order. */
export async function appended(database: Database): Promise<Envelope[]> {
  const rows = await database.asPlatform((em) =>
    runSql<{ envelope: Envelope }>(em, 'select envelope from data_foundations.outbox order by seq'),
  );
  return rows.map(({ envelope }) => envelope);
}

/** Makes tenants known, as their first residency rule does. */
export function knowTenants(em: EntityManager, ...tenants: string[]): Promise<unknown> {
  return runSql(
    em,
    `insert into data_foundations.residency_rules
       (tenant_id, region, allowed_regions, allowed_engines, changed_at, version)
     select tenant, 'westeurope', '{westeurope}', '{}', '2026-01-01Z', 1 from unnest($1::text[]) as tenant`,
    [tenants],
  );
}
