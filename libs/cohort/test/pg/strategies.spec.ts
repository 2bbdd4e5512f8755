import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { TENANTLESS, Strategy } from 'nestjs-cohort';
import { type Host, openHost } from '../support/host.js';
import { anonymisable, model, softDeletable, textOrNull } from '../support/models.js';
import { ACME, GLOBEX, NOW, daysBefore } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { countRows, holdOn } from '../support/seed.js';

const LEGAL = { period: 'P30D', legalMin: 'P1Y' };

const open = (note: object, rule: object, more = {}) =>
  openHost({ entities: [note] as never, options: { rules: { notes: rule as never }, ...more } });

/** Notes of acme that many days old; null has no anchor. */
async function addNotes(host: Host, days: readonly (number | null)[], tenant = 'acme'): Promise<string[]> {
  const ids = days.map(() => randomUUID());
  await host.query(
    `insert into note(id, tenant_id, created_at) select i, $3, at from unnest($1::uuid[], $2::timestamptz[]) as r(i, at)`,
    [ids, days.map((day) => (day === null ? null : daysBefore(day).toISOString())), tenant],
  );
  return ids;
}

const tables = [
  `${OURS}.sweep_run`,
  `${OURS}.sweep_pass`,
  `${OURS}.sweep_run_entity_summary`,
  `${OURS}.sweep_run_row_detail`,
];
const nullableAnchor = { createdAt: { type: 'Date', columnType: 'timestamptz', nullable: true } };

// acceptance 214-219; PREV-01, PREV-04, PREV-05, PREV-08
describe('preview', () => {
  test.each(['purge', 'softDelete', 'anonymise'] as const)(
    'counts what %s would do, and changes nothing',
    async (strategy) => {
      const make = { purge: model, softDelete: softDeletable, anonymise: anonymisable }[strategy];
      const note = make({
        properties: {
          ...nullableAnchor,
          ...(strategy === 'softDelete' && { isDeleted: { type: 'boolean', default: false } }),
        },
      });
      const host = await open(note, { period: 'P30D', strategy });
      const [held] = await addNotes(host, [40, 50, 60, 20, null]);
      await addNotes(host, [40], 'globex');
      await host.holds.create(holdOn(note, held!));
      const before = await host.query('select * from note order by id');
      expect((await host.preview.preview(ACME, NOW)).counts).toMatchObject([
        { strategy, affected: 2, held: 1, nullAnchor: 1, skipped: 0 },
      ]);
      expect(await host.query('select * from note order by id')).toEqual(before);
      for (const table of tables) expect(await countRows(host, table)).toBe(0);
    },
  );

  test('takes the greater of period and legal minimum, and counts nothing that is exempt', async () => {
    const kept = await open(model(), { ...LEGAL, strategy: Strategy.Purge });
    await addNotes(kept, [40, 364, 366, 400]);
    expect((await kept.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 2 });
    const exempt = await open(model(), { period: 'P30D', strategy: Strategy.Exempt });
    await addNotes(exempt, [40]);
    expect((await exempt.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 0, held: 0, nullAnchor: 0 });
  });
});

// acceptance 235, 237, 452; SWP-35
test('soft deletion flags and stamps what is due, once', async () => {
  const host = await open(softDeletable({ properties: { isDeleted: { type: 'boolean', default: false } } }), {
    period: 'P30D',
    strategy: Strategy.SoftDelete,
  });
  const [due, young] = await addNotes(host, [40, 20]);
  const [trashed] = await addNotes(host, [50]);
  await addNotes(host, [40], 'globex');
  const long = daysBefore(45).toISOString();
  await host.query(`update note set is_deleted = true, deleted_at = $1 where id = $2`, [long, trashed]);
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
  const stateOf = async (id: string) => {
    const [row] = await host.query<{ gone: boolean; at: string | null }>(
      `select is_deleted as gone, to_char(deleted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at from note where id = $1`,
      [id],
    );
    return row;
  };
  expect(await stateOf(due!)).toEqual({ gone: true, at: NOW.toISOString() });
  expect(await stateOf(trashed!)).toEqual({ gone: true, at: long });
  expect(await stateOf(young!)).toEqual({ gone: false, at: null });
  expect((await host.sweep.sweep(ACME, new Date(NOW.getTime() + 1000))).counts[0]).toMatchObject({ affected: 0 });
  expect(await stateOf(due!)).toEqual({ gone: true, at: NOW.toISOString() });
});

// issue 3: no flag is needed where a date says the same
test('soft deletion by a date alone stamps it, once', async () => {
  const note = model({ properties: { deletedAt: { type: 'Date', columnType: 'timestamptz', nullable: true } } });
  const host = await open(note, { period: 'P30D', strategy: Strategy.SoftDelete });
  await addNotes(host, [40, 20]);
  expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
  expect(await countRows(host, 'note', 'deleted_at = $1', [NOW.toISOString()])).toBe(1);
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 0 });
});

