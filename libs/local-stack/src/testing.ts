import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import { TestServerMissingError, TestTemplateError } from './local-stack.errors.js';
import { dropDatabase, lockKey, runVariables, withClient } from './test-server.js';

export { TestServerMissingError, TestTemplateError };
export { findFreePort } from './free-port.js';
export { NATS_MISSING, type NatsNode, openNats } from './nats-servers.js';
export { type Ended, type Program, environment, follow, startProgram } from './program.js';
export { startTestServer, type TestServer } from './test-server.js';

/** A database for one test file. */
export interface TestDatabase {
  url: string;
  name: string;
  /** Drops it and ends the connections that are left. May be called again. */
  drop(): Promise<void>;
}

/** Options of createTestDatabase. */
export interface TestDatabaseOptions {
  /** A name given to ensureTemplate before. Default: an empty database. */
  template?: string;
  /** Part of the database's name, for whoever looks at the server. Default: `db`. */
  name?: string;
}

/**
 * Creates a database on the server of this run, as a copy of a template or empty, under a name of its own.
 * What is not dropped goes when the run ends. Throws TestServerMissingError, TestTemplateError.
 */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { adminUrl, runId } = currentRun();
  const name = `cohort_test_${runId}_${slug(options.name ?? 'db')}_${randomBytes(4).toString('hex')}`;
  await withClient(adminUrl, async (admin) => {
    const source = options.template === undefined ? 'template0' : templateDatabase(runId, options.template);
    if (options.template !== undefined && !(await databaseExists(admin, source))) {
      throw new TestTemplateError(options.template, 'is not there; call ensureTemplate before createTestDatabase.');
    }
    await admin.query(`create database ${admin.escapeIdentifier(name)} template ${admin.escapeIdentifier(source)}`);
  });
  return { url: urlOf(adminUrl, name), name, drop: () => withClient(adminUrl, (admin) => dropDatabase(admin, name)) };
}

/**
 * Builds a template database once a run, however many workers ask at the same time: the first calls `prepare` with its url,
 * the others wait. `prepare` must close its connections. When it throws, nothing remains and the next caller tries again.
 * Throws TestServerMissingError, TestTemplateError, and what `prepare` throws.
 */
export async function ensureTemplate(name: string, prepare: (url: string) => Promise<void>): Promise<void> {
  const { adminUrl, runId } = currentRun();
  const template = templateDatabase(runId, name);
  await withClient(adminUrl, async (admin) => {
    // Held by the session, hence gone with a worker that dies in the middle.
    await admin.query('select pg_advisory_lock($1)', [lockKey(template)]);
    if (await databaseExists(admin, template)) return;
    const draft = `${template}_draft`;
    await dropDatabase(admin, draft);
    await admin.query(`create database ${admin.escapeIdentifier(draft)} template template0`);
    try {
      await prepare(urlOf(adminUrl, draft));
      await publishTemplate(admin, name, draft, template);
    } catch (error) {
      await dropDatabase(admin, draft);
      throw error;
    }
  });
}

/** The final name appears last: whoever sees it may copy it. Without connections allowed no stray one can spoil a copy. */
async function publishTemplate(admin: pg.Client, name: string, draft: string, template: string): Promise<void> {
  const [from, to] = [admin.escapeIdentifier(draft), admin.escapeIdentifier(template)];
  await admin.query(`alter database ${from} with allow_connections false`);
  try {
    await admin.query(`alter database ${from} rename to ${to}`);
  } catch (error) {
    if ((error as pg.DatabaseError).code !== '55006') throw error;
    throw new TestTemplateError(name, 'its preparation left connections open; close them before it returns.', {
      cause: error,
    });
  }
}

function currentRun(): { adminUrl: string; runId: string } {
  const variables = runVariables((globalThis as { TEST_POSTGRES_PACKAGE?: string }).TEST_POSTGRES_PACKAGE);
  const adminUrl = process.env[variables.adminUrl];
  const runId = process.env[variables.runId];
  if (!adminUrl || !runId) {
    const reason = 'is not set. Name the global setup and teardown of local-stack in the jest configuration.';
    throw new TestServerMissingError(variables.adminUrl, reason);
  }
  return { adminUrl, runId };
}

async function databaseExists(admin: pg.Client, name: string): Promise<boolean> {
  const { rowCount } = await admin.query('select 1 from pg_database where datname = $1', [name]);
  return rowCount === 1;
}

function templateDatabase(runId: string, name: string): string {
  return `cohort_test_${runId}_tpl_${slug(name)}_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}

/** 20 characters leave room for the rest within PostgreSQL's 63. */
function slug(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .slice(0, 20);
}

function urlOf(adminUrl: string, database: string): string {
  const url = new URL(adminUrl);
  url.pathname = `/${database}`;
  return url.href;
}
