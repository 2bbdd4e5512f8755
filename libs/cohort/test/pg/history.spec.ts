import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { sql } from 'kysely';
import type { CohortOptions } from 'nestjs-cohort';
import { deleteRuns, deleteSummaries, lockHandlerWork, lockPrunableRuns } from '../../src/sql/history.js';
import { inTransaction } from '../../src/sql/transaction.js';
import { clerkUrl } from '../support/clerk.js';
import { handlerOf } from '../support/handlers.js';
import { type Host, type HostOptions, openHost } from '../support/host.js';
import { ACME, GLOBEX, NOW, SessionNote, notesHost } from '../support/notes.js';
import { OURS, SCHEMA } from '../support/schema.js';
import { addNotes, countRows, holdOn, until } from '../support/seed.js';
import { openPruner, workerOf } from '../support/worker.js';

type Retention = NonNullable<CohortOptions['historyPruning']>;

const ALL: Retention = { succeededRunRetention: 'P30D', failedRunRetention: 'P1Y', inactiveHoldRetention: 'P30D' };
const open = (historyPruning: Retention = ALL, more: Partial<HostOptions> = {}) =>
  openHost({ ...notesHost, ...more, options: { ...notesHost.options, ...more.options, historyPruning } });

const runs = (host: Host, where = 'true') => countRows(host, `${OURS}.sweep_run`, where);
const prune = (host: Host) => openPruner(host).tick(new Date());

/** What the clock would do: what was settled lies so many days back. */
const age = (host: Host, days: number, where = 'true') =>
  host.query(
    `with aged as (
       update ${OURS}.sweep_run set started_at = started_at - $1 * interval '1 day', settled_at = settled_at - $1 * interval '1 day' where ${where}
       returning pass_id
     )
     update ${OURS}.sweep_pass set started_at = started_at - $1 * interval '1 day', settled_at = settled_at - $1 * interval '1 day'
     where pass_id in (select pass_id from aged)`,
    [days],
  );

/** A run of a due note whose handler says what becomes of its work; `days` old. */
async function ranWith(after: () => void, { flushes = true, days = 60, retention = ALL } = {}) {
  const host = await open(retention, {
    providers: [handlerOf(SessionNote, 'Blobs', { after })],
    options: { ...notesHost.options, rowHandlerDispatch: { maxAttempts: 1, deadLetterPayloadRetention: 'P30D' } },
  });
  await addNotes(host, [{}]);
  await host.sweep.sweep(ACME, NOW);
  if (flushes) await host.dispatcher.flush();
  await age(host, days);
  return host;
}

const fail = () => {
  throw new Error('no disk');
};

