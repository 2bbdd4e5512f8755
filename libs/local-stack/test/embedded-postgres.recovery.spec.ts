import { afterAll, afterEach, describe, expect, jest, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPostgresBinaries, startEmbeddedPostgres, type EmbeddedPostgres } from 'local-stack';
import pg from 'pg';
import { findFreePort } from '../src/free-port.js';
import { end, endAllPrograms, isRunning, killWithChildren, serve, until } from './support/child-program.js';
import { openFolder } from './support/folder.js';
import { query } from './support/query.js';

const cleanups: (() => Promise<void> | void)[] = [];
/** What these tests look at, or do, is in /proc. */
const linuxTest = process.platform === 'linux' ? test : test.skip;
const NO_PROCESS = 2 ** 30;

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

async function start(dataDir: string): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir });
  cleanups.push(() => server.stop());
  return server;
}

let prototype: string | undefined;

afterAll(() => rmSync(prototype ?? '', { recursive: true, force: true }));

/** A folder with one row in it, and no server. */
async function folderWithRow(): Promise<string> {
  prototype ??= await makePrototype();
  const dataDir = newFolder();
  // With owners, which copies made by Node lose.
  execFileSync('cp', ['-a', `${prototype}/.`, dataDir]);
  return dataDir;
}

async function makePrototype(): Promise<string> {
  const dataDir = openFolder();
  const server = await startEmbeddedPostgres({ dataDir });
  await query(server.url, 'create table kept as select 42 as answer');
  await server.stop();
  return dataDir;
}

