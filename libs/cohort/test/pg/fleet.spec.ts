import { describe, expect, test } from '@jest/globals';
import { TENANTLESS, TENANTLESS_ID, TenantContext } from 'nestjs-cohort';
import { type Host, type HostOptions, openHost } from '../support/host.js';
import { ACME, GLOBEX, NOW, SessionNote, daysBefore, notesHost } from '../support/notes.js';
import { addContacts, addNotes, addTickets, countRows, holdOn } from '../support/seed.js';
import { OURS } from '../support/schema.js';

async function open(options: Partial<HostOptions['options']> = {}): Promise<Host> {
  return openHost({ ...notesHost, options: { ...notesHost.options, ...options } });
}

const tenantsOf = (count: number) => Array.from({ length: count }, (_, index) => new TenantContext(`tenant-${index}`));

describe('sweepMany', () => {
  test.each(['with an index on tenant and anchor', 'without one'])(
    'sweeps 2,000 tenants in one pass on two lanes, %s',
    async (index) => {
      const host = await open({ parallelism: 2, sweepBatchSize: 700 });
      if (index.startsWith('with an')) await host.query('create index on session_notes (tenant_id, created_at)');
      const tenants = tenantsOf(2000);
      await host.query(
        `insert into session_notes(id, tenant_id, created_at, body)
       select gen_random_uuid(), 'tenant-' || (g % 2000), $1::timestamptz - g * interval '1 second', '' from generate_series(1, 10000) g`,
        [daysBefore(31)],
      );
      const [heldNote] = await host.query<{ id: string }>(
        `select id from session_notes where tenant_id = 'tenant-17' limit 1`,
      );
      await host.holds.create(holdOn(SessionNote, heldNote!.id, tenants[17]));

      const results = await Array.fromAsync(host.sweep.sweepMany(tenants, NOW));

      expect(results.map((result) => result.tenantId)).toEqual(tenants.map((tenant) => tenant.id));
      expect(new Set(results.map((result) => result.passId)).size).toBe(1);
      expect(results.every((result) => result.status === 'succeeded' && result.counts.length === 3)).toBe(true);
      const notes = results.map((result) => result.counts.find((each) => each.entity === 'SessionNote')!);
      expect(
        notes.filter((_, tenant) => tenant !== 17).every((count) => count.affected === 5 && count.held === 0),
      ).toBe(true);
      expect(notes[17]).toMatchObject({ affected: 4, held: 1, skipped: 0 });
      expect(await countRows(host, 'session_notes')).toBe(1);
      expect(
        await host.query(`select count(*)::int as runs, sum(total_affected)::int as affected from ${OURS}.sweep_run`),
      ).toEqual([{ runs: 2000, affected: 9999 }]);
      const lanes = await host.query<{ status: string }>(`select status from ${OURS}.sweep_lane`);
      expect(lanes.map((lane) => lane.status)).toEqual(['settled', 'settled']);
    },
  );

  test('needs statements by entity, not by tenant', async () => {
    const host = await open();
    await host.readiness.context();
    const statements = await countStatements(host);
    await Array.fromAsync(host.sweep.sweepMany(tenantsOf(2), NOW));
    const few = statements.since();
    await Array.fromAsync(host.sweep.sweepMany(tenantsOf(500), NOW));
    const many = statements.since();
    expect(few).toBeGreaterThan(10);
    expect(many).toBe(few);
  });

  test('takes tenants from an async source, each once, tenantless entities along with them', async () => {
    const host = await open();
    await addNotes(host, [{}, { tenant: 'globex' }]);
    await host.query('insert into signals(seen_at) values ($1)', [daysBefore(8)]);
    async function* source() {
      yield ACME;
      yield GLOBEX;
      yield new TenantContext('acme', { jurisdiction: 'DE' });
      yield TENANTLESS;
    }
    const results = await Array.fromAsync(host.sweep.sweepMany(source(), NOW));
    expect(
      results.map((result) => [result.tenantId, result.counts.map((each) => [each.entity, each.affected])]),
    ).toEqual([
      [
        'acme',
        [
          ['CaseContact', 0],
          ['SessionNote', 1],
          ['Ticket', 0],
        ],
      ],
      [
        'globex',
        [
          ['CaseContact', 0],
          ['SessionNote', 1],
          ['Ticket', 0],
        ],
      ],
      [TENANTLESS_ID, [['Signal', 1]]],
    ]);
  });

  test('of nobody writes nothing, and a tenant that is none is refused before anything is written', async () => {
    const host = await open();
    expect(await Array.fromAsync(host.sweep.sweepMany([], NOW))).toEqual([]);
    await expect(Array.fromAsync(host.sweep.sweepMany([ACME, null as never], NOW))).rejects.toMatchObject({
      code: 'invalid-argument',
      argument: 'tenants[1]',
    });
    expect(await countRows(host, `${OURS}.sweep_run`)).toBe(0);
  });
});

/** Counts what goes over the host's connections. */
async function countStatements(host: Host): Promise<{ since(): number }> {
  let statements = 0;
  const counted = new WeakSet<object>();
  const pool = await host.orm.em.getDriver().getConnection().getNativeClient();
  pool.on('acquire', (client) => {
    if (counted.has(client)) return;
    counted.add(client);
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => (statements++, query(...args))) as typeof client.query;
  });
  return {
    since: () => {
      const count = statements;
      statements = 0;
      return count;
    },
  };
}

// field case C25; DRY-01, acceptance 281, 289
test('preview, dry run and sweep of 12,000 mixed rows count the same', async () => {
  const host = await open();
  const kinds = [
    { days: 400 },
    { days: 29 },
    { days: null },
    { days: -5 },
    { days: 31 },
    { days: 400, tenant: 'globex' },
  ];
  const ids = await addNotes(
    host,
    Array.from({ length: 8000 }, (_, index) => kinds[index % kinds.length]!),
  );
  await addContacts(
    host,
    Array.from({ length: 2000 }, (_, index) => ({ days: index % 2 ? 400 : 10 })),
  );
  await addTickets(
    host,
    Array.from({ length: 2000 }, (_, index) => ({ days: index % 2 ? 400 : 10 })),
  );
  await host.query('update tickets set is_deleted = true where id % 5 = 0');
  await host.holds.create(ids.filter((_, index) => index % 60 === 0).map((id) => holdOn(SessionNote, id)));

  const preview = await host.preview.preview(ACME, NOW);
  const dryRun = await host.sweep.sweep(ACME, NOW, { dryRun: true });
  const untouched = await Promise.all(
    ['session_notes', 'case_contacts', 'tickets'].map((table) => host.query(`select * from ${table} order by id`)),
  );
  const sweep = await host.sweep.sweep(ACME, NOW);

  expect(dryRun).toMatchObject({ dryRun: true, status: 'succeeded' });
  expect(dryRun.counts).toEqual(preview.counts);
  expect(sweep.counts).toEqual(preview.counts);
  expect(sweep.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({
    affected: 2533,
    held: 134,
    nullAnchor: 1333,
  });
  expect(untouched.map((rows) => rows.length)).toEqual([8000, 2000, 2000]);
  expect(await countRows(host, 'session_notes')).toBe(8000 - 2533);
});
