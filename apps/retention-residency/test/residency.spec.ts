import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import pg from 'pg';
import { verifyEvidence } from '../src/evidence/verify-evidence.js';
import { EventBus } from '../src/outbox/event-bus.js';
import { CONSUMED } from '../src/outbox/event-catalog.js';
import type { Database } from '../src/platform/database.js';
import { runSql } from '../src/platform/sql.js';
import { ResidencyMemory } from '../src/residency/residency-memory.js';
import { ResidencyRule, readResidency } from '../src/residency/residency-rule.js';
import { ResidencyService } from '../src/residency/residency.service.js';
import { CANDIDATE_KINDS, MODEL_DATA_RESIDENCIES, STORE_CLASSES } from '../src/vocabulary.js';
import { type Identity, openApp, openIdentity, startApp } from './support/app.js';
import { openProxy } from './support/cut-proxy.js';
import { appended, knowTenants, openGovernance } from './support/governance.js';
import { openGrpc } from './support/grpc-client.js';
import { until } from './support/until.js';

const RESIDENCY = {
  region: 'westeurope',
  allowedRegions: ['westeurope', 'israelcentral'],
  allowedEngines: { runs: ['azure-sql'], vector: ['qdrant'] },
  justification: 'the contract says so',
};

describe('store bindings', () => {
  let identity: Identity;
  let app: Awaited<ReturnType<typeof openApp>>;
  let bus: EventBus;
  beforeAll(async () => {
    identity = await openIdentity();
    app = await openApp(identity);
    bus = app.app.get(EventBus);
    await app.put('/factory/data/residency', { client: 'acme-admin', body: RESIDENCY });
  });
  afterAll(async () => {
    await app.close();
    await identity.stop();
  });

  let minute = 0;
  const message = (payload: Record<string, unknown>, envelope: Record<string, unknown> = {}) => {
    const eventId = randomUUID();
    const occurredAt = new Date(Date.UTC(2026, 0, 1, 0, minute++)).toISOString();
    const trace = { traceId: 't', correlationId: 'c', causationId: 'x' };
    const { tenantId } = payload;
    const body = { eventId, eventType: 'StoreBindingChanged', tenantId, ...trace, occurredAt, payload, ...envelope };
    return {
      id: String(body.eventId),
      topic: CONSUMED.StoreBindingChanged.topic,
      headers: {},
      body: JSON.stringify(body),
    };
  };
  const binding = (bindingId: string, change: object = {}) => ({
    bindingId,
    tenantId: 'acme',
    storeClass: 'runs',
    engine: 'azure-sql',
    region: 'westeurope',
    ...change,
  });
  /** Everything that was sent before has been worked off once this one is seen. */
  const settled = async () => {
    const bindingId = randomUUID();
    await bus.publish(message(binding(bindingId, { tenantId: 'globex' })));
    await until(async () => (await rows(`binding_id = '${bindingId}'`)).length > 0);
  };
  const rows = (where: string) =>
    app.database.asPlatform((em) =>
      runSql<{ binding_id: string; allowed: boolean; region: string }>(
        em,
        `select binding_id, allowed, region from data_foundations.store_bindings where ${where} order by 1`,
      ),
    );
  const list = async (query = '') => {
    const { body } = await app.get(`/factory/data/residency/bindings${query}`, { client: 'acme-observer' });
    return body as { items: { bindingId: string; allowed: boolean; reasons: unknown[] }[]; nextCursor: string | null };
  };
  const violations = async () => {
    const { body } = await app.get('/metrics');
    return Number(/residency_violations\{tenant="acme",kind="store-binding"\} (\d+)/.exec(String(body.text))?.[1] ?? 0);
  };
  const poisoned = async () => {
    const { body } = await app.get('/metrics');
    return Number(/poison_messages\{consumer="check-residency"\} (\d+)/.exec(String(body.text))?.[1] ?? 0);
  };
  const alerts = async () =>
    (await appended(app.database)).filter(
      ({ eventType, tenantId }) => eventType === 'ResidencyViolation' && tenantId === 'acme',
    );

  test('are remembered, checked and listed; a violation is counted, recorded and alerted once', async () => {
    const bad = message(binding('b-2', { region: 'eastus' }));
    await bus.publish(message(binding('b-1')));
    await bus.publish(bad);
    // A broker that lost its memory sends it again.
    await bus.publish({ ...bad, id: randomUUID() });
    await settled();
    expect((await list()).items).toMatchObject([
      { bindingId: 'b-1', allowed: true, reasons: [] },
      { bindingId: 'b-2', allowed: false, reasons: [{ code: 'UNKNOWN_REGION' }] },
    ]);
    expect((await list('?violations=true')).items.map(({ bindingId }) => bindingId)).toEqual(['b-2']);
    expect(await violations()).toBe(1);
    expect(await alerts()).toMatchObject([
      { payload: { bindingId: 'b-2', tenantId: 'acme', severity: 'warning', detail: 'UNKNOWN_REGION' } },
    ]);
    const evidence = await app.database.asPlatform((em) =>
      runSql(em, `select from data_foundations.evidence where tenant_id = 'acme' and kind = 'residency-violation'`),
    );
    expect(evidence).toHaveLength(1);
  });

  test('that move are judged where they are, and an older message changes nothing', async () => {
    const older = message(binding('b-3', { region: 'eastus' }));
    await bus.publish(message(binding('b-3')));
    await bus.publish(older);
    await settled();
    expect(await rows(`binding_id = 'b-3'`)).toEqual([{ binding_id: 'b-3', allowed: true, region: 'westeurope' }]);
    await bus.publish(message(binding('b-2', { region: 'israelcentral' })));
    await settled();
    expect(await rows(`binding_id = 'b-2'`)).toMatchObject([{ allowed: true }]);
    expect(await violations()).toBe(1);
  });

  test('that move twice at one instant are where the last message says', async () => {
    const occurredAt = '2026-02-01T00:00:00.000Z';
    const first = message(binding('twice', { tenantId: 'globex' }), { occurredAt });
    await bus.publish(first);
    await bus.publish(message(binding('twice', { tenantId: 'globex', region: 'israelcentral' }), { occurredAt }));
    // The first one again, from a broker that lost its memory.
    await bus.publish({ ...first, id: randomUUID() });
    await settled();
    expect(await rows(`binding_id = 'twice'`)).toMatchObject([{ region: 'israelcentral' }]);
  });

  test('of one tenant are not taken over by another', async () => {
    await bus.publish(message(binding('b-1', { tenantId: 'globex', region: 'eastus' })));
    await settled();
    expect(await rows(`binding_id = 'b-1' and tenant_id = 'acme'`)).toMatchObject([{ allowed: true }]);
  });

  test.each<[string, () => { id: string; topic: string; headers: object; body: string }]>([
    ['no JSON', () => ({ ...message(binding('bad')), body: '{' })],
    ['no envelope', () => ({ ...message(binding('bad')), body: '{"a":1}' })],
    ['no region', () => message({ ...binding('bad'), region: undefined })],
    ['another tenant in the payload', () => message(binding('bad'), { tenantId: 'globex' })],
    ['a tenant that is none', () => message(binding('bad', { tenantId: '*' }))],
    ['text that cannot be stored', () => message(binding('bad', { engine: 'a\0b' }))],
    ['half a letter', () => message(binding('bad', { engine: '\ud83d' }))],
    ['half a letter in its trace', () => message(binding('bad'), { traceId: '\ud83d' })],
    ['a leap second', () => message(binding('bad'), { occurredAt: '2016-12-31T23:59:60Z' })],
    ['a zone without minutes', () => message(binding('bad'), { occurredAt: '2026-01-01T00:00:00+01' })],
    ['the year 0', () => message(binding('bad'), { occurredAt: '0000-06-01T00:00:00Z' })],
    ['an instant before the year 1', () => message(binding('bad'), { occurredAt: '0001-01-01T00:00:00+14:00' })],
    ['an instant after the year 9999', () => message(binding('bad'), { occurredAt: '9999-12-31T23:59:59-14:00' })],
    ['an id of 7 KB', () => message(binding(`bad${'x'.repeat(7000)}`))],
    ['an engine of 201 letters', () => message(binding('bad', { engine: 'x'.repeat(201) }))],
    ['a trace of 201 letters', () => message(binding('bad'), { causationId: 'x'.repeat(201) })],
  ])('are left out where the message has %s, which is counted, and the next ones come through', async (_, make) => {
    const before = await poisoned();
    await bus.publish({ ...make(), headers: {} });
    await settled();
    expect(await rows(`binding_id like 'bad%'`)).toEqual([]);
    expect(await poisoned()).toBe(before + 1);
  });

  test.each(['1', '9999'])('may be of the year %s', async (year) => {
    const occurredAt = `${year.padStart(4, '0')}-06-01T00:00:00Z`;
    await bus.publish(message(binding(`year-${year}`, { tenantId: 'globex' }), { occurredAt }));
    await settled();
    expect(await rows(`binding_id = 'year-${year}'`)).toHaveLength(1);
  });

  test('are taken from a message that is nested deep in what nobody reads', async () => {
    const depth = 100_000;
    const { body, ...rest } = message(binding('deep', { tenantId: 'globex' }));
    const nested = `"payload":{"more":${'['.repeat(depth)}${']'.repeat(depth)},`;
    await bus.publish({ ...rest, body: body.replace('"payload":{', nested) });
    await settled();
    expect(await rows(`binding_id = 'deep'`)).toHaveLength(1);
  });

  // What our schema lets pass and the database does not: nothing is known, which is why a trigger plays it.
  test.each(['22P05', '54000'])(
    'that the database refuses for good (%s) let the next ones come through',
    async (code) => {
      const owner = new pg.Client(app.place.ownerUrl);
      await owner.connect();
      const before = await poisoned();
      try {
        await owner.query(
          `create function public.refuse() returns trigger language plpgsql
           as $$ begin raise exception 'cannot be stored' using errcode = '${code}'; end $$;
         create trigger refuse before insert on data_foundations.store_bindings
           for each row when (new.binding_id = 'refused') execute function public.refuse()`,
        );
        await bus.publish(message(binding('refused')));
        await settled();
        expect(await rows(`binding_id = 'refused'`)).toEqual([]);
        expect(await poisoned()).toBe(before + 1);
      } finally {
        await owner.query(`drop function public.refuse() cascade`);
        await owner.end();
      }
    },
  );

  test('are judged again when the rule changes, which a dry run counts before', async () => {
    const body = { ...RESIDENCY, allowedRegions: ['westeurope'] };
    const preview = await app.put('/factory/data/residency?dryRun=true', { client: 'acme-admin', body });
    expect(preview).toMatchObject({ status: 200, body: { scanned: 3, compliant: 2, violating: 1, errors: 0 } });
    expect(await alerts()).toHaveLength(1);
    await app.put('/factory/data/residency', { client: 'acme-admin', body });
    expect((await list('?violations=true')).items).toMatchObject([
      { bindingId: 'b-2', reasons: [{ code: 'REGION_NOT_ALLOWED' }] },
    ]);
    expect(await alerts()).toHaveLength(2);
    expect(await violations()).toBe(2);
    // It violates the next rule too: nobody is told again.
    await app.put('/factory/data/residency', { client: 'acme-admin', body: { ...body, modelDataResidency: 'any' } });
    expect(await alerts()).toHaveLength(2);
    expect((await verifyEvidence(app.database)).breaks).toEqual([]);
  });

  test('that arrive while the rule changes are judged by the new one', async () => {
    for (let round = 0; round < 10; round++) {
      const engine = round % 2 ? 'azure-sql' : 'postgres';
      const body = { ...RESIDENCY, allowedEngines: { runs: [engine] } };
      const id = `race-${round}`;
      await Promise.all([
        bus.publish(message(binding(id))),
        app.put('/factory/data/residency', { client: 'acme-admin', body }),
      ]);
      await settled();
      expect(await rows(`binding_id = '${id}'`)).toMatchObject([{ allowed: engine === 'azure-sql' }]);
    }
  });

  test('are listed page by page', async () => {
    const seen: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: Awaited<ReturnType<typeof list>> = await list(`?limit=4${cursor && `&cursor=${cursor}`}`);
      seen.push(...page.items.map(({ bindingId }) => bindingId));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual((await list('?limit=200')).items.map(({ bindingId }) => bindingId));
    expect(seen).toHaveLength(13);
    for (const query of ['?limit=0', '?limit=201', '?limit=x', '?cursor=%25', '?violations=maybe', '?x=1']) {
      const { status } = await app.get(`/factory/data/residency/bindings${query}`, { client: 'acme-admin' });
      expect([query, status >= 400 && status < 500]).toEqual([query, true]);
    }
  });
});

