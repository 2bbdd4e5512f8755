import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { startEmbeddedPostgres } from 'local-stack';
import { startTestServer, type TestServer } from 'local-stack/testing';
import { getContainerRuntimeClient } from 'testcontainers';
import { query } from './support/query.js';

const cleanups: (() => Promise<void>)[] = [];

jest.setTimeout(30_000);

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(env: NodeJS.ProcessEnv): Promise<TestServer> {
  const server = await startTestServer(env);
  cleanups.push(() => server.stop());
  return server;
}

async function databases(url: string): Promise<string[]> {
  const rows = await query<{ datname: string }>(
    url,
    'select datname from pg_database where not datistemplate order by 1',
  );
  return rows.map(({ datname }) => datname);
}

const settings = `
  select current_setting('timezone') as zone, current_setting('max_connections')::int as connections,
         current_setting('max_prepared_transactions')::int as prepared, current_setting('log_statement') as logged`;
const testSettings = { zone: 'UTC', connections: 200, prepared: 5, logged: 'none' };

test('the server of a run is an embedded one', async () => {
  const { adminUrl } = await start({});
  expect(await query(adminUrl, settings)).toEqual([testSettings]);
});

test('an unknown kind of server is refused', async () => {
  await expect(startTestServer({ TEST_POSTGRES: 'docker' })).rejects.toMatchObject({
    code: 'LOCAL_STACK_TEST_SERVER_MISSING',
    variable: 'TEST_POSTGRES',
  });
});

describe('TEST_DATABASE_URL', () => {
  async function existingServer(): Promise<string> {
    const { url, stop } = await startEmbeddedPostgres();
    cleanups.push(stop);
    return url;
  }

  test('replaces it, and the databases of the run are gone at its end', async () => {
    const url = await existingServer();
    const run = await startTestServer({ TEST_DATABASE_URL: url });
    expect(run.adminUrl).toBe(url);
    const left = `cohort_test_${run.runId}_left`;
    const closed = `cohort_test_${run.runId}_tpl_closed`;
    await query(url, `create database ${left}`);
    await query(url, `create database ${closed} allow_connections false`);
    await query(url, 'create database of_somebody_else');
    await run.stop();
    expect(await databases(url)).toEqual(['of_somebody_else', 'postgres']);
  });

  test('may be shared: a run keeps the databases of a live run and drops those of a dead one', async () => {
    const url = await existingServer();
    const [run, live] = [await startTestServer({ TEST_DATABASE_URL: url }), await start({ TEST_DATABASE_URL: url })];
    await query(url, `create database cohort_test_${live.runId}_mine`);
    await query(url, 'create database cohort_test_0badcafe_left');
    await run.stop();
    expect(await databases(url)).toEqual([`cohort_test_${live.runId}_mine`, 'postgres']);
  });
});

const hasDocker = await getContainerRuntimeClient().then(
  () => true,
  () => false,
);

(hasDocker ? test : test.skip)(
  'TEST_POSTGRES=container starts the image instead (needs Docker)',
  async () => {
    const { adminUrl } = await start({ TEST_POSTGRES: 'container', POSTGRES_IMAGE: process.env.POSTGRES_IMAGE });
    expect(await query(adminUrl, settings)).toEqual([testSettings]);
  },
  180_000,
);
