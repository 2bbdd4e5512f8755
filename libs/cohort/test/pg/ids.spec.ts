import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Strategy, TenantContext } from 'nestjs-cohort';
import { type Host, openHost } from '../support/host.js';
import { model } from '../support/models.js';
import { ACME, NOW } from '../support/notes.js';
import { countRows, holdOn } from '../support/seed.js';
import { OURS } from '../support/schema.js';

async function open(properties: Parameters<typeof model>[0], before?: (host: Host) => Promise<void>) {
  const note = model(properties);
  const host = await openHost({
    entities: [note],
    options: { rules: { notes: { period: 'P30D', strategy: Strategy.Purge } } },
  });
  await before?.(host);
  return { host, note };
}
const OLD = '2020-01-01';

test.each(['1234567890123456789', '9223372036854775807', '-9223372036854775808'])(
  'a row whose bigint id is %s can be held',
  async (id) => {
    const { host, note } = await open({ properties: { id: { type: 'bigint', primary: true, autoincrement: false } } });
    await host.query(`insert into note(id, tenant_id, created_at) values ($1, 'acme', $2)`, [id, OLD]);
    await host.holds.create(holdOn(note, id));
    await host.sweep.sweep(ACME, NOW);
    expect(await countRows(host, 'note')).toBe(1);
  },
);

test.each([
  ['int', '2147483647'],
  ['bigint', '1234567890123456789'],
])('the tenant of a column of type %s with id %s is swept', async (type, id) => {
  const { host } = await open({ properties: { tenantId: { type } } });
  await host.query(`insert into note(id, tenant_id, created_at) values (gen_random_uuid(), $1, $2)`, [id, OLD]);
  expect(await host.sweep.sweep(new TenantContext(id), NOW)).toMatchObject({
    status: 'succeeded',
    counts: [{ affected: 1 }],
  });
});

describe('a tenant that the column cannot hold fails alone', () => {
  test.each([
    ['smallint', 'acme'],
    ['smallint', '70000'],
    ['int', '9999999999'],
    ['int8', 'acme'],
  ])('%s, %s', async (columnType, wrong) => {
    const { host } = await open({ properties: { tenantId: { type: 'integer', columnType } } });
    await host.query(`insert into note(id, tenant_id, created_at) values (gen_random_uuid(), 1, $1)`, [OLD]);
    const [one, other] = await Array.fromAsync(
      host.sweep.sweepMany([new TenantContext('1'), new TenantContext(wrong)], NOW),
    );
    expect(other!.status).toBe('partiallyFailed');
    expect(one).toMatchObject({ status: 'succeeded', counts: [{ affected: 1 }] });
  });
});

test.each([
  ['numeric(10,2)', '1.5', '1.50'],
  ['numeric', '1.50', '1.5'],
])('hasActive finds the hold of a %s id however it is spelt: %s for %s', async (columnType, asked, stored) => {
  const { host, note } = await open({ properties: { id: { type: 'decimal', columnType, primary: true } } });
  await host.query(`insert into note(id, tenant_id, created_at) values ($1, 'acme', $2)`, [stored, OLD]);
  await host.holds.create(holdOn(note, asked));
  expect(await host.holds.hasActive({ entity: note, recordId: asked, tenant: ACME })).toBe(true);
});

test('a tenant named in two spellings of one UUID is swept and counted once', async () => {
  const { host, note } = await open({ properties: { tenantId: { type: 'uuid' } } });
  const tenant = randomUUID();
  const [held] = await host.query<{ id: string }>(
    `insert into note(id, tenant_id, created_at) select gen_random_uuid(), $1, $2 from generate_series(1, 3) returning id`,
    [tenant, OLD],
  );
  await host.holds.create(holdOn(note, held!.id, new TenantContext(tenant.toUpperCase())));
  const results = await Array.fromAsync(
    host.sweep.sweepMany([new TenantContext(tenant), new TenantContext(tenant.toUpperCase())], NOW),
  );
  expect(results.flatMap((result) => result.counts).reduce((sum, each) => sum + each.affected, 0)).toBe(2);
  expect(results.flatMap((result) => result.counts).reduce((sum, each) => sum + each.held, 0)).toBe(1);
});