describe('a run', () => {
  // acceptance 439, PRN-03, PRN-04, PRN-06
  test.each([
    ['succeeded', 29, 1],
    ['succeeded', 31, 0],
    ['failed', 31, 1],
    ['failed', 366, 0],
    ['partiallyFailed', 364, 1],
    ['partiallyFailed', 366, 0],
    ['cancelled', 31, 1],
    ['cancelled', 366, 0],
  ])('that %s %i days ago: %i left', async (status, days, left) => {
    const host = await open();
    await host.sweep.sweep(ACME, NOW);
    await host.query(`update ${OURS}.sweep_run set status = $1`, [status]);
    await age(host, days);
    await prune(host);
    expect(await runs(host)).toBe(left);
  });

  // acceptance 439, PRN-06
  test('goes whole, with its pass, and no other', async () => {
    const rules = {
      ...notesHost.options.rules,
      'session-notes': { period: 'P30D', strategy: 'purge' as const, auditRowDetail: 'perRow' as const },
    };
    const host = await open(ALL, { options: { rules } });
    await addNotes(host, [{}, {}, { tenant: 'globex' }]);
    const old = await host.sweep.sweep(ACME, NOW);
    const young = await host.sweep.sweep(GLOBEX, NOW);
    await age(host, 31, `tenant_id = 'acme'`);
    await prune(host);
    expect(await host.ledger.run(old.sweepId)).toBeNull();
    expect(await host.ledger.run(young.sweepId)).toMatchObject({ totalAffected: 1 });
    for (const table of ['sweep_run_row_detail', 'sweep_pass', 'sweep_lane'])
      expect([table, await countRows(host, `${OURS}.${table}`)]).toEqual([table, 1]);
    expect(await countRows(host, `${OURS}.sweep_run_entity_summary`)).toBe(3);
  });

  test('that shares its pass with a younger one leaves the pass', async () => {
    const host = await open();
    for await (const each of host.sweep.sweepMany([ACME, GLOBEX], NOW)) expect(each.status).toBe('succeeded');
    await age(host, 31, `tenant_id = 'acme'`);
    await prune(host);
    expect([await runs(host), await countRows(host, `${OURS}.sweep_pass`)]).toEqual([1, 1]);
  });

  // acceptance 440; PRN-10
  test('stays for ever where nothing says how long its class is kept', async () => {
    const host = await open({ failedRunRetention: 'P1D' });
    await host.sweep.sweep(ACME, NOW);
    await age(host, 9000);
    await prune(host);
    expect(await runs(host)).toBe(1);
    host.readiness.settings.update({ historyPruning: { failedRunRetention: null, succeededRunRetention: 'P1D' } });
    await prune(host);
    expect(await runs(host)).toBe(0);
  });

  // acceptance 442; PRN-05
  test('stays while it is started, however long ago', async () => {
    const host = await open();
    await host.sweep.sweep(ACME, NOW);
    await host.query(
      `update ${OURS}.sweep_run set status = 'started', settled_at = null, duration_ms = null, started_at = '2001-01-01'`,
    );
    await prune(host);
    expect(await runs(host)).toBe(1);
  });

  // acceptance 441, 442; PRN-05
  test('stays until its handler work is done', async () => {
    const host = await ranWith(() => undefined, { flushes: false, days: 900 });
    await prune(host);
    expect(await runs(host)).toBe(1);
    await host.query(
      `update ${OURS}.sweep_row_handler_status set state = 'inFlight', claimed_at = now(), claim_token = gen_random_uuid()`,
    );
    await prune(host);
    expect(await runs(host)).toBe(1);
    await host.query(
      `update ${OURS}.sweep_row_handler_status set state = 'succeeded', claimed_at = null, claim_token = null, completed_at = now()`,
    );
    await prune(host);
    expect([await runs(host), await countRows(host, `${OURS}.sweep_row_handler_status`)]).toEqual([0, 0]);
  });

  // acceptance 443; PRN-04
  test('with a dead letter is kept as a failed one is', async () => {
    const host = await ranWith(fail);
    await prune(host);
    expect(await runs(host, `status = 'succeeded'`)).toBe(1);
    await age(host, 310);
    await prune(host);
    expect([await runs(host), await countRows(host, `${OURS}.sweep_row_handler_status`)]).toEqual([0, 0]);
  });

  test('whose dead letter is queued again while it is looked at stays', async () => {
    const host = await ranWith(fail, { days: 900 });
    const { id } = (await host.dispatcher.deadLetters()).items[0]!;
    await inTransaction(host.orm, { statementTimeoutMs: 0, lockTimeoutMs: 0, idleTimeoutMs: 30_000 }, async (tx) => {
      const long = new Date('2026-01-01');
      const locked = await lockPrunableRuns(
        tx,
        SCHEMA,
        { succeededRuns: long, failedRuns: long, inactiveHolds: null },
        9,
      );
      expect(locked).toHaveLength(1);
      expect(await host.dispatcher.requeue([id])).toMatchObject({ requeued: [id] });
      expect([...(await lockHandlerWork(tx, SCHEMA, locked))]).toEqual(locked);
    });
    await prune(host);
    expect(await runs(host)).toBe(1);
  });

  // acceptance 445; PRN-07
  test('is one of a backlog of more than a batch, all of which goes', async () => {
    const host = await open();
    await host.sweep.sweep(ACME, NOW);
    await host.query(
      `insert into ${OURS}.sweep_run select (jsonb_populate_record(r, jsonb_build_object('sweep_id', gen_random_uuid()))).* from ${OURS}.sweep_run r, generate_series(1, 100)`,
    );
    await age(host, 31);
    await prune(host);
    expect(await runs(host)).toBe(0);
    expect(host.logs).toContain('History was pruned: 101 runs, 0 holds.');
  });

  // acceptance 447; PRN-07
  test('that somebody has locked is left to the next time, the others go', async () => {
    const host = await open();
    const locked = await host.sweep.sweep(ACME, NOW);
    await host.sweep.sweep(GLOBEX, NOW);
    await age(host, 31);
    await inTransaction(host.orm, { statementTimeoutMs: 0, lockTimeoutMs: 0, idleTimeoutMs: 30_000 }, async (tx) => {
      await sql`select 1 from ${sql.id(SCHEMA, 'sweep_run')} where sweep_id = ${locked.sweepId} for update`.execute(tx);
      await prune(host);
      expect(await runs(host)).toBe(1);
    });
    await prune(host);
    expect(await runs(host)).toBe(0);
  });

  test('is pruned once by two replicas', async () => {
    const host = await open();
    const other = await open(ALL, { url: host.url });
    for (let run = 0; run < 6; run++) await host.sweep.sweep(ACME, NOW);
    await age(host, 31);
    await Promise.all([prune(host), prune(other)]);
    expect(await runs(host)).toBe(0);
    expect(await countRows(host, `${OURS}.sweep_pass`)).toBe(0);
  });
});

