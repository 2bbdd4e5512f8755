import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { retentionResidencyMigrations } from 'migrations';
import { selectLag } from '../outbox/outbox.queries.js';
import { Database } from './database.js';
import { runSql } from './sql.js';

/** Events that wait longer than this are in trouble. */
const LONGEST_LAG_SECONDS = 300;
/** Whoever asks wants to know soon: a database that has not answered by then is none. */
const READY_MS = 2000;

export interface Readiness {
  readonly status: 'ok' | 'unavailable';
  /** What is wrong, or `ok`. */
  readonly checks: Readonly<Record<'database' | 'migrations' | 'outbox', string>>;
}

const UNAVAILABLE: Readiness = {
  status: 'unavailable',
  checks: { database: 'unavailable', migrations: 'unknown', outbox: 'unknown' },
};

/** Whether this replica can serve. */
@Injectable()
export class Health {
  private looking: Promise<Readiness> | undefined;

  constructor(private readonly database: Database) {}

  ready(): Promise<Readiness> {
    // One look for all who ask: while the database is frozen each would take a connection more.
    this.looking ??= this.look().finally(() => (this.looking = undefined));
    return Promise.race([this.looking, delay(READY_MS, UNAVAILABLE, { ref: false })]);
  }

  private async look(): Promise<Readiness> {
    try {
      // As a request does: with the role of requests, for a tenant that nobody has.
      await this.database.inTenant('-', (em) => runSql(em, 'select 1'));
      const { missing, lag } = await this.database.asPlatform(async (em) => ({
        missing: await missingMigrations((text) => runSql<{ name: string }>(em, text)),
        lag: await selectLag(em),
      }));
      const checks = {
        database: 'ok',
        migrations: missing.length === 0 ? 'ok' : `missing: ${missing.join(', ')}`,
        outbox: lag.seconds <= LONGEST_LAG_SECONDS ? 'ok' : `${lag.waiting} events wait, for up to ${lag.seconds} s`,
      };
      const isOk = Object.values(checks).every((check) => check === 'ok');
      return { status: isOk ? 'ok' : 'unavailable', checks };
    } catch {
      return UNAVAILABLE;
    }
  }
}

async function missingMigrations(select: (text: string) => Promise<{ name: string }[]>): Promise<string[]> {
  const applied = new Set((await select('select name from retention_residency_migrations')).map(({ name }) => name));
  return retentionResidencyMigrations.map(({ name }) => name).filter((name) => !applied.has(name));
}
