import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { type Program, findFreePort, startProgram } from 'local-stack/testing';

const RUNNING = 'Ctrl-C stops all of it.';
const README = new URL('../../../README.md', import.meta.url);
const program = (name: string) => join(import.meta.dirname, '../dist', `${name}.js`);

describe('npm start', () => {
  const started: Program[] = [];
  let folder: string;
  let ports: Record<'PORT' | 'GRPC_PORT' | 'IDENTITY_PORT', string>;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'governance-'));
    const [rest, grpc, identity] = await Promise.all([findFreePort(), findFreePort(), findFreePort()]);
    ports = { PORT: String(rest), GRPC_PORT: String(grpc), IDENTITY_PORT: String(identity) };
  });
  afterEach(async () => {
    for (const { child, ended } of started.splice(0)) {
      child.kill('SIGTERM');
      await ended;
    }
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const start = async (env: NodeJS.ProcessEnv = {}) => {
    const running = startProgram(program('main'), [], { DATA_DIR: folder, ...ports, ...env });
    started.push(running);
    await running.printed(RUNNING);
    return running;
  };
  const url = (path: string) => `http://127.0.0.1:${ports.PORT}${path}`;
  const token = async () => {
    const form = { grant_type: 'client_credentials', client_id: 'acme-admin', client_secret: 'dev-secret' };
    const answer = await fetch(`http://127.0.0.1:${ports.IDENTITY_PORT}/token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    });
    return ((await answer.json()) as { access_token: string }).access_token;
  };
  const serverRuns = () => existsSync(join(folder, 'postgres/cluster/pgdata/postmaster.pid'));

  test('serves all of it from nothing, stops in order, and goes on where it was', async () => {
    const first = await start();
    expect((await fetch(url('/health/ready'))).status).toBe(200);
    expect(await (await fetch(url('/docs'))).text()).toContain('swagger');
    const authorization = `Bearer ${await token()}`;
    const body = JSON.stringify({ retentionDays: 20, justification: 'less is enough' });
    const headers = { authorization, 'content-type': 'application/json' };
    const put = await fetch(url('/factory/data/retention/traces/public'), { method: 'PUT', headers, body });
    expect([put.status, put.headers.get('etag')]).toEqual([200, '"2"']);
    // What the README shows.
    const blocks = [...(await readFile(README, 'utf8')).matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1]!);
    const shown = blocks.find((block) => block.includes('curl'))!;
    const script = shown.replace(':3001/', `:${ports.IDENTITY_PORT}/`).replace(':3000/', `:${ports.PORT}/`);
    const { stdout: answer } = await promisify(execFile)('bash', ['-c', script]);
    expect((JSON.parse(answer) as { rules: unknown[] }).rules).toHaveLength(20);

    first.child.kill('SIGTERM');
    const { code, stdout, stderr } = await first.ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^Applied migration 0001-\S+\.\nThe governance service is running\.\n/);
    expect(serverRuns()).toBe(false);

    // What it wrote is whole.
    const verified = await startProgram(program('verify-evidence'), [], { DATA_DIR: folder }).ended;
    expect(verified).toEqual({ code: 0, stdout: '1 chains, 1 entries read: all whole.\n', stderr: '' });

    const second = await start();
    const again = await fetch(url('/factory/data/retention?storeClass=traces&classification=public'), {
      headers: { authorization: `Bearer ${await token()}` },
    });
    expect(await again.json()).toMatchObject({ rules: [{ override: { retentionDays: 20 }, version: 2 }] });
    // Killed without a word: the database goes with it, and nothing is lost.
    second.child.kill('SIGKILL');
    await second.ended;
    started.splice(0);
    await start();
    expect((await fetch(url('/health/ready'))).status).toBe(200);
  });

  // G37
  test('says at start which stored platform rules are not what the configuration says, which stay', async () => {
    const first = await start();
    first.child.kill('SIGTERM');
    await first.ended;
    const days = JSON.stringify({ runs: 400 });
    const second = await start({ DATA_EVENT_RETENTION_PLATFORM_DEFAULTS: days });
    const rules = await fetch(url('/factory/data/retention?storeClass=runs&classification=public'), {
      headers: { authorization: `Bearer ${await token()}` },
    });
    expect(await rules.json()).toMatchObject({ rules: [{ platform: { retentionDays: 365 } }] });
    second.child.kill('SIGTERM');
    const { stdout } = await second.ended;
    const said = [...stdout.matchAll(/The stored rule for \w+, \w+ is [^"]*/g)].map(([line]) => line);
    expect(said).toEqual(
      ['public', 'internal', 'confidential', 'restricted'].map(
        (each) => `The stored rule for runs, ${each} is 365 days and stays; configured are 400.`,
      ),
    );
  });

  test('names the port that is taken, in one line, and leaves nothing running', async () => {
    await start();
    const other = await mkdtemp(join(tmpdir(), 'governance-'));
    const rest = { ...ports, DATA_DIR: other, IDENTITY_PORT: String(await findFreePort()) };
    const grpcTaken = await startProgram(program('main'), [], { ...rest, PORT: String(await findFreePort()) }).ended;
    const grpcAddress = `127.0.0.1:${ports.GRPC_PORT}`;
    expect(grpcTaken.code).toBe(1);
    expect(grpcTaken.stderr).toContain(
      `error: gRPC cannot listen on ${grpcAddress}: it is taken. Free it, or name another one.\n`,
    );
    const restTaken = await startProgram(program('main'), [], { ...rest, GRPC_PORT: String(await findFreePort()) })
      .ended;
    expect(restTaken.code).toBe(1);
    expect(restTaken.stderr).toBe(
      `error: REST cannot listen on 127.0.0.1:${ports.PORT}: it is taken. Free it, or name another one.\n`,
    );
    const identityTaken = await startProgram(program('main'), [], { ...ports, DATA_DIR: other }).ended;
    expect(identityTaken.stderr).toBe(
      `error: Port ${ports.IDENTITY_PORT} on 127.0.0.1 is taken. Free it, name another port, or name none to get a free one.\n`,
    );
    await rm(other, { recursive: true, force: true });
  });

  test('starts no stand-in in production, and names everything that is missing', async () => {
    const { code, stdout, stderr } = await startProgram(program('main'), [], { NODE_ENV: 'production' }).ended;
    expect([code, stdout]).toEqual([1, '']);
    for (const name of ['DATABASE_URL', 'PLATFORM_DATABASE_URL', 'OIDC_ISSUER'])
      expect(stderr).toContain(`- ${name} is`);
  });
});

describe('npm run evidence:verify', () => {
  test('ends with 1 and names the break', async () => {
    const { openGovernance } = await import('./support/governance.js');
    const world = await openGovernance();
    const owner = new pg.Client(world.ownerUrl);
    await owner.connect();
    try {
      const entry = { kind: 'test', orderId: null, actor: 'a', payload: {} };
      await world.database.inTenant('acme', (em) => world.evidence.append(em, 'acme', [entry, entry]));
      await owner.query(`set session_replication_role = replica; delete from data_foundations.evidence where seq = 2`);
      const env = { PLATFORM_DATABASE_URL: world.urls.platform };
      expect(await startProgram(program('verify-evidence'), [], env).ended).toEqual({
        code: 1,
        stdout: 'BROKEN acme, entry 1: the head knows 2 as the last entry.\n1 chains, 1 entries read: 1 broken.\n',
        stderr: '',
      });
    } finally {
      await owner.end();
      await world.close();
    }
  });
});
