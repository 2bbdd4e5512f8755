import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { status } from '@grpc/grpc-js';
import { type JWK, UnsecuredJWT } from 'jose';
import { type Identity, openApp, openIdentity } from './support/app.js';
import { openProxy } from './support/cut-proxy.js';
import { openGrpc } from './support/grpc-client.js';
import { openIssuer } from './support/issuer.js';

const RESIDENCY = {
  region: 'westeurope',
  allowedRegions: ['westeurope'],
  allowedEngines: { runs: ['azure-sql'] },
  justification: 'as agreed',
};
const CANDIDATE = { kind: 'store-binding', storeClass: 'runs', engine: 'azure-sql', region: 'westeurope' };
const RULE = { retentionDays: 300, justification: 'as agreed' };
const EXEMPT = { ...RULE, legalHoldExempt: true };
const PLATFORM_RULE = { ...RULE, scope: 'platform' };

/** Each call, and whether a body comes with it. */
const CALLS = {
  'GET retention': ['GET', '/factory/data/retention'],
  'GET explain': ['GET', '/factory/data/retention/explain?storeClass=runs'],
  'PUT retention': ['PUT', '/factory/data/retention/runs/public', RULE],
  'PUT exempt': ['PUT', '/factory/data/retention/runs/internal', EXEMPT],
  'PUT platform': ['PUT', '/factory/data/retention/runs/restricted', PLATFORM_RULE],
  'GET residency': ['GET', '/factory/data/residency'],
  'PUT residency': ['PUT', '/factory/data/residency', RESIDENCY],
  'POST evaluate': ['POST', '/factory/data/residency/evaluate', CANDIDATE],
  'GET bindings': ['GET', '/factory/data/residency/bindings'],
} as const;
type Call = keyof typeof CALLS;

const ALL = 200;
/** 400: may name any tenant, and named none. */
const NONE_NAMED = 400;

/** Every client, without and with X-Tenant-Id: the statuses in the order of CALLS, and of gRPC for the tenant `acme`. */
const MATRIX: readonly (readonly [string | undefined, string | undefined, readonly number[], status])[] = [
  [undefined, undefined, [401, 401, 401, 401, 401, 401, 401, 401, 401], status.UNAUTHENTICATED],
  ['acme-admin', undefined, [ALL, ALL, ALL, 403, 403, ALL, ALL, ALL, ALL], status.OK],
  ['acme-admin', 'acme', [ALL, ALL, ALL, 403, 403, ALL, ALL, ALL, ALL], status.OK],
  ['acme-admin', 'globex', [403, 403, 403, 403, 403, 403, 403, 403, 403], status.PERMISSION_DENIED],
  ['globex-admin', undefined, [ALL, ALL, ALL, 403, 403, ALL, ALL, ALL, ALL], status.PERMISSION_DENIED],
  ['acme-observer', undefined, [ALL, ALL, 403, 403, 403, ALL, 403, ALL, ALL], status.OK],
  ['acme-observer', 'globex', [403, 403, 403, 403, 403, 403, 403, 403, 403], status.PERMISSION_DENIED],
  [
    'platform-admin',
    undefined,
    [ALL, ALL, NONE_NAMED, NONE_NAMED, ALL, NONE_NAMED, NONE_NAMED, NONE_NAMED, NONE_NAMED],
    status.OK,
  ],
  ['platform-admin', 'acme', [ALL, ALL, ALL, ALL, 422, ALL, ALL, ALL, ALL], status.OK],
  ['operator', undefined, [ALL, ALL, 403, 403, 403, NONE_NAMED, 403, NONE_NAMED, NONE_NAMED], status.OK],
  ['operator', 'acme', [ALL, ALL, 403, 403, 403, ALL, 403, ALL, ALL], status.OK],
  ...['StoreProfileService', 'ModelRouterService', 'StudioBff', 'KnowledgeHost', 'GovernanceHost'].flatMap(
    (client) =>
      [
        [client, undefined, [ALL, ALL, 403, 403, 403, NONE_NAMED, 403, NONE_NAMED, 403], status.OK],
        [client, 'acme', [ALL, ALL, 403, 403, 403, ALL, 403, ALL, 403], status.OK],
      ] as const,
  ),
];

