import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { credentials, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Identity, openApp, openIdentity } from './support/app.js';
import { openGrpc } from './support/grpc-client.js';
import { GrpcReflection, checkHealth, watchHealth } from './support/grpc-services.js';
import { openIssuer } from './support/issuer.js';
import { until } from './support/until.js';

const RESIDENCY = {
  region: 'westeurope',
  allowedRegions: ['westeurope', 'israelcentral'],
  allowedEngines: { runs: ['azure-sql'] },
  justification: 'the contract says so',
};
const BINDING = {
  tenantId: 'acme',
  kind: 'STORE_BINDING',
  storeClass: 'runs',
  engine: 'azure-sql',
  region: 'westeurope',
};

describe('EvaluateResidency', () => {
  let identity: Identity;
  let app: Awaited<ReturnType<typeof openApp>>;
  let grpc: ReturnType<typeof openGrpc>;
  let token: string;
  beforeAll(async () => {
    identity = await openIdentity();
    app = await openApp(identity);
    grpc = openGrpc(app.grpcAddress);
    token = await identity.token('StoreProfileService');
    await app.put('/factory/data/residency', { client: 'acme-admin', body: RESIDENCY });
  });
  afterAll(async () => {
    grpc.close();
    await app.close();
    await identity.stop();
  });

  test('answers with a decision', async () => {
    const { code, message } = await grpc.evaluate(BINDING, token);
    expect(code).toBe(status.OK);
    expect(message).toEqual({
      decisionId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      allowed: true,
      reasons: [],
      ruleVersion: 1,
      evaluatedAt: { seconds: Math.floor(app.time.now().getTime() / 1000), nanos: expect.any(Number) },
      ttlSeconds: 30,
    });
  });

  test('refuses with reasons, which is an answer', async () => {
    const { code, message } = await grpc.evaluate({ ...BINDING, region: 'eastus', engine: 'mysql' }, token);
    expect([code, message.allowed]).toEqual([status.OK, false]);
    expect(message.reasons).toEqual([
      { code: 'UNKNOWN_REGION', expected: 'westeurope,israelcentral', actual: 'eastus' },
      { code: 'ENGINE_NOT_ALLOWED', expected: 'azure-sql', actual: 'mysql' },
    ]);
    const unknown = await grpc.evaluate({ ...BINDING, tenantId: 'nobody' }, token);
    expect(unknown.message).toMatchObject({ allowed: false, reasons: [{ code: 'NO_RULE' }], ruleVersion: 0 });
  });

  test('takes the tenant of the token where the request names none', async () => {
    const own = await identity.token('acme-observer');
    expect(await grpc.evaluate({ ...BINDING, tenantId: '' }, own)).toMatchObject({
      code: 0,
      message: { allowed: true },
    });
  });

  test('decides up to fifty candidates in order', async () => {
    const candidates = Array.from({ length: 50 }, (_, index) => ({
      ...BINDING,
      kind: 'CONNECTOR',
      region: index % 3 ? 'x' : 'westeurope',
    }));
    const { message } = await grpc.evaluateBatch(candidates, token);
    const results = message.results as { allowed: boolean; decisionId: string }[];
    expect(results.map(({ allowed }) => allowed)).toEqual(candidates.map((_, index) => index % 3 === 0));
    expect(new Set(results.map(({ decisionId }) => decisionId)).size).toBe(50);
    expect(await grpc.evaluateBatch([...candidates, BINDING], token)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation',
    });
    expect(await grpc.evaluateBatch([], token)).toMatchObject({ code: status.OK, message: { results: [] } });
  });

  test.each([
    ['no kind', { kind: 'CANDIDATE_KIND_UNSPECIFIED' }],
    ['a kind that is not known', { kind: 99 }],
    ['no tenant', { tenantId: '' }],
    ['a tenant that is none', { tenantId: '*' }],
    ['a tenant with blanks', { tenantId: 'a b' }],
  ])('refuses %s', async (_, change) => {
    const request = { ...BINDING, ...change };
    expect(await grpc.evaluate(request, token)).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation' });
    expect(await grpc.evaluateBatch([BINDING, request], token)).toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  test('refuses one foreign candidate of a batch, and decides none', async () => {
    const own = await identity.token('acme-admin');
    expect(await grpc.evaluateBatch([BINDING, { ...BINDING, tenantId: 'globex' }], own)).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'insufficient-scope',
    });
  });

  test('has the standard services beside it', async () => {
    expect(await checkHealth(app.grpcAddress, '')).toBe('SERVING');
    expect(await checkHealth(app.grpcAddress, 'datafoundations.retention.v1.Retention')).toBe('SERVING');
    expect(await new GrpcReflection(app.grpcAddress).services()).toContain('datafoundations.retention.v1.Retention');
  });

  test('answers an error of ours with an id, under which the log has what happened', async () => {
    const logged: unknown[][] = [];
    const silent = () => undefined;
    app.app.useLogger({ log: silent, warn: silent, error: (...said: unknown[]) => void logged.push(said) });
    const now = app.time.now.bind(app.time);
    app.time.now = () => {
      throw new Error('the clock has stopped');
    };
    try {
      const ids: string[] = [];
      const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
      const sent: Record<string, string>[] = [{}, {}, { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }];
      for (const headers of sent) {
        const answer = await grpc.evaluate(BINDING, token, headers);
        expect(answer).toMatchObject({ code: status.INTERNAL, reason: 'internal' });
        const id = /^It is in our log under ([0-9a-f]{32})\.$/.exec(answer.details)?.[1];
        expect(logged.at(-1)?.[0]).toMatchObject({ traceId: id, err: { message: 'the clock has stopped' } });
        ids.push(String(id));
      }
      expect(new Set(ids).size).toBe(3);
      expect(ids[2]).toBe(traceId);
    } finally {
      app.time.now = now;
      app.app.useLogger(false);
    }
  });

  test('refuses a message that is too large', async () => {
    const { code } = await grpc.evaluate({ ...BINDING, engine: 'x'.repeat(300_000) }, token);
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
  });
});

