import { once } from 'node:events';
import { type Server, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { retentionResidencyMigrations } from 'migrations';
import pg from 'pg';
import { CLASSIFICATIONS, EXPIRY_ACTIONS, MODEL_DATA_RESIDENCIES, RULED_STORE_CLASSES } from '../src/vocabulary.js';
import { runSql } from '../src/platform/sql.js';
import { type Answer, type Identity, openApp, openIdentity } from './support/app.js';
import { DAY_MS, appended } from './support/governance.js';

const RESIDENCY = {
  region: 'westeurope',
  allowedRegions: ['westeurope'],
  allowedEngines: { runs: ['azure-sql'] },
  justification: 'the contract says so',
};
const CANDIDATE = { kind: 'store-binding', storeClass: 'runs', engine: 'azure-sql', region: 'westeurope' };

describe('REST', () => {
  let identity: Identity;
  let app: Awaited<ReturnType<typeof openApp>>;
  beforeAll(async () => {
    identity = await openIdentity();
    app = await openApp(identity);
  });
  afterAll(async () => {
    await app.close();
    await identity.stop();
  });

  const asAcme = { client: 'acme-admin' };
  const putRule = (rule: string, body: unknown, headers: Record<string, string> = {}) =>
    app.put(`/factory/data/retention/${rule}`, { ...asAcme, body, headers });
  const ruleOf = async (storeClass: string, classification: string, options: object = asAcme) => {
    const query = `storeClass=${storeClass}&classification=${classification}`;
    const { body } = await app.get(`/factory/data/retention?${query}`, options);
    return (body.rules as Record<string, unknown>[])[0]!;
  };
  const problem = ({ status, body }: Answer) => [
    status,
    body.code,
    (body.errors as { pointer: string }[])?.[0]?.pointer,
  ];

  test('answers liveness and readiness without a token', async () => {
    expect(await app.get('/health/live')).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(await app.get('/health/ready')).toMatchObject({
      status: 200,
      body: { status: 'ok', checks: { database: 'ok', migrations: 'ok', outbox: 'ok' } },
    });
  });

  test('gives a request half a minute to arrive', () => {
    expect((app.app.getHttpServer() as Server).requestTimeout).toBe(30_000);
  });

  const asOwner = async (...statements: string[]) => {
    const owner = new pg.Client(app.place.ownerUrl);
    await owner.connect();
    try {
      for (const statement of statements) await owner.query(statement);
    } finally {
      await owner.end();
    }
  };

  test.each([
    [290, 200],
    [301, 503],
  ])('is as ready with an event that has waited %i s as %i says', async (seconds, expected) => {
    const isDone = Promise.withResolvers<void>();
    const isLocked = Promise.withResolvers<void>();
    // No relay takes a key whose lock somebody has.
    const locking = app.database.asPlatform(async (em) => {
      await runSql(em, `select pg_advisory_xact_lock(hashtextextended('waits', 2))`);
      isLocked.resolve();
      await isDone.promise;
      await runSql(em, `delete from data_foundations.outbox where partition_key = 'waits'`);
    });
    try {
      await isLocked.promise;
      await app.database.asPlatform((em) =>
        runSql(
          em,
          `insert into data_foundations.outbox
             (id, aggregate, aggregate_id, topic, tenant_id, partition_key, envelope, created_at)
           values (gen_random_uuid(), 'a', 'a', 'a', 'acme', 'waits', '{}', now() - make_interval(secs => $1))`,
          [seconds],
        ),
      );
      const { status, body } = await app.get('/health/ready');
      const { outbox, ...others } = body.checks as Record<string, string>;
      expect([status, others]).toEqual([expected, { database: 'ok', migrations: 'ok' }]);
      expect(outbox).toMatch(expected === 200 ? /^ok$/ : /wait/);
    } finally {
      isDone.resolve();
      await locking;
    }
  });

  test('is not ready where a migration is missing', async () => {
    const name = retentionResidencyMigrations.at(-1)!.name;
    await asOwner(`update retention_residency_migrations set name = 'other' where name = '${name}'`);
    try {
      const { status, body } = await app.get('/health/ready');
      expect([status, body.status]).toEqual([503, 'unavailable']);
      expect((body.checks as { migrations: string }).migrations).toContain(name);
    } finally {
      await asOwner(`update retention_residency_migrations set name = '${name}' where name = 'other'`);
    }
    expect(await app.get('/health/ready')).toMatchObject({ status: 200 });
  });

  test('answers an error of ours with an id, under which the log has what happened', async () => {
    const logged: unknown[][] = [];
    const silent = () => undefined;
    app.app.useLogger({ log: silent, warn: silent, error: (...said: unknown[]) => void logged.push(said) });
    await asOwner('alter table data_foundations.residency_rules rename to gone');
    try {
      const answer = await app.get('/factory/data/residency', asAcme);
      const { traceId } = answer.body;
      expect(traceId).toMatch(/^[0-9a-f]{32}$/);
      expect(answer).toMatchObject({
        status: 500,
        body: { code: 'internal', detail: `It is in our log under ${String(traceId)}.` },
      });
      expect(JSON.stringify(answer.body)).not.toMatch(/residency_rules|select|relation/i);
      expect(logged).toHaveLength(1);
      expect(logged[0]?.[0]).toMatchObject({ traceId, err: { message: expect.stringMatching(/residency_rules/) } });
    } finally {
      await asOwner('alter table data_foundations.gone rename to residency_rules');
      app.app.useLogger(false);
    }
  });

  describe('retention', () => {
    test('lists one row per store class and classification, as the specification shapes it', async () => {
      const { status, body } = await app.get('/factory/data/retention', asAcme);
      expect([status, body.tenantId]).toEqual([200, 'acme']);
      const rules = body.rules as { storeClass: string; classification: string }[];
      const found = new Set(rules.map(({ storeClass, classification }) => `${storeClass} ${classification}`));
      expect(found).toEqual(
        new Set(RULED_STORE_CLASSES.flatMap((storeClass) => CLASSIFICATIONS.map((each) => `${storeClass} ${each}`))),
      );
      expect(rules).toHaveLength(20);
      expect(await ruleOf('traces', 'public')).toEqual({
        ruleId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        storeClass: 'traces',
        classification: 'public',
        retentionDays: 30,
        expiryAction: 'delete',
        legalHoldExempt: false,
        platform: { retentionDays: 30, expiryAction: 'delete' },
        override: null,
        cappedBy: null,
        pending: null,
        version: 1,
      });
      const platform = await app.get('/factory/data/retention', { client: 'platform-admin' });
      expect(platform.body).toMatchObject({ tenantId: '*' });
      expect(platform.body.rules).toHaveLength(20);
    });

    // field case S04
    test('shows a shortening before it takes force, with an ETag, and changes nothing in a dry run', async () => {
      const body = { retentionDays: 30, justification: 'less is enough' };
      for (const dryRun of ['1', 'yes', 'TRUE', '']) {
        const refused = await app.put(`/factory/data/retention/runs/public?dryRun=${dryRun}`, { ...asAcme, body });
        expect([refused.status, refused.body.code]).toEqual([expect.any(Number), 'validation']);
      }
      const impact = await app.put('/factory/data/retention/runs/public?dryRun=true', { ...asAcme, body });
      expect(impact).toMatchObject({
        status: 200,
        body: {
          dryRun: true,
          before: { retentionDays: 365, expiryAction: 'delete' },
          after: { retentionDays: 30, expiryAction: 'delete' },
          affectedTenants: 1,
          effectiveAt: new Date(app.time.now().getTime() + 7 * DAY_MS).toISOString(),
        },
      });
      expect(impact.headers.get('etag')).toBeNull();
      expect(await ruleOf('runs', 'public')).toMatchObject({ override: null, version: 1 });

      const put = await putRule('runs/public', body);
      expect([put.status, put.headers.get('etag')]).toEqual([200, '"2"']);
      expect(put.body).toMatchObject({
        retentionDays: 365,
        override: { retentionDays: 30, expiryAction: 'delete' },
        platform: { retentionDays: 365 },
        pending: { retentionDays: 30, expiryAction: 'delete', effectiveAt: impact.body.effectiveAt },
        version: 2,
      });
      expect(await ruleOf('runs', 'public')).toEqual(put.body);
      expect(await ruleOf('runs', 'public', { client: 'globex-admin' })).toMatchObject({ override: null, version: 1 });
      const again = await putRule('runs/public', body);
      expect([again.status, again.headers.get('etag'), again.body]).toEqual([200, '"2"', put.body]);
      expect((await appended(app.database)).filter(({ eventType }) => eventType === 'RetentionRuleChanged')).toEqual(
        [],
      );
    });

    test('honours If-Match, and lets the last write win without it', async () => {
      const body = { retentionDays: 29, justification: 'x' };
      const { version } = await ruleOf('traces', 'internal');
      expect(problem(await putRule('traces/internal', body, { 'if-match': '"99"' }))).toEqual([
        412,
        'precondition-failed',
        'header:If-Match',
      ]);
      expect((await putRule('traces/internal', body, { 'if-match': `"${String(version)}"` })).status).toBe(200);
      const stale = { ...body, retentionDays: 28 };
      expect((await putRule('traces/internal', stale, { 'if-match': `"${String(version)}"` })).status).toBe(412);
      expect((await putRule('traces/internal', stale, { 'if-match': '*' })).status).toBe(200);
      expect((await putRule('traces/internal', { ...body, retentionDays: 27 })).status).toBe(200);
      expect(problem(await putRule('traces/internal', body, { 'if-match': 'yesterday' }))).toEqual([
        400,
        'validation',
        'header:If-Match',
      ]);
    });

    // field case C21
    test.each<[unknown, number, string]>([
      [0, 422, 'validation'],
      [-1, 422, 'validation'],
      [1e12, 422, 'validation'],
      [36_501, 422, 'validation'],
      ['30', 400, 'validation'],
      [1.5, 400, 'validation'],
      [true, 400, 'validation'],
      [undefined, 400, 'validation'],
      [[30], 400, 'validation'],
      [366, 422, 'retention-ceiling'],
    ])('refuses %j days with the field named, and changes nothing', async (retentionDays, status, code) => {
      const before = await ruleOf('runs', 'internal');
      const answer = await putRule('runs/internal', { retentionDays, justification: 'x' });
      const pointer = '/retentionDays';
      expect(problem(answer)).toEqual([status, code, pointer]);
      expect(await ruleOf('runs', 'internal')).toEqual(before);
    });

    test.each<[string, string, object, number, string, string]>([
      ['an unknown store class', 'scrolls/public', {}, 422, 'unknown-store-class', 'path:storeClass'],
      ...['vector', 'graph', 'cache', 'memory'].map(
        (storeClass) =>
          [
            `the derived store class ${storeClass}`,
            `${storeClass}/public`,
            {},
            422,
            'unknown-store-class',
            'path:storeClass',
          ] as [string, string, object, number, string, string],
      ),
      ['an unknown classification', 'runs/secret', {}, 422, 'validation', 'path:classification'],
      ['an unknown action', 'runs/public', { expiryAction: 'burn' }, 422, 'validation', '/expiryAction'],
      ['an unknown scope', 'runs/public', { scope: 'world' }, 422, 'validation', '/scope'],
      ['no justification', 'runs/public', { justification: undefined }, 400, 'validation', '/justification'],
      ['an empty justification', 'runs/public', { justification: ' ' }, 422, 'validation', '/justification'],
      ['a long justification', 'runs/public', { justification: 'x'.repeat(1001) }, 422, 'validation', '/justification'],
      ['NUL in a justification', 'runs/public', { justification: 'a\0b' }, 422, 'validation', '/justification'],
      [
        'half a letter in a justification',
        'runs/public',
        { justification: '\ud83d' },
        422,
        'validation',
        '/justification',
      ],
      ['an unknown member', 'runs/public', { days: 3 }, 400, 'validation', '/days'],
      ['null for the scope', 'runs/public', { scope: null }, 422, 'validation', '/scope'],
      ['null for the action', 'runs/public', { expiryAction: null }, 422, 'validation', '/expiryAction'],
      ['null for the exemption', 'runs/public', { legalHoldExempt: null }, 400, 'validation', '/legalHoldExempt'],
      ['null for the justification', 'runs/public', { justification: null }, 400, 'validation', '/justification'],
      ['audit for less', 'audit/public', { retentionDays: 2554 }, 422, 'retention-floor', '/retentionDays'],
      ['audit for longer', 'audit/public', { retentionDays: 2556 }, 422, 'retention-ceiling', '/retentionDays'],
      [
        'audit that is deleted',
        'audit/public',
        { retentionDays: 2555, expiryAction: 'delete' },
        422,
        'retention-floor',
        '/expiryAction',
      ],
    ])('refuses %s', async (_, rule, change, status, code, pointer) => {
      const answer = await putRule(rule, { retentionDays: 20, justification: 'x', ...change });
      expect(problem(answer)).toEqual([status, code, pointer]);
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    });

    test('takes every action for what is no audit, and a justification in any language', async () => {
      for (const expiryAction of EXPIRY_ACTIONS) {
        const body = { retentionDays: 300, expiryAction, justification: 'Datensparsamkeit – 数据最小化 🙂' };
        expect((await putRule('artifacts/public', body)).body).toMatchObject({
          override: { retentionDays: 300, expiryAction },
        });
      }
    });

    test('takes null for no scope of a PlatformAdmin', async () => {
      const body = { retentionDays: 400, scope: null, justification: 'x' };
      const answer = await app.put('/factory/data/retention/runs/restricted', { client: 'platform-admin', body });
      expect(problem(answer)).toEqual([422, 'validation', '/scope']);
    });

    // G39, G40
    test('removes an override, and refuses unknown filters', async () => {
      await putRule('projections/public', { retentionDays: 100, justification: 'x' });
      const removed = await putRule('projections/public', { retentionDays: null, justification: 'x' });
      expect(removed.body).toMatchObject({ override: null, retentionDays: 395, pending: null });
      for (const query of [
        ...['vector', 'graph', 'cache', 'memory'].map((each) => `storeClass=${each}`),
        'storeClass=x',
        'classification=x',
        'colour=red',
        'storeClass=a&storeClass=b',
      ]) {
        const { status } = await app.get(`/factory/data/retention?${query}`, asAcme);
        expect([query, status]).toEqual([query, /colour|&/.test(query) ? 400 : 422]);
      }
    });

    // G20
    test('lets the platform exempt a rule from legal holds, and no tenant', async () => {
      const platform = { client: 'platform-admin' };
      const body = { retentionDays: 365, scope: 'platform', legalHoldExempt: true, justification: 'a court order' };
      const put = await app.put('/factory/data/retention/artifacts/restricted', { ...platform, body });
      expect(put).toMatchObject({ status: 200, body: { legalHoldExempt: false, pending: { retentionDays: 365 } } });
      const tenant = await putRule('runs/public', { retentionDays: 30, legalHoldExempt: true, justification: 'x' });
      expect(problem(tenant).slice(0, 2)).toEqual([403, 'insufficient-scope']);
      const audit = { ...body, retentionDays: 2555 };
      const refused = await app.put('/factory/data/retention/audit/public', { ...platform, body: audit });
      expect(problem(refused)).toEqual([422, 'retention-floor', '/legalHoldExempt']);
    });

    test('explains a rule layer by layer', async () => {
      const { status, body } = await app.get('/factory/data/retention/explain?storeClass=runs', asAcme);
      expect(status).toBe(200);
      expect(body).toMatchObject({ retentionDays: 365, expiryAction: 'delete', cutoff: expect.any(String) });
      expect(
        (body.layers as { layer: string; outcome: string }[]).map(({ layer, outcome }) => `${layer} ${outcome}`),
      ).toEqual(['platform decides', 'tenant shortens', 'grace waits']);
      expect(problem(await app.get('/factory/data/retention/explain', asAcme))).toEqual([
        400,
        'validation',
        'query:storeClass',
      ]);
    });
  });

  describe('residency', () => {
    const put = (change: object, client = 'acme-admin', query = '') =>
      app.put(`/factory/data/residency${query}`, { client, body: { ...RESIDENCY, ...change } });

    test('does not exist before the first PUT', async () => {
      expect(problem(await app.get('/factory/data/residency', { client: 'globex-admin' })).slice(0, 2)).toEqual([
        404,
        'not-found',
      ]);
      const evaluated = await app.post('/factory/data/residency/evaluate', { client: 'globex-admin', body: CANDIDATE });
      expect(evaluated.body).toMatchObject({ allowed: false, reasons: [{ code: 'NO_RULE' }], ruleVersion: 0 });
    });

    test('is kept, told and evaluated', async () => {
      const created = await put({ region: ' WestEurope' });
      expect(created).toMatchObject({
        status: 200,
        body: {
          tenantId: 'acme',
          region: 'westeurope',
          allowedRegions: ['westeurope'],
          allowedEngines: { runs: ['azure-sql'] },
          modelDataResidency: 'same-region',
          changedAt: app.time.now().toISOString(),
          pendingRegion: null,
          migrationOrderId: null,
          ruleVersion: 1,
        },
      });
      expect(created.headers.get('etag')).toBe('"1"');
      expect((await app.get('/factory/data/residency', asAcme)).body).toEqual(created.body);
      expect((await put({})).headers.get('etag')).toBe('"1"');
      for (const modelDataResidency of MODEL_DATA_RESIDENCIES) {
        expect((await put({ modelDataResidency })).body).toMatchObject({ modelDataResidency });
      }
      const events = (await appended(app.database)).filter(({ eventType }) => eventType === 'ResidencyRuleChanged');
      expect(events.map(({ payload }) => payload)).toEqual([
        { tenantId: 'acme', region: 'westeurope', modelDataResidency: 'same-region', ruleVersion: 1 },
        { tenantId: 'acme', region: 'westeurope', modelDataResidency: 'allowed-regions', ruleVersion: 2 },
        { tenantId: 'acme', region: 'westeurope', modelDataResidency: 'any', ruleVersion: 3 },
      ]);
    });

    // G22
    test('does not move to another region yet, not in a dry run either', async () => {
      const change = { region: 'israelcentral', allowedRegions: ['israelcentral'] };
      const refusal = [501, 'not-yet-available', '/region'];
      expect(problem(await put(change))).toEqual(refusal);
      expect(problem(await put(change, 'acme-admin', '?dryRun=true'))).toEqual(refusal);
      expect((await app.get('/factory/data/residency', asAcme)).body).toMatchObject({ region: 'westeurope' });
    });

    test.each(['', '?dryRun=true'])('honours If-Match, and lets the last write win without it (%j)', async (query) => {
      const answerOf = async (ifMatch: string | undefined, change: object) => {
        const headers: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch };
        const body = { ...RESIDENCY, ...change };
        return problem(await app.put(`/factory/data/residency${query}`, { ...asAcme, body, headers }));
      };
      const { ruleVersion } = (await app.get('/factory/data/residency', asAcme)).body;
      const current = `"${String(ruleVersion)}"`;
      const stale = [412, 'precondition-failed', 'header:If-Match'];
      const changed = { allowedEngines: { runs: ['azure-sql', `engine-${query.length}`] } };
      expect(await answerOf('"99"', changed)).toEqual(stale);
      expect((await answerOf(current, changed))[0]).toBe(200);
      // A dry run changed nothing, so that the version is the same.
      if (query === '') expect(await answerOf(current, RESIDENCY)).toEqual(stale);
      else expect((await answerOf(current, RESIDENCY))[0]).toBe(200);
      expect((await answerOf(undefined, changed))[0]).toBe(200);
      expect((await answerOf('*', { modelDataResidency: 'any' }))[0]).toBe(200);
      expect(await answerOf('yesterday', changed)).toEqual([400, 'validation', 'header:If-Match']);
    });

    test('that does not exist yet has the version 0, for a dry run too', async () => {
      for (const query of ['?dryRun=true', '']) {
        const answer = await app.put(`/factory/data/residency${query}`, {
          client: 'globex-admin',
          body: RESIDENCY,
          headers: { 'if-match': '"1"' },
        });
        expect(problem(answer)).toEqual([412, 'precondition-failed', 'header:If-Match']);
      }
    });

    test.each<[string, object, number, string, string]>([
      ['a region that is not offered', { region: 'atlantis' }, 422, 'region-not-offered', '/region'],
      ['no allowed region', { allowedRegions: [] }, 422, 'validation', '/allowedRegions'],
      ['regions without the region', { allowedRegions: ['israelcentral'] }, 422, 'validation', '/allowedRegions'],
      ['regions that are text', { allowedRegions: 'westeurope' }, 400, 'validation', '/allowedRegions'],
      ['an unknown store class', { allowedEngines: { x: [] } }, 422, 'unknown-store-class', '/allowedEngines/x'],
      ['engines that are no list', { allowedEngines: { runs: 'a' } }, 400, 'validation', '/allowedEngines'],
      ['NUL in an engine', { allowedEngines: { runs: ['a\0b'] } }, 400, 'validation', '/allowedEngines'],
      ['half a letter in an engine', { allowedEngines: { runs: ['\ud83d'] } }, 400, 'validation', '/allowedEngines'],
      ['null for the model residency', { modelDataResidency: null }, 422, 'validation', '/modelDataResidency'],
      ['an unknown model residency', { modelDataResidency: 'x' }, 422, 'validation', '/modelDataResidency'],
      ['no justification', { justification: undefined }, 400, 'validation', '/justification'],
      ['an unknown member', { planet: 'earth' }, 400, 'validation', '/planet'],
    ])('refuses %s', async (_, change, status, code, pointer) => {
      expect(problem(await put(change))).toEqual([status, code, pointer]);
    });

    test('evaluates one candidate or fifty, in order', async () => {
      const evaluate = (body: unknown) => app.post('/factory/data/residency/evaluate', { ...asAcme, body });
      const one = await evaluate(CANDIDATE);
      expect(one).toMatchObject({ status: 200, body: { allowed: true, reasons: [] } });
      const candidates = Array.from({ length: 50 }, (_, index) => ({
        ...CANDIDATE,
        region: index % 2 ? 'x' : 'westeurope',
      }));
      const { body } = await evaluate({ candidates });
      expect((body.results as { allowed: boolean }[]).map(({ allowed }) => allowed)).toEqual(
        candidates.map((_, index) => index % 2 === 0),
      );
      expect((await evaluate({ candidates: [...candidates, CANDIDATE] })).status).toBe(422);
      expect((await evaluate({ candidates: [] })).status).toBe(422);
      expect(problem(await evaluate({ candidates: [{ ...CANDIDATE, x: 1 }] }))).toEqual([
        400,
        'validation',
        '/candidates/0/x',
      ]);
      expect(problem(await evaluate({ ...CANDIDATE, candidates: [] }))).toEqual([400, 'validation', '/kind']);
      expect(problem(await evaluate({ ...CANDIDATE, kind: 'ship' }))).toEqual([422, 'validation', '/kind']);
      expect((await evaluate([])).status).toBe(400);
      expect((await evaluate('null')).status).toBe(400);
    });

    test.each<[string, object, number, string]>([
      ['null for the store class', { storeClass: null }, 400, 'storeClass'],
      ['null for the engine', { engine: null }, 400, 'engine'],
      ['null for its id', { candidateId: null }, 400, 'candidateId'],
      ['null for the dry run', { dryRun: null }, 400, 'dryRun'],
      ['NUL in the engine', { engine: 'a\0b' }, 422, 'engine'],
      ['half a letter in the engine', { engine: '\ud83d' }, 422, 'engine'],
      ['NUL in the store class', { storeClass: 'a\0b' }, 422, 'storeClass'],
      ['half a letter in the region', { region: '\ud83d' }, 422, 'region'],
    ])('does not evaluate a candidate with %s', async (_, change, status, member) => {
      const candidate = { ...CANDIDATE, ...change };
      const one = await app.post('/factory/data/residency/evaluate', { ...asAcme, body: candidate });
      expect(problem(one)).toEqual([status, 'validation', `/${member}`]);
      const body = { candidates: [CANDIDATE, candidate] };
      const batch = await app.post('/factory/data/residency/evaluate', { ...asAcme, body });
      expect(problem(batch)).toEqual([status, 'validation', `/candidates/1/${member}`]);
    });

    test.each([[[]], [null], ['text'], [7]])('does not evaluate %j as a candidate', async (candidate) => {
      const body = { candidates: [CANDIDATE, candidate] };
      const answer = await app.post('/factory/data/residency/evaluate', { ...asAcme, body });
      expect([answer.status, answer.body.code]).toEqual([400, 'validation']);
    });

    test('counts what was refused, unless it was only asked', async () => {
      const count = async () => {
        const { body } = await app.get('/metrics');
        const line = /residency_violations\{tenant="acme",kind="connector"\} (\d+)/.exec(String(body.text));
        return Number(line?.[1] ?? 0);
      };
      const body = { kind: 'connector', region: 'israelcentral' };
      const before = await count();
      await app.post('/factory/data/residency/evaluate', { ...asAcme, body: { ...body, dryRun: true } });
      expect(await count()).toBe(before);
      await app.post('/factory/data/residency/evaluate', { ...asAcme, body });
      expect(await count()).toBe(before + 1);
    });
  });

  describe('what is no request', () => {
    const RAW = '/factory/data/retention/runs/public';
    const deep = (levels: number) => `{"justification":${'['.repeat(levels)}${']'.repeat(levels)}}`;

    test.each<[string, string, Record<string, string>, number]>([
      ['malformed JSON', '{"retentionDays":', {}, 400],
      ['an empty body', '', {}, 400],
      ['JSON that is no object', '[]', {}, 400],
      ['JSON that is a number', '7', {}, 400],
      ['JSON that is null', 'null', {}, 400],
      ['a body that is nested deep', deep(30), {}, 400],
      ['a body that is nested very deep', deep(30_000), {}, 400],
      ['a body of a megabyte', `{"justification":"${'x'.repeat(1_000_000)}"}`, {}, 413],
      ['another content type', '{}', { 'content-type': 'text/plain' }, 415],
      ['a form', 'retentionDays=3', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
      ['a prototype', '{"__proto__":{"isAdmin":true},"retentionDays":3}', {}, 400],
    ])('is refused: %s', async (_, body, headers, status) => {
      const answer = await app.put(RAW, { ...asAcme, body, headers });
      expect([answer.status, answer.body.code]).toEqual([status, 'validation']);
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
      expect(answer.body).toMatchObject({ status, instance: RAW, traceId: expect.stringMatching(/^[0-9a-f]{32}$/) });
    });

    test.each(['toString', 'valueOf', 'constructor', 'hasOwnProperty', '__proto__', '__defineGetter__'])(
      'has no member with the name %s',
      async (name) => {
        // As text: an object of ours would take the name for what it inherits.
        const withName = (body: object) => JSON.stringify(body).replace(/\}$/, `,${JSON.stringify(name)}:1}`);
        const rule = await app.put(RAW, { ...asAcme, body: withName({ retentionDays: 20, justification: 'x' }) });
        expect([rule.status, rule.body.code]).toEqual([400, 'validation']);
        const evaluate = '/factory/data/residency/evaluate';
        const one = await app.post(evaluate, { ...asAcme, body: withName(CANDIDATE) });
        expect([one.status, one.body.code]).toEqual([400, 'validation']);
        const batch = await app.post(evaluate, { ...asAcme, body: `{"candidates":[${withName(CANDIDATE)}]}` });
        expect([batch.status, batch.body.code]).toEqual([400, 'validation']);
        const engines = JSON.stringify(RESIDENCY).replace('"runs":', `"${name}":[],"runs":`);
        const residency = await app.put('/factory/data/residency', { ...asAcme, body: engines });
        expect([residency.status, residency.body.code]).toEqual([400, 'validation']);
        const query = await app.get(`/factory/data/retention?${name}=1`, asAcme);
        expect(problem(query)).toEqual([400, 'validation', `query:${name}`]);
      },
    );

    test('has no path, or no such method', async () => {
      for (const [method, path] of [
        ['GET', '/factory/data/nothing'],
        ['DELETE', '/factory/data/residency'],
        ['GET', '/'],
      ] as const) {
        expect(problem(await app.call(method, path, asAcme)).slice(0, 2)).toEqual([404, 'not-found']);
      }
      const encoded = await app.put('/factory/data/retention/%00/public', {
        ...asAcme,
        body: { retentionDays: 3, justification: 'x' },
      });
      expect([encoded.status, encoded.body.code]).toEqual([422, 'unknown-store-class']);
      expect((await app.get('/factory/data/retention/%zz/x', asAcme)).status).toBe(400);
    });

    test('names no tenant', async () => {
      for (const tenant of ['*', ' ', 'a b', 'x'.repeat(129), 'acme, globex', "'; drop"]) {
        const answer = await app.get('/factory/data/residency', { client: 'platform-admin', tenant });
        expect([tenant, ...problem(answer)]).toEqual([tenant, 400, 'validation', 'header:X-Tenant-Id']);
      }
    });
  });

  // G11, G13
  test('shows an override that the platform caps, and explains it', async () => {
    const atOnce = await openApp(identity, { DATA_EVENT_RETENTION_GRACE_DAYS: '0' });
    try {
      const set = async (client: string, rule: string, retentionDays: number) => {
        const scope = client === 'platform-admin' ? 'platform' : 'tenant';
        const body = { retentionDays, scope, justification: 'x' };
        expect((await atOnce.put(`/factory/data/retention/${rule}`, { client, body })).status).toBe(200);
      };
      const shown = async (storeClass: string) => {
        const query = `storeClass=${storeClass}&classification=public`;
        const listed = await atOnce.get(`/factory/data/retention?${query}`, asAcme);
        const explained = await atOnce.get(`/factory/data/retention/explain?${query}`, asAcme);
        const layers = explained.body.layers as { layer: string; outcome: string }[];
        return {
          ...(listed.body.rules as object[])[0],
          tenant: layers.find(({ layer }) => layer === 'tenant')?.outcome,
        };
      };
      await set('acme-admin', 'runs/public', 200);
      expect(await shown('runs')).toMatchObject({ retentionDays: 200, cappedBy: null, tenant: 'shortens' });
      await set('platform-admin', 'runs/public', 100);
      const override = { retentionDays: 200 };
      expect(await shown('runs')).toMatchObject({
        retentionDays: 100,
        override,
        cappedBy: 'platform',
        tenant: 'capped',
      });

      await set('acme-admin', 'audit/public', 2555);
      expect(await shown('audit')).toMatchObject({ retentionDays: 2555, cappedBy: null, tenant: 'agrees' });
      await set('platform-admin', 'audit/public', 3000);
      expect(await shown('audit')).toMatchObject({
        retentionDays: 3000,
        platform: { retentionDays: 3000 },
        override: { retentionDays: 2555 },
        cappedBy: 'platform',
        tenant: 'capped',
      });
    } finally {
      await atOnce.close();
    }
  });

  test('carries the trace of its caller into events and errors', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, 'x-correlation-id': 'ticket-7' };
    const body = { ...RESIDENCY, modelDataResidency: 'same-region' };
    await app.put('/factory/data/residency', { ...asAcme, body, headers });
    const last = (await appended(app.database)).filter(({ eventType }) => eventType === 'ResidencyRuleChanged').at(-1);
    expect(last).toMatchObject({ traceId, correlationId: 'ticket-7', causationId: traceId });
    const failed = await app.get('/factory/data/nothing', { ...asAcme, headers });
    expect(failed.body.traceId).toBe(traceId);
  });

  test('keeps tenants apart when callers go away in the middle', async () => {
    const small = await openApp(identity, { DATABASE_POOL: '1' });
    try {
      for (const client of ['acme-admin', 'globex-admin']) {
        await small.put('/factory/data/residency', { client, body: RESIDENCY });
      }
      const token = await identity.token('acme-admin');
      const abandon = () =>
        new Promise<void>((resolve) => {
          const call = request(`${small.url}/factory/data/retention`, {
            headers: { authorization: `Bearer ${token}` },
          });
          call.on('error', () => resolve());
          call.on('close', () => resolve());
          call.end(() => setImmediate(() => call.destroy()));
        });
      for (let round = 0; round < 20; round++) {
        const [, globex, acme] = await Promise.all([
          abandon(),
          small.get('/factory/data/residency', { client: 'globex-admin' }),
          small.get('/factory/data/residency', asAcme),
        ]);
        expect([globex.body.tenantId, acme.body.tenantId]).toEqual(['globex', 'acme']);
      }
    } finally {
      await small.close();
    }
  });
});

describe('REST that is ended', () => {
  test('answers what is under way, and does not wait for a body that never ends', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity);
    const server = app.app.getHttpServer() as Server;
    const begin = async () => {
      const arrived = once(server, 'request');
      const headers = { 'content-type': 'application/json', 'content-length': 2 };
      const sent = request(`${app.url}/factory/data/residency/evaluate`, { method: 'POST', headers, agent: false });
      sent.flushHeaders();
      await arrived;
      return sent;
    };
    const [slow, endless] = [await begin(), await begin()];
    try {
      const broken = once(endless, 'error');
      const closing = app.close();
      const answered = once(slow, 'response');
      slow.end('{}');
      const [{ statusCode }] = (await answered) as [{ statusCode: number }];
      expect(statusCode).toBe(401);
      await broken;
      expect(await closing).toBeUndefined();
    } finally {
      endless.destroy();
      await identity.stop();
    }
  });
});
