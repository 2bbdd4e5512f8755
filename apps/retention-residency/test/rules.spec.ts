import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { verifyEvidence } from '../src/evidence/verify-evidence.js';
import { runSql } from '../src/platform/sql.js';
import type { SetRetentionRule } from '../src/rules/rules.service.js';
import { seedPlatformRules } from '../src/rules/seed-platform-rules.js';
import { DAY_MS, DEFAULTS, actor, appended, knowTenants, openGovernance } from './support/governance.js';

const ACME: SetRetentionRule = {
  tenantId: 'acme',
  scope: 'tenant',
  storeClass: 'runs',
  classification: 'public',
  retentionDays: 30,
  justification: 'less is enough',
};
const PLATFORM_RUNS: SetRetentionRule = { ...ACME, tenantId: '*', scope: 'platform' };
const GRACE = 7 * DAY_MS;

describe('retention rules', () => {
  let world: Awaited<ReturnType<typeof openGovernance>>;
  beforeEach(async () => {
    world = await openGovernance();
  });
  afterEach(() => world.close());

  const daysOf = async (tenantId: string) => {
    const [found] = await world.rules.listRetentionRules(tenantId, { storeClass: 'runs', classification: 'public' });
    return found?.rules.inForce(found.at).retentionDays;
  };
  const told = async () =>
    (await appended(world.database)).map(({ eventType, tenantId, payload }) => [
      eventType,
      tenantId,
      payload.retentionDays,
    ]);
  const codeOf = (work: Promise<unknown>) =>
    work.then(
      () => 'accepted',
      (error: { code: string }) => error.code,
    );

  test('are seeded once, one for each store class and classification, and the stored one wins', async () => {
    const all = await world.rules.listRetentionRules('acme');
    expect(all).toHaveLength(20);
    expect(all.filter(({ rules }) => rules.platform.expiryAction === 'redact')).toHaveLength(4);
    await world.rules.setRetentionRule({ ...PLATFORM_RUNS, retentionDays: 400 }, actor('platform-admin', true));
    const differences = await seedPlatformRules(world.database, DEFAULTS, world.time);
    expect(differences).toEqual([{ storeClass: 'runs', classification: 'public', stored: 400, configured: 365 }]);
    expect(await daysOf('acme')).toBe(400);
  });

  // field case S04
  test('that are shortened take force after the grace, and tell it then', async () => {
    expect(await world.rules.previewRetentionRule(ACME)).toEqual({
      before: { retentionDays: 365, expiryAction: 'delete', legalHoldExempt: false },
      after: { retentionDays: 30, expiryAction: 'delete', legalHoldExempt: false },
      affectedTenants: 1,
      effectiveAt: new Date(world.time.now().getTime() + GRACE),
    });
    expect(await appended(world.database)).toEqual([]);

    const { rules, at } = await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    expect(rules.inForce(at).retentionDays).toBe(365);
    expect(rules.pending(at)).toMatchObject({ terms: { retentionDays: 30 } });
    world.time.advance(GRACE - 1);
    expect(await world.activator.tick()).toBe(0);
    expect([await daysOf('acme'), await told()]).toEqual([365, []]);
    world.time.advance(1);
    expect(await daysOf('acme')).toBe(30);
    expect(await world.activator.tick()).toBe(1);
    expect(await told()).toEqual([['RetentionRuleChanged', 'acme', 30]]);
    expect(await world.activator.tick()).toBe(0);
  });

  // field case S04
  test('that are shortened and reverted within the grace never took force', async () => {
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    world.time.advance(GRACE - 1);
    await world.rules.setRetentionRule({ ...ACME, retentionDays: null }, actor('acme-admin'));
    world.time.advance(GRACE);
    expect(await world.activator.tick()).toBe(0);
    expect([await daysOf('acme'), await told()]).toEqual([365, []]);
  });

  test('that are lengthened take force at once', async () => {
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    world.time.advance(GRACE);
    await world.activator.tick();
    await world.rules.setRetentionRule({ ...ACME, retentionDays: 60 }, actor('acme-admin'));
    expect(await daysOf('acme')).toBe(60);
    expect(await told()).toEqual([
      ['RetentionRuleChanged', 'acme', 30],
      ['RetentionRuleChanged', 'acme', 60],
    ]);
  });

  test('that changed before the end of a grace was told are told once, with the value in force', async () => {
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    world.time.advance(GRACE);
    await world.rules.setRetentionRule({ ...ACME, retentionDays: 60 }, actor('acme-admin'));
    expect(await world.activator.tick()).toBe(0);
    expect(await told()).toEqual([['RetentionRuleChanged', 'acme', 60]]);
  });

  test.each([
    { first: 'both at once', platformWaits: 0, ownWaits: 0, asked: 30, inForce: 30 },
    { first: "the platform's", platformWaits: 0, ownWaits: DAY_MS, asked: 30, inForce: 30 },
    { first: "the tenant's", platformWaits: DAY_MS, ownWaits: 0, asked: 100, inForce: 80 },
  ])('whose graces end before one is told, $first first, tell the value in force once', async (each) => {
    const { platformWaits, ownWaits, asked, inForce } = each;
    await world.database.asPlatform((em) => knowTenants(em, 'acme', 'globex'));
    const lowerPlatform = () =>
      world.rules.setRetentionRule({ ...PLATFORM_RUNS, retentionDays: 80 }, actor('platform-admin', true));
    if (platformWaits === 0) await lowerPlatform();
    world.time.advance(ownWaits);
    await world.rules.setRetentionRule({ ...ACME, retentionDays: asked }, actor('acme-admin'));
    world.time.advance(platformWaits);
    if (platformWaits > 0) await lowerPlatform();
    world.time.advance(GRACE);
    expect(await world.activator.tick()).toBe(2);
    expect(await told()).toEqual([
      ['RetentionRuleChanged', 'acme', inForce],
      ['RetentionRuleChanged', 'globex', 80],
    ]);
    expect(await world.activator.tick()).toBe(0);
    const entries = await world.database.asPlatform((em) =>
      runSql(em, `select tenant_id from data_foundations.evidence where kind = 'retention-rule-in-force' order by 1`),
    );
    expect(entries).toEqual([{ tenant_id: '*' }, { tenant_id: 'acme' }]);
  });

  test('that cannot take force are tried again, and hold up no others', async () => {
    const owner = new pg.Client(world.ownerUrl);
    await owner.connect();
    try {
      await world.rules.setRetentionRule(ACME, actor('acme-admin'));
      world.time.advance(1);
      await world.rules.setRetentionRule({ ...ACME, tenantId: 'globex' }, actor('globex-admin'));
      world.time.advance(GRACE);
      await owner.query(
        `alter table data_foundations.evidence add constraint nothing_of_acme check (tenant_id <> 'acme') not valid`,
      );
      expect(await world.activator.tick()).toBe(1);
      expect(await told()).toEqual([['RetentionRuleChanged', 'globex', 30]]);
      await owner.query('alter table data_foundations.evidence drop constraint nothing_of_acme');
      expect(await world.activator.tick()).toBe(1);
      expect((await told()).slice(1)).toEqual([['RetentionRuleChanged', 'acme', 30]]);
    } finally {
      await owner.end();
    }
  });

  test('with the current content change nothing', async () => {
    const first = await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    world.time.advance(DAY_MS);
    const second = await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    expect(second.rules.version).toBe(first.rules.version);
    expect(second.rules.pending(second.at)).toEqual(first.rules.pending(first.at));
    const removed = await world.rules.setRetentionRule(
      { ...ACME, tenantId: 'globex', retentionDays: null },
      actor('x'),
    );
    expect(removed.rules.version).toBe(1);
    const entries = await world.database.asPlatform((em) => runSql(em, 'select from data_foundations.evidence'));
    expect(entries).toHaveLength(1);
  });

  // G39
  test('that are removed leave the row, inactive, and the platform rule', async () => {
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    world.time.advance(GRACE);
    const { rules, at } = await world.rules.setRetentionRule({ ...ACME, retentionDays: null }, actor('acme-admin'));
    expect([rules.override, rules.inForce(at).retentionDays, rules.version]).toEqual([null, 365, 3]);
    const rows = await world.database.inTenant('acme', (em) =>
      runSql(em, `select active, retention_days from data_foundations.retention_rules where tenant_id = 'acme'`),
    );
    expect(rows).toEqual([{ active: false, retention_days: 30 }]);
    await world.rules.setRetentionRule({ ...ACME, retentionDays: 20 }, actor('acme-admin'));
    const [again] = await world.rules.listRetentionRules('acme', { storeClass: 'runs', classification: 'public' });
    expect(again?.rules).toMatchObject({ version: 4, override: { active: true, retentionDays: 20 } });
    const removal = { ...PLATFORM_RUNS, retentionDays: null };
    expect(await codeOf(world.rules.setRetentionRule(removal, actor('p', true)))).toBe('validation');
  });

  // G13
  test('of the platform are told to the tenants whose value in force they change', async () => {
    await world.database.asPlatform((em) => knowTenants(em, 'acme', 'globex', 'initech'));
    await world.rules.setRetentionRule({ ...ACME, retentionDays: 100 }, actor('acme-admin'));
    world.time.advance(GRACE);
    await world.activator.tick();
    await world.rules.setRetentionRule({ ...ACME, tenantId: 'globex', retentionDays: 50 }, actor('globex-admin'));
    world.time.advance(GRACE);
    await world.activator.tick();
    const lowered = { ...PLATFORM_RUNS, retentionDays: 80 };
    expect(await world.rules.previewRetentionRule(lowered)).toMatchObject({ affectedTenants: 2 });
    await world.rules.setRetentionRule(lowered, actor('platform-admin', true));
    expect(await told()).toHaveLength(2);
    world.time.advance(GRACE);
    expect(await world.activator.tick()).toBe(1);
    expect((await told()).slice(2)).toEqual([
      ['RetentionRuleChanged', 'acme', 80],
      ['RetentionRuleChanged', 'initech', 80],
    ]);
    const [acme] = await world.rules.listRetentionRules('acme', { storeClass: 'runs', classification: 'public' });
    expect(acme?.rules).toMatchObject({ override: { retentionDays: 100 }, platform: { retentionDays: 80 } });
  });

  test('of the platform do not count a tenant that its own pending change takes where it goes anyway', async () => {
    await world.database.asPlatform((em) => knowTenants(em, 'globex'));
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    expect(await world.rules.previewRetentionRule({ ...PLATFORM_RUNS, retentionDays: 300 })).toMatchObject({
      affectedTenants: 1,
    });
    expect(await world.rules.previewRetentionRule({ ...PLATFORM_RUNS, retentionDays: 20 })).toMatchObject({
      affectedTenants: 2,
    });
  });

  // G11
  test('of the platform for audit are in force for every tenant, and told to all when they are lengthened', async () => {
    const audit = { ...ACME, storeClass: 'audit', retentionDays: 2555 } as const;
    await world.database.asPlatform((em) => knowTenants(em, 'acme', 'globex'));
    await world.rules.setRetentionRule(audit, actor('acme-admin'));
    const raised = { ...audit, tenantId: '*', scope: 'platform', retentionDays: 3000 } as const;
    expect(await world.rules.previewRetentionRule(raised)).toMatchObject({ affectedTenants: 2 });
    await world.rules.setRetentionRule(raised, actor('platform-admin', true));
    expect(await told()).toEqual([
      ['RetentionRuleChanged', 'acme', 3000],
      ['RetentionRuleChanged', 'globex', 3000],
    ]);
    const explained = await world.rules.explainRetentionRule('acme', 'audit', 'public');
    expect(explained.terms.retentionDays).toBe(3000);
    expect(await codeOf(world.rules.setRetentionRule({ ...audit, retentionDays: 2999 }, actor('acme-admin')))).toBe(
      'retention-floor',
    );
  });

  test('refuse what is beyond the platform, below the floor, or was changed meanwhile', async () => {
    const set = (change: Partial<SetRetentionRule>) =>
      codeOf(world.rules.setRetentionRule({ ...ACME, ...change }, actor('acme-admin')));
    expect(await set({ retentionDays: 366 })).toBe('retention-ceiling');
    expect(await set({ storeClass: 'audit', retentionDays: 2554 })).toBe('retention-floor');
    expect(await set({ storeClass: 'audit', retentionDays: 2555, expiryAction: 'delete' })).toBe('retention-floor');
    expect(await set({ ifVersion: 2 })).toBe('precondition-failed');
    expect(await set({ ifVersion: 1 })).toBe('accepted');
    expect(await set({ retentionDays: 20, ifVersion: 1 })).toBe('precondition-failed');
    expect(await set({ retentionDays: 20, ifVersion: 2 })).toBe('accepted');
    expect(await set({ retentionDays: 0 })).toBe('validation');
    expect(await daysOf('acme')).toBe(365);
  });

  test('are explained by what is in force, with the instant before which data has expired', async () => {
    await world.rules.setRetentionRule(ACME, actor('acme-admin'));
    const explained = await world.rules.explainRetentionRule('acme', 'runs', 'public');
    expect(explained.terms.retentionDays).toBe(365);
    expect(explained.layers.map(({ layer, outcome }) => `${layer} ${outcome}`)).toEqual([
      'platform decides',
      'tenant shortens',
      'grace waits',
    ]);
    expect(explained.cutoff).toEqual(new Date('2025-03-01T12:00:00.123Z'));
  });

  test('of two tenants and the platform that change at once agree with what was told last', async () => {
    await world.database.asPlatform((em) => knowTenants(em, 'acme', 'globex'));
    for (let round = 0; round < 8; round++) {
      const days = 300 - 20 * round;
      await Promise.all([
        world.rules.setRetentionRule({ ...PLATFORM_RUNS, retentionDays: days + 40 }, actor('p', true)),
        world.rules
          .setRetentionRule({ ...ACME, retentionDays: days - 150 }, actor('acme-admin'))
          .catch(() => undefined),
        world.rules
          .setRetentionRule({ ...ACME, retentionDays: days - 100 }, actor('acme-admin'))
          .catch(() => undefined),
        world.rules
          .setRetentionRule({ ...ACME, tenantId: 'globex', retentionDays: days }, actor('g'))
          .catch(() => undefined),
      ]);
      world.time.advance(GRACE);
      await Promise.all([world.activator.tick(), world.activator.tick()]);
    }
    const last = new Map((await told()).map(([, tenant, days]) => [tenant, days]));
    for (const tenant of ['acme', 'globex']) expect(last.get(tenant)).toBe(await daysOf(tenant));
    expect(await verifyEvidence(world.database)).toMatchObject({ chains: 3, breaks: [] });
  });
});