test('holds of a tenant are listed however its UUID is spelt', async () => {
  const { host, note } = await open({ properties: { tenantId: { type: 'uuid' } } });
  const tenant = randomUUID();
  const [row] = await host.query<{ id: string }>(
    `insert into note(id, tenant_id, created_at) values (gen_random_uuid(), $1, $2) returning id`,
    [tenant, OLD],
  );
  const upper = new TenantContext(tenant.toUpperCase());
  await host.holds.create(holdOn(note, row!.id, upper));
  expect(await host.holds.list({ activeAsOf: new Date(Date.now() + 60_000), tenant: upper })).toHaveLength(1);
});

const AWKWARD = [
  'NULL',
  'null',
  `o'hara`,
  'a,b',
  '{a}',
  '{}',
  '"',
  '\\',
  '\\N',
  '(0,1)',
  ' a ',
  'é',
  'e\u0301',
  '💀',
  '%',
  '$1',
  '?',
];

// acceptance 269, 271
test('ids and tenants of any text are held, matched and swept as they are', async () => {
  const { host, note } = await open({
    properties: { id: { type: 'text', primary: true } },
    retain: { auditRowDetail: 'perRow' },
  });
  await host.query(
    'insert into note(id, tenant_id, created_at) select t || i, t, $2 from unnest($1::text[]) t, unnest($1::text[]) i',
    [AWKWARD, OLD],
  );
  const tenants = AWKWARD.map((id) => new TenantContext(id));
  await host.holds.create(
    tenants.flatMap((tenant) => AWKWARD.slice(0, 5).map((id) => holdOn(note, tenant.id + id, tenant))),
  );
  const results = await Array.fromAsync(host.sweep.sweepMany(tenants, NOW));
  expect(results.map((result) => result.status)).toEqual(AWKWARD.map(() => 'succeeded'));
  expect(results.map((result) => [result.counts[0]!.affected, result.counts[0]!.held])).toEqual(
    AWKWARD.map(() => [AWKWARD.length - 5, 5]),
  );
  expect(await countRows(host, 'note')).toBe(AWKWARD.length * 5);
  expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(AWKWARD.length * (AWKWARD.length - 5));
});

test('anchors at infinity stay, at minus infinity go, ties do not matter', async () => {
  const { host } = await open({});
  await host.query(
    `insert into note(id, tenant_id, created_at) select gen_random_uuid(), 'acme', a from unnest('{infinity,-infinity,2020-01-01,2020-01-01,4000-01-01 BC}'::timestamptz[]) a`,
  );
  expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded', counts: [{ affected: 4 }] });
});

// Of other types one wrong id would fail the statement of every other tenant.
test('a tenant column that is neither uuid nor text nor integer is refused at start', async () => {
  const note = model({
    properties: { tenantId: { type: 'string', enum: true, items: ['acme', 'globex'], nativeEnumName: 'TenantKind' } },
  });
  const host = await openHost({
    entities: [note],
    options: { rules: { notes: { period: 'P30D', strategy: Strategy.Purge } } },
  });
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(
    /tenant 'tenantId' is .*TenantKind.*; wanted: uuid, a text or an integer/,
  );
});

test('a tenant named in two spellings of one integer is swept once', async () => {
  const { host } = await open({ properties: { tenantId: { type: 'integer' } } });
  await host.query(
    `insert into note(id, tenant_id, created_at) select gen_random_uuid(), t, $1 from unnest('{7,7,8}'::int[]) t`,
    [OLD],
  );
  const tenants = ['7', '07', ' +7', '8'].map((id) => new TenantContext(id));
  const results = await Array.fromAsync(host.sweep.sweepMany(tenants, NOW));
  expect(results.map((result) => [result.tenantId, result.counts[0]?.affected])).toEqual([
    ['7', 2],
    ['8', 1],
  ]);
});
