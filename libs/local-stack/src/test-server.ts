import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { startEmbeddedPostgres } from './embedded-postgres.js';
import { TestServerMissingError } from './local-stack.errors.js';
import { findPostgresBinaries } from './postgres-binaries.js';

/**
 * Environment variables by which the global setup tells jest's workers about the server and the run. A project of jest
 * whose globals name a TEST_POSTGRES_PACKAGE has a server, and variables, of its own.
 */
export function runVariables(packageName: string | undefined): { adminUrl: string; runId: string } {
  const suffix = packageName === undefined ? '' : `_${packageName.toUpperCase().replace(/\W/g, '_')}`;
  return { adminUrl: `COHORT_TEST_ADMIN_URL${suffix}`, runId: `COHORT_TEST_RUN${suffix}` };
}

/** What every test server runs with; a server given by TEST_DATABASE_URL keeps its own. */
const TEST_SETTINGS = { timezone: 'UTC', max_connections: 200, max_prepared_transactions: 5, log_statement: 'none' };
const CONTAINER_SETTINGS = { ...TEST_SETTINGS, fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' };
const CONTAINER_START_TIMEOUT_MS = 120_000;

/** The server of one test run. */
export interface TestServer {
  adminUrl: string;
  runId: string;
  /** Drops the run's databases, and stops the server when this run started it. */
  stop(): Promise<void>;
}

/**
 * Starts the server of a test run: TEST_DATABASE_URL names one that runs already, TEST_POSTGRES=container starts the
 * image POSTGRES_IMAGE (default postgres:17), else an embedded one starts (TEST_POSTGRES_PACKAGE: the npm package, or alias,
 * of its binaries). Throws TestServerMissingError and what the start throws.
 */
export async function startTestServer(env: NodeJS.ProcessEnv = process.env): Promise<TestServer> {
  const runId = randomBytes(4).toString('hex');
  if (env.TEST_DATABASE_URL) return joinServer(env.TEST_DATABASE_URL, runId);
  if (env.TEST_POSTGRES === 'container') return startContainer(env.POSTGRES_IMAGE ?? 'postgres:17', runId);
  if (env.TEST_POSTGRES && env.TEST_POSTGRES !== 'embedded') {
    throw new TestServerMissingError(
      'TEST_POSTGRES',
      `is "${env.TEST_POSTGRES}"; it may be "embedded" or "container".`,
    );
  }
  const binaries = findPostgresBinaries({ packageName: env.TEST_POSTGRES_PACKAGE });
  const { url, stop } = await startEmbeddedPostgres({ binaries, serverSettings: TEST_SETTINGS });
  return { adminUrl: url, runId, stop };
}

/** Other runs may use this server at the same time: only databases of this run, and of dead ones, are dropped. */
async function joinServer(adminUrl: string, runId: string): Promise<TestServer> {
  const mark = await markRun(adminUrl, runId);
  const stop = async (): Promise<void> => {
    await mark.query('select pg_advisory_unlock($1)', [lockKey(runId)]).finally(() => mark.end());
    await withClient(adminUrl, dropDatabasesOfDeadRuns);
  };
  return { adminUrl, runId, stop };
}

async function startContainer(image: string, runId: string): Promise<TestServer> {
  const { GenericContainer } = await import('testcontainers');
  const password = randomBytes(18).toString('base64url');
  const settings = Object.entries(CONTAINER_SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const container = await new GenericContainer(image)
    .withEnvironment({ POSTGRES_PASSWORD: password })
    .withExposedPorts(5432)
    .withCommand(['postgres', ...settings])
    .start();
  const stop = async (): Promise<void> => void (await container.stop());
  const adminUrl = `postgres://postgres:${password}@${container.getHost()}:${container.getMappedPort(5432)}/postgres`;
  try {
    await waitUntilConnectable(adminUrl);
    return { adminUrl, runId, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The port of a container listens before the server in it does. */
async function waitUntilConnectable(url: string): Promise<void> {
  const giveUpAt = Date.now() + CONTAINER_START_TIMEOUT_MS;
  for (;;) {
    try {
      return await withClient(url, async () => undefined);
    } catch (error) {
      if (Date.now() > giveUpAt) throw error;
      await delay(100);
    }
  }
}

/** A run holds an advisory lock on a session of its own: who can take the lock knows that the run is over, or was killed. */
async function markRun(adminUrl: string, runId: string): Promise<pg.Client> {
  const client = new pg.Client(adminUrl);
  // The session may break when the server goes first; the lock is gone with it, and nothing else is lost.
  client.on('error', () => undefined);
  await client.connect();
  await client.query('select pg_advisory_lock($1)', [lockKey(runId)]);
  return client;
}

async function dropDatabasesOfDeadRuns(admin: pg.Client): Promise<void> {
  const { rows } = await admin.query<{ datname: string }>(
    `select datname from pg_database where datname ~ '^cohort_test_[0-9a-f]{8}_'`,
  );
  const failures: unknown[] = [];
  for (const [runId, names] of groupByRun(rows.map((row) => row.datname))) {
    const { rows: locks } = await admin.query<{ free: boolean }>('select pg_try_advisory_lock($1) as free', [
      lockKey(runId),
    ]);
    if (!locks[0]?.free) continue;
    for (const name of names) await dropDatabase(admin, name).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw new AggregateError(failures, 'Some test databases could not be dropped');
}

/** Ends the connections that are left. */
export async function dropDatabase(admin: pg.Client, name: string): Promise<void> {
  await admin.query(`drop database if exists ${admin.escapeIdentifier(name)} with (force)`);
}

function groupByRun(names: string[]): Map<string, string[]> {
  const byRun = new Map<string, string[]>();
  for (const name of names) {
    const runId = name.slice('cohort_test_'.length, 'cohort_test_'.length + 8);
    byRun.set(runId, [...(byRun.get(runId) ?? []), name]);
  }
  return byRun;
}

/** Key of an advisory lock on the admin database: 63 bits, so that names do not meet by chance. */
export function lockKey(text: string): string {
  return (createHash('sha256').update(text).digest().readBigUInt64BE() >> 1n).toString();
}

export async function withClient<T>(url: string, body: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}