describe('access', () => {
  let identity: Identity;
  let app: Awaited<ReturnType<typeof openApp>>;
  let grpc: ReturnType<typeof openGrpc>;
  beforeAll(async () => {
    identity = await openIdentity();
    app = await openApp(identity);
    grpc = openGrpc(app.grpcAddress);
    for (const client of ['acme-admin', 'globex-admin']) {
      expect(await app.put('/factory/data/residency', { client, body: RESIDENCY })).toMatchObject({ status: 200 });
    }
  });
  afterAll(async () => {
    grpc.close();
    await app.close();
    await identity.stop();
  });

  const send = (call: Call, client: string | undefined, tenant: string | undefined) => {
    const [method, path, body] = CALLS[call];
    return app.call(method, path, { ...(client && { client }), ...(tenant && { tenant }), ...(body && { body }) });
  };

  test.each(MATRIX)('of %s for %s is %j on REST', async (client, tenant, expected) => {
    const calls = Object.keys(CALLS) as Call[];
    const answered: number[] = [];
    for (const call of calls) {
      const { status: got, body } = await send(call, client, tenant);
      answered.push(got);
      if (got === 403) expect(body.code).toBe('insufficient-scope');
      if (got === 401) expect(body.code).toBe('unauthorized');
    }
    expect(Object.fromEntries(calls.map((call, index) => [call, answered[index]]))).toEqual(
      Object.fromEntries(calls.map((call, index) => [call, expected[index]])),
    );
  });

  test.each(MATRIX)('of %s for %s on gRPC', async (client, tenant, _, expected) => {
    const token = client && (await identity.token(client));
    const request = {
      kind: 'STORE_BINDING',
      storeClass: 'runs',
      engine: 'azure-sql',
      region: 'westeurope',
      tenantId: 'acme',
    };
    const headers: Record<string, string> = tenant ? { 'x-tenant-id': tenant } : {};
    expect(await grpc.evaluate(request, token, headers)).toMatchObject({ code: expected });
    const isOther = client && /^(globex-admin|acme-.*)$/.test(client);
    if (!isOther || tenant) return;
    const other = client.startsWith('acme') ? 'globex' : 'initech';
    expect(await grpc.evaluate({ ...request, tenantId: other }, token)).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'insufficient-scope',
    });
  });

  test.each(['factory.data.read', 'factory.data.admin', 'factory.data.acknowledge', ''])(
    'of a token with the scope %j alone reaches what needs that scope',
    async (scope) => {
      const issuer = await openIssuer();
      await issuer.start();
      const other = await openApp(issuer as unknown as Identity);
      try {
        const token = await issuer.sign({ scope, roles: ['PlatformAdmin'] });
        const reached: string[] = [];
        for (const [call, [method, path, body]] of Object.entries(CALLS)) {
          const { status: got } = await other.call(method, path, { token, tenant: 'acme', ...(body && { body }) });
          if (got !== 403) reached.push(call);
        }
        const wanted = {
          'factory.data.read': ['GET retention', 'GET explain', 'GET residency', 'POST evaluate', 'GET bindings'],
          'factory.data.admin': ['PUT retention', 'PUT exempt', 'PUT platform', 'PUT residency'],
        };
        expect(reached).toEqual(wanted[scope as keyof typeof wanted] ?? []);
      } finally {
        await other.close();
        await issuer.stop();
      }
    },
  );
});