describe('a pass without a run', () => {
  const passes = (host: Host) => countRows(host, `${OURS}.sweep_pass`);
  const lanes = (host: Host) => countRows(host, `${OURS}.sweep_lane`);

  test('goes where two replicas pruned a run of it each, at once', async () => {
    const host = await open();
    for await (const each of host.sweep.sweepMany([ACME, GLOBEX], NOW)) expect(each.status).toBe('succeeded');
    await age(host, 31);
    const cutoffs = { succeededRuns: new Date(), failedRuns: null, inactiveHolds: null };
    await inTransaction(host.orm, { statementTimeoutMs: 0, lockTimeoutMs: 0, idleTimeoutMs: 30_000 }, async (tx) => {
      const locked = await lockPrunableRuns(tx, SCHEMA, cutoffs, 1);
      await deleteSummaries(tx, SCHEMA, locked);
      await deleteRuns(tx, SCHEMA, locked);
      await prune(host);
    });
    expect([await runs(host), await passes(host), await lanes(host)]).toEqual([0, 1, 1]);
    await prune(host);
    expect([await passes(host), await lanes(host)]).toEqual([0, 0]);
  });

  // of a slot for which the tenant source named nobody
  test.each([
    ['ended 31 days ago goes', `settled_at = now() - interval '31 days'`, 0],
    ['ended 29 days ago stays', `settled_at = now() - interval '29 days'`, 1],
    ['started 9 years ago stays', `started_at = '2017-01-01', status = 'started', settled_at = null`, 1],
  ])('that %s', async (_, change, left) => {
    const host = await open(ALL, {
      entities: [SessionNote],
      options: {
        rules: { 'session-notes': { period: 'P30D', strategy: 'purge' } },
        schedule: '0 2 * * *',
        tenants: [],
      },
    });
    const { tickAt } = workerOf(host, NOW);
    await tickAt('2026-07-01T01:00:00Z');
    await tickAt('2026-07-01T02:00:00Z');
    expect([await passes(host), await runs(host)]).toEqual([1, 0]);
    await host.query(`update ${OURS}.sweep_pass set ${change}`);
    await prune(host);
    expect([await passes(host), await lanes(host)]).toEqual([left, left]);
  });
});

