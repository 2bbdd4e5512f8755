import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { createTestDatabase, ensureTemplate, startTestServer, type TestServer } from 'local-stack/testing';
import pg from 'pg';
import { end, endAllPrograms, runProgram } from './support/child-program.js';
import { query } from './support/query.js';

jest.setTimeout(30_000);

const VARIABLES = ['COHORT_TEST_ADMIN_URL', 'COHORT_TEST_RUN'] as const;
const given = VARIABLES.map((name) => process.env[name]);
let server: TestServer;

/** A server of this file's own: these tests must not depend on the one that they are about. */
beforeAll(async () => {
  server = await startTestServer({});
  process.env.COHORT_TEST_ADMIN_URL = server.adminUrl;
  process.env.COHORT_TEST_RUN = server.runId;
});

afterEach(endAllPrograms);

afterAll(async () => {
  VARIABLES.forEach((name, index) => {
    if (given[index] === undefined) delete process.env[name];
    else process.env[name] = given[index];
  });
  await server.stop();
});

async function prepareOneRow(url: string): Promise<void> {
  await query(url, 'create table prepared as select 1 as one');
}

/** Resolves when the server has ended the connection. */
function endOf(client: pg.Client): Promise<void> {
  client.on('error', () => undefined);
  return new Promise((resolve) => client.once('end', resolve));
}

describe('a template', () => {
  test('is built once, when several callers of one process ask at the same time', async () => {
    let builds = 0;
    const prepare = async (url: string): Promise<void> => {
      builds++;
      await prepareOneRow(url);
    };
    await Promise.all([1, 2, 3].map(() => ensureTemplate('here', prepare)));
    await ensureTemplate('here', prepare);
    expect(builds).toBe(1);
  });

  test('is built once, when several processes ask at the same time', async () => {
    const askers = [1, 2, 3].map(() => runProgram('ensure-template.mjs', ['elsewhere']).next<{ isBuilder: boolean }>());
    const builders = (await Promise.all(askers)).filter(({ isBuilder }) => isBuilder);
    expect(builders).toHaveLength(1);
  });

  test('is built by the next when its builder is killed', async () => {
    const { child, next } = runProgram('ensure-template.mjs', ['abandoned', 'hang']);
    expect(await next<string>()).toBe('preparing');
    const second = ensureTemplate('abandoned', prepareOneRow);
    await end(child, 'SIGKILL');
    await second;
    const { url } = await createTestDatabase({ template: 'abandoned' });
    expect(await query(url, 'select one from prepared')).toEqual([{ one: 1 }]);
  });

  test('is built by the next when its preparation fails', async () => {
    const failure = new Error('no migrations');
    await expect(ensureTemplate('failing', () => Promise.reject(failure))).rejects.toBe(failure);
    await expect(createTestDatabase({ template: 'failing' })).rejects.toMatchObject({
      code: 'LOCAL_STACK_TEST_TEMPLATE',
    });
    await ensureTemplate('failing', prepareOneRow);
    await createTestDatabase({ template: 'failing' });
  });

  test('is refused when its preparation leaves a connection open', async () => {
    let left: Promise<unknown> | undefined;
    const leave = async (url: string): Promise<void> => {
      const client = new pg.Client(url);
      left = endOf(client);
      await client.connect();
    };
    await expect(ensureTemplate('left open', leave)).rejects.toMatchObject({
      code: 'LOCAL_STACK_TEST_TEMPLATE',
      template: 'left open',
      message: expect.stringContaining('left connections open'),
    });
    await left;
  });
});

describe('a test database', () => {
  test('has what its template has, and shares nothing with another', async () => {
    await ensureTemplate('shared', prepareOneRow);
    const [first, second] = await Promise.all([
      createTestDatabase({ template: 'shared' }),
      createTestDatabase({ template: 'shared' }),
    ]);
    await query(first.url, 'update prepared set one = 2');
    expect(await query(first.url, 'select one from prepared')).toEqual([{ one: 2 }]);
    expect(await query(second.url, 'select one from prepared')).toEqual([{ one: 1 }]);
  });

  test('is empty without a template', async () => {
    const { url } = await createTestDatabase();
    expect(await query(url, `select 1 from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([]);
  });

  test('has a name of its own that no character of the given one spoils', async () => {
    const name = `Orders"; drop database postgres; -- ${'x'.repeat(100)}`;
    const databases = await Promise.all([createTestDatabase({ name }), createTestDatabase({ name })]);
    for (const { name, url } of databases) {
      expect(name).toMatch(/^cohort_test_[0-9a-f]{8}_orders_drop_database_[0-9a-f]{8}$/);
      expect(await query(url, 'select current_database() as name')).toEqual([{ name }]);
    }
    expect(databases[0]!.name).not.toBe(databases[1]!.name);
  });

  test('goes by drop, with the connections that are left, and again', async () => {
    const database = await createTestDatabase();
    const client = new pg.Client(database.url);
    const broken = endOf(client);
    await client.connect();
    await database.drop();
    await database.drop();
    await broken;
    expect(await query(server.adminUrl, `select 1 from pg_database where datname = '${database.name}'`)).toEqual([]);
  });

  test('needs the server of a run', async () => {
    delete process.env.COHORT_TEST_ADMIN_URL;
    try {
      await expect(createTestDatabase()).rejects.toMatchObject({ code: 'LOCAL_STACK_TEST_SERVER_MISSING' });
    } finally {
      process.env.COHORT_TEST_ADMIN_URL = server.adminUrl;
    }
  });
});