describe('an access token', () => {
  let issuer: Awaited<ReturnType<typeof openIssuer>>;
  let app: Awaited<ReturnType<typeof openApp>>;
  let grpc: ReturnType<typeof openGrpc>;
  const OBSERVER = { scope: 'factory.data.read', roles: ['Observer'], tenantId: 'acme' };
  const now = () => Math.floor(app.time.now().getTime() / 1000);

  beforeAll(async () => {
    issuer = await openIssuer();
    await issuer.start();
    app = await openApp(issuer as unknown as Identity);
    grpc = openGrpc(app.grpcAddress);
  });
  afterAll(async () => {
    grpc.close();
    await app.close();
    await issuer.stop();
  });

  const statusOf = async (token: string) => {
    const rest = await app.get('/factory/data/retention', { token });
    const onGrpc = await grpc.evaluate({ kind: 'CONNECTOR', region: 'westeurope', tenantId: 'acme' }, token);
    expect(onGrpc.code).toBe(
      { 200: status.OK, 401: status.UNAUTHENTICATED, 403: status.PERMISSION_DENIED }[rest.status],
    );
    if (rest.status === 401) expect(rest.headers.get('www-authenticate')).toBe('Bearer');
    return rest.status;
  };

  test.each<[string, Record<string, unknown>, Record<string, unknown>, number]>([
    ['as it should be', {}, {}, 200],
    ['of the general type', {}, { typ: 'application/at+jwt' }, 200],
    ['that is an id token', {}, { typ: 'JWT' }, 401],
    ['for another audience', { aud: 'billing' }, {}, 401],
    ['of another issuer', { iss: 'https://elsewhere.example' }, {}, 401],
    ['without an expiry', { exp: undefined }, {}, 401],
    ['without a client', { client_id: undefined }, {}, 401],
    ['with a tenant that is none', { tenantId: '*' }, {}, 401],
    ['with an empty tenant', { tenantId: '' }, {}, 401],
    ['with a role that nobody knows', { roles: ['Root'], tenantId: undefined }, {}, 403],
    ['with a role but no tenant', { tenantId: undefined }, {}, 403],
    ['with a tenant but no role', { roles: undefined }, {}, 403],
    ['with a key id that nobody has', {}, { kid: 'nobody' }, 401],
  ])('%s is answered', async (_, claims, header, expected) => {
    expect(await statusOf(await issuer.sign({ ...OBSERVER, ...claims }, header))).toBe(expected);
  });

  test('with two roles may for each tenant what one of them may there, and not what both may somewhere', async () => {
    const token = await issuer.sign({
      scope: 'factory.data.read factory.data.admin',
      roles: ['Operator', 'WorkspaceAdmin'],
      tenantId: 'acme',
    });
    const statuses = async (tenant: string) => {
      const read = await app.get('/factory/data/retention', { token, tenant });
      const change = await app.put('/factory/data/retention/runs/public', { token, tenant, body: RULE });
      return [read.status, change.status];
    };
    expect(await statuses('acme')).toEqual([200, 200]);
    expect(await statuses('globex')).toEqual([200, 403]);
    const request = { kind: 'CONNECTOR', region: 'westeurope', tenantId: 'globex' };
    expect((await grpc.evaluate(request, token)).code).toBe(status.OK);
  });

  test('is accepted for a minute after its expiry, which clocks may differ by', async () => {
    expect(await statusOf(await issuer.sign({ ...OBSERVER, jti: 'a', exp: now() - 58 }))).toBe(200);
    expect(await statusOf(await issuer.sign({ ...OBSERVER, jti: 'b', exp: now() - 62 }))).toBe(401);
    expect(await statusOf(await issuer.sign({ ...OBSERVER, jti: 'c', nbf: now() + 58 }))).toBe(200);
    expect(await statusOf(await issuer.sign({ ...OBSERVER, jti: 'd', nbf: now() + 62 }))).toBe(401);
  });

  test('that was verified is not believed beyond its expiry', async () => {
    const token = await issuer.sign({ ...OBSERVER, exp: now() + 1 });
    expect(await statusOf(token)).toBe(200);
    app.time.advance(62_000);
    expect(await statusOf(token)).toBe(401);
    app.time.advance(-62_000);
  });

  test('that is not signed, by a secret, or by somebody else, is refused', async () => {
    const claims = { ...OBSERVER, client_id: 'x', iss: issuer.issuer, aud: 'retention-residency', exp: now() + 60 };
    expect(await statusOf(new UnsecuredJWT(claims).encode())).toBe(401);
    expect(await statusOf(await issuer.sign(OBSERVER, {}, await issuer.strangersKey()))).toBe(401);
    const [header, payload, signature] = (await issuer.sign(OBSERVER)).split('.') as [string, string, string];
    const forged = Buffer.from(JSON.stringify({ ...claims, roles: ['PlatformAdmin'] })).toString('base64url');
    expect(await statusOf([header, forged, signature].join('.'))).toBe(401);
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'at+jwt' })).toString('base64url');
    for (const end of ['', signature]) expect(await statusOf([none, payload, end].join('.'))).toBe(401);
    const hmac = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'at+jwt' })).toString('base64url');
    expect(await statusOf([hmac, payload, signature].join('.'))).toBe(401);
    for (const text of ['x', 'a.b.c', `${'a'.repeat(10_000)}`]) {
      const { status: got } = await app.get('/factory/data/retention', { token: text });
      expect(got).toBe(401);
    }
    const basic = { authorization: 'Basic YWNtZTpzZWNyZXQ=' };
    expect(await app.get('/factory/data/retention', { headers: basic })).toMatchObject({ status: 401 });
  });

  test('of a new key is accepted once the keys are fetched again, which strangers cannot ask for at will', async () => {
    await statusOf(await issuer.sign(OBSERVER));
    const before = issuer.fetches;
    for (let n = 0; n < 20; n++)
      await app.get('/factory/data/retention', { token: await issuer.sign(OBSERVER, { kid: `${n}` }) });
    expect(issuer.fetches - before).toBeLessThanOrEqual(1);
  });
});

