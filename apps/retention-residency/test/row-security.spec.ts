import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Database, DatabaseRoleError } from '../src/platform/database.js';
import { runSql } from '../src/platform/sql.js';
import { actor, knowTenants, openGovernance } from './support/governance.js';

const TENANT_TABLES = ['retention_rules', 'residency_rules', 'store_bindings', 'evidence', 'evidence_heads'];

describe('row-level security', () => {
  let world: Awaited<ReturnType<typeof openGovernance>>;

  beforeAll(async () => {
    // One connection: whatever a tenant left on it, the next one would see.
    world = await openGovernance({ pool: 1 });
    await world.database.asPlatform((em) => knowTenants(em, 'acme', 'globex'));
    await world.database.asPlatform((em) =>
      runSql(
        em,
        `insert into data_foundations.store_bindings
         select 'b-' || tenant, tenant, 'runs', 'azure-sql', 'westeurope', now(), true, '[]', now(), 1
         from unnest('{acme,globex}'::text[]) as tenant`,
      ),
    );
    for (const tenantId of ['acme', 'globex']) {
      await world.rules.setRetentionRule(
        {
          tenantId,
          scope: 'tenant',
          storeClass: 'runs',
          classification: 'public',
          retentionDays: 30,
          justification: 'x',
        },
        actor(tenantId),
      );
    }
  });
  afterAll(() => world.close());

  const tenantsSeen = (tenant: string, table: string) =>
    world.database.inTenant(tenant, async (em) => {
      const rows = await runSql<{ tenant_id: string }>(
        em,
        `select distinct tenant_id from data_foundations.${table} where tenant_id <> '*' order by 1`,
      );
      return rows.map(({ tenant_id }) => tenant_id);
    });

  test.each(TENANT_TABLES)('shows a tenant its own rows of %s alone, on one connection', async (table) => {
    const mixed = await Promise.all(['acme', 'globex', 'acme', 'nobody'].map((tenant) => tenantsSeen(tenant, table)));
    expect(mixed).toEqual([['acme'], ['globex'], ['acme'], []]);
  });

  test('lets nobody write for another tenant, nor for the platform', async () => {
    const write = (tenantId: string) =>
      world.database.inTenant('acme', (em) =>
        runSql(em, `update data_foundations.retention_rules set retention_days = 1 where tenant_id = $1 returning 1`, [
          tenantId,
        ]),
      );
    expect(await write('globex')).toEqual([]);
    expect(await write('*')).toEqual([]);
    const insert = world.database.inTenant('acme', (em) => knowTenants(em, 'initech'));
    await expect(insert).rejects.toThrow(/row-level security/);
    const moved = world.database.inTenant('acme', (em) =>
      runSql(em, `update data_foundations.residency_rules set tenant_id = 'other'`),
    );
    await expect(moved).rejects.toThrow(/row-level security/);
  });

  test('leaves nothing of a tenant on the connection after a failure', async () => {
    const failing = world.database.inTenant('acme', (em) => runSql(em, 'select 1 / 0'));
    await expect(failing).rejects.toThrow(/division/);
    expect(await tenantsSeen('globex', 'residency_rules')).toEqual(['globex']);
  });

  test('shows the outbox to the platform alone', async () => {
    const read = world.database.inTenant('acme', (em) => runSql(em, 'select from data_foundations.outbox'));
    await expect(read).rejects.toThrow(/permission denied/);
    const inbox = world.database.inTenant('acme', (em) => runSql(em, 'select from data_foundations.inbox'));
    await expect(inbox).rejects.toThrow(/permission denied/);
  });

  test('refuses raw SQL outside of a transaction, where there would be no tenant', async () => {
    const outside = world.database.inTenant('acme', async (em) => em.fork({ clear: true }));
    await expect(runSql(await outside, 'select 1')).rejects.toThrow(/needs a transaction/);
  });

  test('is not started without: a role that bypasses it is refused', async () => {
    const mighty = { app: world.ownerUrl, platform: world.urls.platform };
    await expect(Database.open({ urls: mighty, pool: 1 })).rejects.toThrow(DatabaseRoleError);
    // The platform's login for requests would hide nothing.
    const platformTwice = { app: world.urls.platform, platform: world.urls.platform };
    await expect(Database.open({ urls: platformTwice, pool: 1 })).rejects.toThrow(DatabaseRoleError);
    const platform = { app: world.urls.app, platform: world.ownerUrl };
    await expect(Database.open({ urls: platform, pool: 1 })).rejects.toThrow(/PLATFORM_DATABASE_URL/);
  });
});