describe('a hold', () => {
  // acceptance 444; PRN-08, PRN-05
  test('goes by the earlier of release and expiry; one that is active never does', async () => {
    const host = await open();
    const notes = await addNotes(host, [{}, {}, {}, {}, {}]);
    const holds = notes.map((id) => holdOn(SessionNote, id));
    await host.holds.create(holds);
    const at = (days: number | null) => (days === null ? null : new Date(Date.now() + days * 86_400_000).toISOString());
    const ends: [number | null, number | null][] = [
      [null, null],
      [900, null],
      [-29, null],
      [-31, 900],
      [900, -31],
    ];
    for (const [index, [expires, removed]] of ends.entries())
      await host.query(
        `update ${OURS}.retention_holds set created_at = '2001-01-01', expires_at = $2, removed_at = $3 where hold_id = $1`,
        [holds[index]!.holdId, at(expires), at(removed)],
      );
    await prune(host);
    const left = await host.query<{ id: string }>(`select hold_id as id from ${OURS}.retention_holds`);
    expect(left.map((row) => row.id).sort()).toEqual(
      holds
        .slice(0, 3)
        .map((hold) => hold.holdId)
        .sort(),
    );
  });

  test('stays for ever where nothing says how long it is kept', async () => {
    const host = await open({ succeededRunRetention: 'P1D' });
    await host.query(
      `insert into ${OURS}.retention_holds(hold_id, scope_kind, retention_entity_id, record_id, reason, created_at, removed_at)
       values ($1, 'record', $1, 'x', 'matter 7', '2001-01-01', '2002-01-01')`,
      [randomUUID()],
    );
    await prune(host);
    expect(await countRows(host, `${OURS}.retention_holds`)).toBe(1);
  });
});

describe('the pruner', () => {
  // acceptance 446; PRN-09
  test('stops after the batch in progress when the kill switch is thrown, and goes on when it is lifted', async () => {
    const host = await open();
    await host.sweep.sweep(ACME, NOW);
    await age(host, 31);
    host.readiness.settings.update({ killSwitch: true });
    expect(await prune(host)).toBeNull();
    expect(await runs(host)).toBe(1);
    host.readiness.settings.update({ killSwitch: false });
    const now = new Date();
    expect(await openPruner(host).tick(now)).toEqual(new Date(now.getTime() + 3_600_000));
    expect(await runs(host)).toBe(0);
  });

  // PRN-09
  test('does not care for schedule and dry run', async () => {
    const host = await open(ALL, { options: { ...notesHost.options, dryRun: true } });
    await host.sweep.sweep(ACME, NOW, { dryRun: true });
    await age(host, 31);
    await prune(host);
    expect(await runs(host)).toBe(0);
  });

  test('that the settings started, and may not delete, says what it needs, and goes on once it may', async () => {
    const owner = await open({});
    await owner.sweep.sweep(ACME, NOW);
    await age(owner, 31);
    const url = await clerkUrl(owner, 'session_notes', 'case_contacts', 'tickets', 'signals');
    const clerk = new URL(url).username;
    await owner.query(`revoke delete on all tables in schema ${OURS} from ${clerk};
      grant delete on ${['sweep_progress', 'sweep_run_entity_summary', 'sweep_occurrence'].map((table) => `${OURS}.${table}`).join(', ')} to ${clerk}`);
    const host = await open({}, { url });
    await host.readiness.context();
    host.readiness.settings.update({ historyPruning: ALL });
    await expect(prune(host)).rejects.toThrow(
      /permission denied for table sweep_run_row_detail; pruning history needs DELETE on retention_holds, sweep_pass, sweep_lane, sweep_run, sweep_run_row_detail\./,
    );
    await owner.query(`grant delete on all tables in schema ${OURS} to ${clerk}`);
    await prune(host);
    expect(await runs(owner)).toBe(0);
  });

  // acceptance 448; PRN-02
  test('runs at the start of the host, again when the settings say so, and goes on after a failure', async () => {
    const host = await open({});
    const pruner = openPruner(host);
    await host.sweep.sweep(ACME, NOW);
    await age(host, 31);
    await pruner.onApplicationBootstrap();
    host.readiness.settings.update({ historyPruning: ALL });
    await until(async () => ((await runs(host)) === 0 ? 1 : 0));
    await pruner.onModuleDestroy();

    await host.sweep.sweep(ACME, NOW);
    await age(host, 31);
    const next = openPruner(host);
    await next.onApplicationBootstrap();
    await until(async () => ((await runs(host)) === 0 ? 1 : 0));
    await host.query(`alter table ${OURS}.sweep_run rename to away`);
    host.readiness.settings.update({ sweepBatchSize: 9 });
    await until(async () => host.logs.filter((line) => line.startsWith('cohort-history-pruner failed')).length);
    await next.onModuleDestroy();
  });
});