describe('EvaluateResidency', () => {
  test('answers 200 rules and their candidates as a model does', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity);
    const service = app.app.get(ResidencyService);
    try {
      const offered = ['westeurope', 'israelcentral'];
      const regions = fc.constantFrom(...offered);
      const engines = fc.constantFrom('azure-sql', 'qdrant');
      const rules = fc.record({
        allowedRegions: fc.uniqueArray(regions, { minLength: 1 }),
        allowedEngines: fc.dictionary(fc.constantFrom(...STORE_CLASSES), fc.uniqueArray(engines)),
        modelDataResidency: fc.constantFrom(...MODEL_DATA_RESIDENCIES),
      });
      const candidates = fc.array(
        fc.record({
          kind: fc.constantFrom(...CANDIDATE_KINDS),
          storeClass: fc.constantFrom(...STORE_CLASSES, 'scrolls'),
          engine: engines,
          region: fc.constantFrom(...offered, 'atlantis'),
        }),
        { minLength: 10, maxLength: 10 },
      );
      const actor = {
        clientId: 'x',
        isPlatformAdmin: false,
        origin: { traceId: 'a', correlationId: 'b', causationId: 'c' },
      };
      let tenant = 0;
      await fc.assert(
        fc.asyncProperty(rules, candidates, async (rule, each) => {
          const tenantId = `t${tenant++}`;
          const region = rule.allowedRegions[0] as string;
          await service.setResidency({ ...rule, tenantId, region, justification: 'x' }, actor);
          for (const candidate of each) {
            const mayModel = { 'same-region': [region], 'allowed-regions': rule.allowedRegions, any: offered };
            const isModel = candidate.kind === 'model-deployment';
            const places = isModel ? mayModel[rule.modelDataResidency] : rule.allowedRegions;
            const byClass = rule.allowedEngines as Record<string, string[]>;
            const hasEngine = byClass[candidate.storeClass]?.includes(candidate.engine) ?? false;
            const expected = places.includes(candidate.region) && (candidate.kind !== 'store-binding' || hasEngine);
            const decision = service.evaluate({ ...candidate, tenantId, dryRun: true });
            expect([decision.allowed, decision.reasons.length === 0]).toEqual([expected, expected]);
          }
        }),
        { numRuns: 200 },
      );
    } finally {
      await app.close();
      await identity.stop();
    }
  });

  test('on another replica sees a change within a second, after a lost connection too, and never waits for the database', async () => {
    const identity = await openIdentity();
    const first = await openApp(identity);
    const proxy = await openProxy(first.place.urls.platform);
    const urls = { app: proxy.through(first.place.urls.app), platform: proxy.through(first.place.urls.platform) };
    const second = await startApp(identity, { urls });
    const grpc = openGrpc(second.grpcAddress);
    const token = await identity.token('StoreProfileService');
    const decide = async () => {
      const request = {
        tenantId: 'acme',
        kind: 'STORE_BINDING',
        storeClass: 'runs',
        engine: 'azure-sql',
        region: 'westeurope',
      };
      return (await grpc.evaluate(request, token)).message as { allowed: boolean; ruleVersion: number };
    };
    const change = (engine: string) =>
      first.put('/factory/data/residency', {
        client: 'acme-admin',
        body: { ...RESIDENCY, allowedEngines: { runs: [engine] } },
      });
    try {
      expect(await decide()).toMatchObject({ allowed: false, ruleVersion: 0 });
      await change('azure-sql');
      expect(await until(async () => (await decide()).allowed)).toBeLessThan(1000);
      await change('mysql');
      expect(await until(async () => !(await decide()).allowed)).toBeLessThan(1000);

      await proxy.cut();
      await change('azure-sql');
      expect(await decide()).toMatchObject({ allowed: false, ruleVersion: 2 });
      expect(await second.get('/factory/data/residency', { client: 'acme-admin' })).toMatchObject({
        status: 503,
        body: { code: 'dependency-unavailable' },
      });
      expect(await second.get('/health/ready')).toMatchObject({
        status: 503,
        body: { checks: { database: 'unavailable' } },
      });
      expect(await second.get('/health/live')).toMatchObject({ status: 200 });

      await proxy.mend();
      await until(async () => (await decide()).ruleVersion === 3);
      expect(await decide()).toMatchObject({ allowed: true });
      await until(async () => (await second.get('/health/ready')).status === 200);
      expect(await second.get('/factory/data/residency', { client: 'acme-admin' })).toMatchObject({ status: 200 });
    } finally {
      grpc.close();
      await second.close();
      await proxy.cut();
      await first.close();
      await identity.stop();
    }
  });

  test('judges a tenant without a rule by the default rule where the configuration says so', async () => {
    const identity = await openIdentity();
    const app = await openApp(identity, { DATA_EVENT_RETENTION_DEFAULT_RESIDENCY_APPLIES: 'true' });
    const evaluate = (body: object) =>
      app.post('/factory/data/residency/evaluate', { client: 'globex-admin', body: { engine: 'any', ...body } });
    try {
      const binding = { kind: 'store-binding', storeClass: 'runs' };
      expect((await evaluate({ ...binding, region: 'westeurope' })).body).toMatchObject({
        allowed: true,
        ruleVersion: 0,
      });
      expect((await evaluate({ ...binding, region: 'israelcentral' })).body).toMatchObject({ allowed: false });
    } finally {
      await app.close();
      await identity.stop();
    }
  });
});

