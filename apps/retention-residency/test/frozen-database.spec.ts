import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { findFreePort, startProgram } from 'local-stack/testing';
import { Database } from '../src/platform/database.js';
import { runSql } from '../src/platform/sql.js';
import { type Identity, openIdentity, startApp } from './support/app.js';
import { openFreezableServer } from './support/frozen-server.js';

const MAIN = join(import.meta.dirname, '../dist/main.js');

describe('while the database is frozen', () => {
  let server: Awaited<ReturnType<typeof openFreezableServer>>;
  let identity: Identity;
  beforeAll(async () => {
    [server, identity] = await Promise.all([openFreezableServer(), openIdentity()]);
  });
  afterEach(() => server.thaw());
  afterAll(async () => {
    await server.stop();
    await identity.stop();
  });

  test('readiness says so within three seconds, requests are refused, and both work again afterwards', async () => {
    // One connection: if a request kept it, nobody would be served any more.
    const app = await startApp(identity, server, { DATABASE_POOL: '1' });
    try {
      const read = () => app.get('/factory/data/retention', { client: 'acme-admin' });
      expect((await read()).status).toBe(200);
      await server.freeze();
      const asked = performance.now();
      const reading = read();
      expect(await app.get('/health/ready')).toMatchObject({
        status: 503,
        body: { checks: { database: 'unavailable' } },
      });
      expect(performance.now() - asked).toBeLessThan(3000);
      expect(await reading).toMatchObject({ status: 503, body: { code: 'dependency-unavailable' } });
      server.thaw();
      expect((await read()).status).toBe(200);
      expect((await app.get('/health/ready')).status).toBe(200);
    } finally {
      server.thaw();
      await app.close();
    }
  });

  test('a transaction fails, and no other one gets its connection, or what the server still answers on it', async () => {
    const database = await Database.open({ urls: server.urls, pool: 1 });
    const ask = (answer: string) =>
      database.inTenant('acme', (em) =>
        runSql<{ answer: string; pid: number }>(em, 'select $1 as answer, pg_backend_pid() as pid', [answer]),
      );
    try {
      const [first] = await ask('first');
      const frozen = database.inTenant('acme', async (em) => {
        await server.freeze();
        await runSql(em, `select 'late' as answer`);
      });
      await expect(frozen).rejects.toThrow(/did not answer/);
      server.thaw();
      const [next] = await ask('next');
      expect(next).toMatchObject({ answer: 'next' });
      expect(next?.pid).not.toBe(first?.pid);
    } finally {
      server.thaw();
      await database.onApplicationShutdown();
    }
  });

  test('SIGTERM ends the service', async () => {
    const [port, grpcPort] = await Promise.all([findFreePort(), findFreePort()]);
    const running = startProgram(MAIN, [], {
      NODE_ENV: 'production',
      DATABASE_URL: server.urls.app,
      PLATFORM_DATABASE_URL: server.urls.platform,
      OIDC_ISSUER: identity.issuer,
      PORT: String(port),
      GRPC_PORT: String(grpcPort),
      LOG_LEVEL: 'silent',
    });
    await running.printed('The governance service is running.');
    // Both pools have connections that nobody uses at the moment.
    expect((await fetch(`http://127.0.0.1:${port}/health/ready`)).status).toBe(200);
    await server.freeze();
    running.child.kill('SIGTERM');
    const killing = setTimeout(() => running.child.kill('SIGKILL'), 25_000);
    expect(await running.ended).toEqual({ code: 0, stdout: expect.any(String), stderr: '' });
    clearTimeout(killing);
  });
});