describe('an issuer that is down at start', () => {
  test('leaves a service that starts, says so, and serves once it is up', async () => {
    const issuer = await openIssuer();
    const app = await openApp(issuer as unknown as Identity);
    const grpc = openGrpc(app.grpcAddress);
    try {
      const token = await issuer.sign({ scope: 'factory.data.read', roles: ['Observer'], tenantId: 'acme' });
      const down = await app.get('/factory/data/retention', { token });
      expect(down).toMatchObject({ status: 503, body: { code: 'dependency-unavailable' } });
      expect(down.headers.get('retry-after')).toBe('5');
      expect(await grpc.evaluate({ kind: 'CONNECTOR', region: 'x' }, token)).toMatchObject({
        code: status.UNAVAILABLE,
        reason: 'dependency-unavailable',
      });
      expect(await app.get('/health/live')).toMatchObject({ status: 200 });
      await issuer.start();
      app.time.advance(2000);
      expect(await app.get('/factory/data/retention', { token })).toMatchObject({ status: 200 });
    } finally {
      grpc.close();
      await app.close();
      await issuer.stop();
    }
  });
});

describe('an issuer whose keys cannot be used', () => {
  test.each<[string, (keys: readonly JWK[]) => unknown]>([
    ['no set', () => ['a', 'b']],
    ['nothing', () => null],
    ['a set without a list', () => ({ keys: 1 })],
    ['a key without its numbers', ([key]) => ({ keys: [{ ...key, n: undefined }] })],
    ['a key that is no key', ([key]) => ({ keys: [{ ...key, n: '!' }] })],
  ])('is unavailable where it answers with %s', async (_, answer) => {
    const issuer = await openIssuer();
    await issuer.start();
    issuer.spoil(answer);
    const app = await openApp(issuer as unknown as Identity);
    try {
      const token = await issuer.sign({ scope: 'factory.data.read', roles: ['Observer'], tenantId: 'acme' });
      const spoiled = await app.get('/factory/data/retention', { token });
      expect(spoiled).toMatchObject({ status: 503, body: { code: 'dependency-unavailable' } });
    } finally {
      await app.close();
      await issuer.stop();
    }
  });
});

describe('the rate of requests', () => {
  test('is limited for each client, on REST and gRPC alike', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity, { RATE_LIMIT: '3', GRPC_RATE_LIMIT: '3' });
    const grpc = openGrpc(app.grpcAddress);
    try {
      const answers = [];
      for (let n = 0; n < 4; n++) answers.push(await app.get('/factory/data/retention', { client: 'acme-admin' }));
      expect(answers.map(({ status: got }) => got)).toEqual([200, 200, 200, 429]);
      expect(answers[3]?.body.code).toBe('rate-limited');
      expect(Number(answers[3]?.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await app.get('/factory/data/retention', { client: 'globex-admin' })).toMatchObject({ status: 200 });
      const token = await identity.token('acme-admin');
      const codes = [];
      for (let n = 0; n < 4; n++) codes.push((await grpc.evaluate({ kind: 'CONNECTOR', region: 'x' }, token)).code);
      expect(codes).toEqual([status.OK, status.OK, status.OK, status.RESOURCE_EXHAUSTED]);
    } finally {
      grpc.close();
      await app.close();
      await identity.stop();
    }
  });

  test('of refused tokens is limited for each address', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity);
    try {
      const statuses = new Set<number>();
      for (let n = 0; n < 105; n++) statuses.add((await app.get('/factory/data/retention', { token: `x${n}` })).status);
      expect([...statuses]).toEqual([401, 429]);
    } finally {
      await app.close();
      await identity.stop();
    }
  });

  // Other systems have one address on their loopback.
  const onLinux = process.platform === 'linux' ? test : test.skip;
  onLinux('of refused tokens on gRPC is limited for each address too, whatever the port', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity);
    const otherPort = await openProxy(`tcp://${app.grpcAddress}`);
    const otherAddress = await openProxy(`tcp://${app.grpcAddress}`, '127.0.0.2');
    const clients = [app.grpcAddress, otherPort.address, otherAddress.address].map((address) => openGrpc(address));
    const codeOf = async (client: number, token: string) =>
      (await clients[client]!.evaluate({ kind: 'CONNECTOR', region: 'x' }, token)).code;
    try {
      const codes = new Set<number>();
      for (let n = 0; n < 105; n++) codes.add(await codeOf(0, `x${n}`));
      expect([...codes]).toEqual([status.UNAUTHENTICATED, status.RESOURCE_EXHAUSTED]);
      expect(await codeOf(1, 'x')).toBe(status.RESOURCE_EXHAUSTED);
      expect(await codeOf(2, 'x')).toBe(status.UNAUTHENTICATED);
    } finally {
      for (const client of clients) client.close();
      await otherPort.cut();
      await otherAddress.cut();
      await app.close();
      await identity.stop();
    }
  });
});