async function expectRow(server: EmbeddedPostgres): Promise<void> {
  expect(await query(server.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
}

describe('a start on a folder left behind', () => {
  test('by kill -9 of the server recovers the data', async () => {
    const dataDir = newFolder();
    const killed = await start(dataDir);
    await query(killed.url, 'create table kept as select 42 as answer');
    process.kill(killed.pid, 'SIGKILL');
    await expectRow(await start(dataDir));
    await killed.stop();
  });

  linuxTest('by kill -9 of the server ends a backend that is still busy', async () => {
    const dataDir = await folderWithRow();
    const killed = await start(dataDir);
    const client = new pg.Client(killed.url);
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    // Never waits, hence never notices that the server is gone.
    const busy = client.query(`do $$ begin loop perform 1; end loop; end $$`).catch((error: Error) => error);
    const backend = rows[0]!.pid;
    await until(() => isConsuming(backend));
    process.kill(killed.pid, 'SIGKILL');
    await expectRow(await start(dataDir));
    expect(isRunning(backend)).toBe(false);
    expect(await busy).toBeInstanceOf(Error);
    await client.end();
  });

  linuxTest('by kill -9 of everything recovers the data', async () => {
    const dataDir = newFolder();
    const { child, next } = serve({ dataDir });
    const { url } = await next();
    await query(url, 'create table kept as select 42 as answer');
    await killWithChildren(child);
    await expectRow(await start(dataDir));
  });

  test('by kill -9 of the process that started the server works at once', async () => {
    const dataDir = await folderWithRow();
    const { child, next } = serve({ dataDir });
    const orphan = await next();
    await end(child, 'SIGKILL');
    await expectRow(await start(dataDir));
    expect(isRunning(orphan.pid)).toBe(false);
  });

  linuxTest('with a server that outlived its process stops that server', async () => {
    const dataDir = await folderWithRow();
    const { child, next } = serve({ dataDir });
    const orphan = await next();
    await killWithChildren(child, [orphan.pid]);
    expect(isRunning(orphan.pid)).toBe(true);
    await expectRow(await start(dataDir));
    expect(isRunning(orphan.pid)).toBe(false);
  });

  test.each([
    ['nobody', () => NO_PROCESS],
    ['a process of another account', () => process.pid],
    ['a process of the same account', (account: Account) => startStranger(account)],
  ])('with a lock file that names %s works', async (_, strangerPid) => {
    const dataDir = await folderWithRow();
    const lock = join(dataDir, 'cluster', 'pgdata', 'postmaster.pid');
    const { uid, gid } = statSync(join(dataDir, 'cluster'));
    writeFileSync(
      lock,
      `${strangerPid({ uid, gid })}\n${join(dataDir, 'cluster', 'pgdata')}\n1\n1\n\n127.0.0.1\n\nready   \n`,
      { mode: 0o600 },
    );
    chownSync(lock, uid, gid);
    await expectRow(await start(dataDir));
  });

  linuxTest('by kill -9 of everything during initdb works', async () => {
    const dataDir = newFolder();
    const { child } = serve({ dataDir, binaries: { ...findPostgresBinaries(), initdb: halfWayInitdb() } });
    await until(() => stagedFolders(dataDir).some((name) => existsSync(join(dataDir, name, 'pgdata', 'PG_VERSION'))));
    await killWithChildren(child);
    expect(stagedFolders(dataDir)).toHaveLength(1);
    const server = await start(dataDir);
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(stagedFolders(dataDir)).toEqual([]);
  });

  test('by a failed initdb works, and the failure tells what initdb wrote', async () => {
    const dataDir = newFolder();
    const binaries = { ...findPostgresBinaries(), initdb: script('echo no room >&2; exit 1') };
    await expect(startEmbeddedPostgres({ dataDir, binaries })).rejects.toMatchObject({
      code: 'LOCAL_STACK_START_FAILED',
      dataDir,
      message: expect.stringContaining('no room'),
    });
    await start(dataDir);
  });
});

describe('two starts on one folder', () => {
  test('in one process: the second is refused with folder, server and owner', async () => {
    const dataDir = await folderWithRow();
    const first = await start(dataDir);
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      code: 'LOCAL_STACK_FOLDER_IN_USE',
      dataDir,
      pid: first.pid,
      ownerPid: process.pid,
      message: expect.stringMatching(new RegExp(`${dataDir}.*${first.pid}.*${process.pid}.*another data folder`)),
    });
    await expectRow(first);
  });

  test('in two processes: the second is refused with folder, server and owner', async () => {
    const dataDir = await folderWithRow();
    const { child, next } = serve({ dataDir });
    const first = await next();
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      code: 'LOCAL_STACK_FOLDER_IN_USE',
      pid: first.pid,
      ownerPid: child.pid,
    });
    await end(child, 'SIGTERM');
  });

  test.each([
    ['new', () => newFolder()],
    ['used', () => folderWithRow()],
  ])('at the same moment, on a %s folder: one serves, the others are refused', async (_, folder) => {
    const dataDir = await folder();
    const inOtherProcesses = [1, 2].map(() => serve({ dataDir }).next());
    const here = [1, 2].map(() =>
      start(dataDir).catch((error: { code: string; message: string }) => ({
        code: error.code,
        message: error.message,
      })),
    );
    const outcomes = await Promise.all([...inOtherProcesses, ...here]);
    const servers = outcomes.flatMap((outcome) => ('url' in outcome ? [outcome] : []));
    expect(servers).toHaveLength(1);
    const codes = outcomes.flatMap((outcome) => ('code' in outcome ? [outcome.code] : []));
    expect(codes).toEqual(Array(3).fill('LOCAL_STACK_FOLDER_IN_USE'));
    expect(await query(servers[0]!.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(stagedFolders(dataDir)).toEqual([]);
  });

  test('a server that somebody started by hand is left alone', async () => {
    const dataDir = await folderWithRow();
    const pgdata = join(dataDir, 'cluster', 'pgdata');
    const { uid, gid } = statSync(pgdata);
    const args = ['-D', pgdata, '-p', String(await findFreePort()), '-c', 'unix_socket_directories='];
    const byHand = spawn(findPostgresBinaries().postgres, args, { uid, gid, cwd: '/', stdio: 'ignore' });
    cleanups.push(() => end(byHand, 'SIGINT'));
    await until(
      () =>
        existsSync(join(pgdata, 'postmaster.pid')) &&
        /ready/.test(readFileSync(join(pgdata, 'postmaster.pid'), 'utf8')),
    );
    const refusal = startEmbeddedPostgres({ dataDir });
    await expect(refusal).rejects.toMatchObject({
      code: 'LOCAL_STACK_FOLDER_IN_USE',
      pid: byHand.pid,
      ownerPid: undefined,
    });
    await expect(refusal).rejects.toThrow(`kill -INT ${byHand.pid}`);
  });
});

function stagedFolders(dataDir: string): string[] {
  return readdirSync(dataDir).filter((name) => name.startsWith('.new-'));
}

interface Account {
  uid: number;
  gid: number;
}

function startStranger(account: Account): number {
  const stranger = spawn('cat', { ...account, stdio: ['pipe', 'ignore', 'ignore'] });
  cleanups.push(() => end(stranger, 'SIGKILL'));
  return stranger.pid!;
}

function script(body: string): string {
  const path = join(newFolder(), 'initdb.sh');
  writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return path;
}

function halfWayInitdb(): string {
  return script('mkdir -p pgdata && echo 18 > pgdata/PG_VERSION && exec cat /dev/zero > /dev/null');
}

function isConsuming(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') R ');
}