// acceptance 241, 452; ANON-02
test('anonymising never touches a row again, whatever was written to it since', async () => {
  const host = await open(anonymisable({ properties: { email: textOrNull } }), {
    period: 'P30D',
    strategy: Strategy.Anonymise,
  });
  await addNotes(host, [40]);
  await host.sweep.sweep(ACME, NOW);
  await host.query(`update note set email = 'written since'`);
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 0 });
  expect(await host.query('select email from note')).toEqual([{ email: 'written since' }]);
});

// acceptance 257, 258; SWP-37
test.each([false, true])('rows without an anchor are counted and left alone (dry run: %p)', async (dryRun) => {
  const host = await open(model({ properties: nullableAnchor }), { period: 'P0D', strategy: Strategy.Purge });
  await addNotes(host, [null, null, 40]);
  expect((await host.sweep.sweep(ACME, NOW, { dryRun })).counts[0]).toMatchObject({ affected: 1, nullAnchor: 2 });
  expect(await countRows(host, 'note', 'created_at is null')).toBe(2);
});

// acceptance 264, 265
test.each(['purge', 'softDelete'] as const)(
  'tenantless rows are reached by %s in a tenantless call alone',
  async (strategy) => {
    const make = strategy === 'purge' ? model : softDeletable;
    const note = make({
      properties: {
        tenantId: null,
        ...(strategy === 'softDelete' && { isDeleted: { type: 'boolean', default: false } }),
      },
      retain: { tenantless: true },
    });
    const host = await open(note, { period: 'P30D', strategy });
    await host.query(`insert into note(id, created_at) values (gen_random_uuid(), '2020-01-01')`);
    expect((await host.sweep.sweep(ACME, NOW)).counts).toEqual([]);
    expect((await host.sweep.sweep(TENANTLESS, NOW)).counts[0]).toMatchObject({ affected: 1 });
  },
);

describe('a backlog', () => {
  // acceptance 226, 275; SWP-20
  test('of 25,000 rows is retired in batches of 1,000', async () => {
    const host = await open(model(), { period: 'P30D', strategy: Strategy.Purge }, { sweepBatchSize: 1000 });
    await host.query(
      `insert into note(id, tenant_id, created_at) select gen_random_uuid(), 'acme', '2020-01-01'::timestamptz + i * interval '1 s' from generate_series(1, 25000) as i`,
    );
    const { counts, sweepId } = await host.sweep.sweep(ACME, NOW);
    expect(counts[0]).toMatchObject({ affected: 25_000, skipped: 0 });
    expect(await host.ledger.run(sweepId)).toMatchObject({ totalAffected: 25_000 });
    expect(await countRows(host, 'note')).toBe(0);
  });

  // field case C07: no parameter an id, whatever the size of a batch
  test('of 150,000 rows goes in batches of the largest size there is', async () => {
    const note = model({
      properties: {
        id: { type: 'integer' },
        day: { type: 'integer', primary: true },
        shop: { type: 'integer', primary: true },
        line: { type: 'integer', primary: true },
      },
      meta: { uniques: [{ properties: ['id'] }] },
    });
    const host = await open(note, { period: 'P30D', strategy: Strategy.Purge }, { sweepBatchSize: 100_000 });
    await host.query(
      `insert into note(id, day, shop, line, tenant_id, created_at)
       select i, i % 365, i % 50, i, 'acme', '2020-01-01'::timestamptz + i * interval '1 s' from generate_series(1, 150000) as i`,
    );
    expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded', counts: [{ affected: 150_000 }] });
    expect(await countRows(host, 'note')).toBe(0);
  });

  // acceptance 250, 276; SWP-24
  test('whose oldest rows somebody else has locked is retired behind them', async () => {
    const host = await open(model(), { period: 'P30D', strategy: Strategy.Purge }, { sweepBatchSize: 10 });
    const ids = await addNotes(
      host,
      Array.from({ length: 60 }, (_, index) => 400 - index),
    );
    await host.orm.em.fork().transactional(async (em) => {
      await em.execute(
        `select 1 from note where id in (${ids
          .slice(0, 30)
          .map(() => '?')
          .join()}) for update`,
        ids.slice(0, 30),
      );
      const result = await host.sweep.sweep(ACME, NOW);
      expect(result.counts[0]).toMatchObject({ affected: 30, skipped: 30, skippedByCause: { locked: 30 } });
    });
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 30, skipped: 0 });
  });
});

// acceptance 256
test('an entity whose rows are all held does not stop another one', async () => {
  const [note, memo] = [model(), model({ name: 'Memo' })];
  const host = await openHost({
    entities: [memo, note],
    options: { rules: { notes: { period: 'P30D', strategy: Strategy.Purge } } },
  });
  const ids = await addNotes(host, [40, 50]);
  await host.holds.create(ids.map((id) => holdOn(note, id)));
  await host.query(`insert into memo(id, tenant_id, created_at) values (gen_random_uuid(), 'acme', '2020-01-01')`);
  expect((await host.sweep.sweep(ACME, NOW)).counts).toMatchObject([
    { entity: 'Memo', affected: 1 },
    { entity: 'Note', affected: 0, held: 2 },
  ]);
  expect((await host.sweep.sweep(GLOBEX, NOW)).status).toBe('succeeded');
});