describe('gRPC that stops', () => {
  test('ends the call that is under way, says that it does not serve, and takes no new one', async () => {
    const issuer = await openIssuer();
    await issuer.start();
    const app = await openApp(issuer as unknown as Identity);
    const grpc = openGrpc(app.grpcAddress);
    const other = openGrpc(app.grpcAddress);
    const health = watchHealth(app.grpcAddress, 'datafoundations.retention.v1.Retention');
    const token = await issuer.sign({ scope: 'factory.data.read', roles: ['Observer'], tenantId: 'acme' });
    try {
      await until(() => health.said.at(-1) === 'SERVING');
      // Its token cannot be verified before the issuer answers.
      const held = issuer.hold();
      const underWay = grpc.evaluate(BINDING, token);
      await held.asked;
      const closing = app.close();
      await until(() => health.said.at(-1) === 'NOT_SERVING');
      await until(async () => (await other.evaluate(BINDING)).code === Number(status.UNAVAILABLE));
      held.release();
      expect(await underWay).toMatchObject({ code: status.OK, message: { reasons: [{ code: 'NO_RULE' }] } });
      health.close();
      await closing;
    } finally {
      grpc.close();
      other.close();
      await issuer.stop();
    }
  });
});

describe('TLS of gRPC', () => {
  let folder: string;
  let identity: Identity;
  const run = promisify(execFile);
  const file = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });

  beforeAll(async () => {
    identity = await openIdentity();
    folder = await mkdtemp(join(tmpdir(), 'tls-'));
    await openssl(
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      'ca.key',
      '-out',
      'ca.pem',
      '-days',
      '2',
      '-subj',
      '/CN=ca',
    );
    for (const name of ['server', 'client']) {
      await openssl(
        'req',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-keyout',
        `${name}.key`,
        '-out',
        `${name}.csr`,
        '-subj',
        `/CN=${name}`,
        '-addext',
        'subjectAltName=IP:127.0.0.1',
      );
      await openssl(
        'x509',
        '-req',
        '-in',
        `${name}.csr`,
        '-CA',
        'ca.pem',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-out',
        `${name}.pem`,
        '-days',
        '2',
        '-copy_extensions',
        'copy',
      );
    }
  });
  afterAll(async () => {
    await identity.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('is what the configuration says, with certificates of clients where a CA is named', async () => {
    const app = await openApp(identity, {
      GRPC_TLS_CERT: file('server.pem'),
      GRPC_TLS_KEY: file('server.key'),
      GRPC_TLS_CLIENT_CA: file('ca.pem'),
    });
    const token = await identity.token('StoreProfileService');
    const [ca, key, cert] = await Promise.all(
      ['ca.pem', 'client.key', 'client.pem'].map((name) => readFile(file(name))),
    );
    const clients = {
      plain: openGrpc(app.grpcAddress),
      anonymous: openGrpc(app.grpcAddress, credentials.createSsl(ca!)),
      known: openGrpc(app.grpcAddress, credentials.createSsl(ca!, key!, cert!)),
    };
    try {
      expect((await clients.known.evaluate(BINDING, token)).code).toBe(status.OK);
      expect((await clients.anonymous.evaluate(BINDING, token)).code).toBe(status.UNAVAILABLE);
      expect((await clients.plain.evaluate(BINDING, token)).code).toBe(status.UNAVAILABLE);
    } finally {
      for (const client of Object.values(clients)) client.close();
      await app.close();
    }
  });
});