describe('residency rules in memory', () => {
  let world: Awaited<ReturnType<typeof openGovernance>>;
  let owner: pg.Client;
  beforeAll(async () => {
    world = await openGovernance();
    owner = new pg.Client(world.ownerUrl);
    await owner.connect();
  });
  afterAll(async () => {
    await owner.end();
    await world.close();
  });

  const memoryOf = (database: Pick<Database, 'asPlatform'>, platformDatabaseUrl = world.urls.platform) =>
    new ResidencyMemory(database as Database, { platformDatabaseUrl });
  /** As the service makes it, in its nth version. */
  const ruleOf = (tenantId: string, version: number) => {
    const rule = new ResidencyRule(tenantId);
    rule.set(readResidency(RESIDENCY, ['westeurope', 'israelcentral']), world.time.now());
    return Object.assign(rule, { version });
  };

  test('are those of the database that is found after a lost connection, also where it has older versions', async () => {
    await world.database.asPlatform((em) => knowTenants(em, 'kept', 'gone'));
    await owner.query(`update data_foundations.residency_rules set version = 5`);
    const proxy = await openProxy(world.urls.platform);
    const memory = memoryOf(world.database, proxy.through(world.urls.platform));
    await memory.onApplicationBootstrap();
    try {
      expect([memory.get('kept')?.version, memory.get('gone')?.version]).toEqual([5, 5]);
      await proxy.cut();
      // A backup knows nothing of those who listen.
      await owner.query(`
        set session_replication_role = replica;
        update data_foundations.residency_rules set version = 3, allowed_regions = '{westeurope,israelcentral}';
        delete from data_foundations.residency_rules where tenant_id = 'gone';
        reset session_replication_role`);
      await proxy.mend();
      await until(() => memory.get('gone') === undefined);
      expect(memory.get('kept')).toMatchObject({
        version: 3,
        rule: { allowedRegions: ['westeurope', 'israelcentral'] },
      });
    } finally {
      await memory.onModuleDestroy();
      await proxy.cut();
    }
  });

  test('that are made or changed while all are read again are not forgotten', async () => {
    await world.database.asPlatform((em) => knowTenants(em, 'changed'));
    const [isRead, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const memory = memoryOf({
      asPlatform: async (body) => {
        const rows = await world.database.asPlatform(body);
        isRead.resolve();
        await goOn.promise;
        return rows;
      },
    });
    const starting = memory.onApplicationBootstrap();
    try {
      await isRead.promise;
      memory.remember(ruleOf('made', 1));
      memory.remember(ruleOf('changed', 2));
      memory.remember(ruleOf('changed', 1));
      expect([memory.get('made')?.version, memory.get('changed')?.version]).toEqual([1, 2]);
      goOn.resolve();
      await starting;
      expect([memory.get('made')?.version, memory.get('changed')?.version]).toEqual([1, 2]);
    } finally {
      goOn.resolve();
      await memory.onModuleDestroy();
    }
  });
});
