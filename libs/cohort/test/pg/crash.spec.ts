import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { type Probe, inLedger } from '../../src/engine/context.js';
import { recoverAbandoned } from '../../src/engine/recover.js';
import { insertPass, lockAbandoned } from '../../src/sql/lanes.js';
import { type Host, latch, openHost } from '../support/host.js';
import { ACME, NOW, SessionNote, notesHost } from '../support/notes.js';
import { killProgram, messageOf, startProgram } from '../support/programs.js';
import { addNotes, countRows, nobodyInTransaction, until } from '../support/seed.js';
import { OURS, SCHEMA } from '../support/schema.js';

const ROWS = 1000;
/** The default of rowHandlerDispatch.sweepSettleTimeout. */
const SETTLE_TIMEOUT_MS = 3_600_000;
const ALL_BUT_INTERVALS = [
  ...(['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'clearImmediate'] as const),
  ...(['setTimeout', 'clearTimeout'] as const),
];

async function open(input: { url?: string; probe?: Probe } = {}): Promise<Host> {
  const options = {
    ...notesHost.options,
    rules: {
      ...notesHost.options.rules,
      'session-notes': { period: 'P30D', strategy: 'purge' as const, auditRowDetail: 'perRow' as const },
    },
    sweepBatchSize: 100,
  };
  return openHost({ ...notesHost, options, ...input });
}

const manyNotes = () => Array.from({ length: ROWS }, () => ({}));

/** Starts a sweeping process and returns once it stands at `point`. */
async function sweeperAt(host: Host, point: string, passes: number): Promise<ChildProcess> {
  const child = startProgram(host, 'sweeper', point, passes);
  expect(await messageOf(child)).toBe('there');
  return child;
}

/** What the clock would do: the pass has given no sign of life for longer than the settle timeout. */
const letHeartbeatsAge = (host: Host) =>
  host.query(`update ${OURS}.sweep_lane set heartbeat_at = heartbeat_at - interval '2 hours'`);

/** Ledger and data say the same: what is gone, what was counted, what was written down row by row. */
async function expectLedgerToEqualData(host: Host): Promise<number> {
  const gone = ROWS - (await countRows(host, 'session_notes'));
  const { items } = await host.ledger.runs();
  expect(items.reduce((sum, run) => sum + run.totalAffected, 0)).toBe(gone);
  const runs = await Promise.all(items.map((run) => host.ledger.run(run.sweepId)));
  expect(runs.flatMap((run) => run!.summaries).reduce((sum, each) => sum + each.affected, 0)).toBe(gone);
  expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(gone);
  return gone;
}

describe('a sweeper killed with SIGKILL', () => {
  test.each([
    { where: 'between two batches', point: 'committed', passes: 2, gone: 300 },
    { where: 'inside a batch, rows locked', point: 'locked', passes: 3, gone: 300 },
    { where: 'inside a batch, rows deleted', point: 'mutated', passes: 3, gone: 300 },
    { where: 'before its first batch', point: 'before-lock', passes: 0, gone: 0 },
  ])('$where leaves a ledger that equals the data, and the next run finishes', async ({ point, passes, gone }) => {
    const host = await open();
    await addNotes(host, manyNotes());
    const child = await sweeperAt(host, point, passes);
    await killProgram(child);
    await nobodyInTransaction(host);
    expect(await expectLedgerToEqualData(host)).toBe(gone);
    const [crashed] = (await host.ledger.runs()).items;
    expect(crashed).toMatchObject({ status: 'started', settledAt: null });

    await letHeartbeatsAge(host);
    const next = await host.sweep.sweep(ACME, NOW);
    expect(next.status).toBe('succeeded');
    expect(next.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({
      affected: ROWS - gone,
      skipped: 0,
    });
    expect(await expectLedgerToEqualData(host)).toBe(ROWS);
    expect(await host.ledger.run(crashed!.sweepId)).toMatchObject({
      status: 'failed',
      totalAffected: gone,
      error: expect.stringContaining('recovered'),
    });
    expect(await countRows(host, `${OURS}.sweep_progress`)).toBe(0);
  });

  // acceptance 277
  test('is not recovered while its heartbeat is fresh', async () => {
    const host = await open();
    await addNotes(host, manyNotes());
    const child = await sweeperAt(host, 'committed', 0);
    await killProgram(child);
    await host.sweep.sweep(ACME, NOW);
    expect((await host.ledger.runs()).items.map((run) => run.status).sort()).toEqual(['started', 'succeeded']);
  });
});

/** A sweep that stands at its nth passing of a point, until it is told to go on. */
async function pausedAt(point: string, passes: number) {
  const reached = latch();
  const resume = latch();
  let left = passes;
  const host = await open({
    probe: async (at, entity) => {
      if (at !== point || entity !== 'SessionNote' || left-- !== 0) return;
      reached.open();
      await resume.opened;
    },
  });
  await addNotes(host, manyNotes());
  const sweep = host.sweep.sweep(ACME, NOW).then(
    (result) => result.status,
    (error: { code: string }) => error.code,
  );
  await reached.opened;
  return { host, sweep, go: resume.open };
}

describe('an owner that was paused and wakes up after its run was recovered', () => {
  test.each([
    { point: 'committed', passes: 1 },
    { point: 'before-lock', passes: 2 },
    { point: 'locked', passes: 2 },
  ])('commits nothing more: paused at $point', async ({ point, passes }) => {
    const { host, sweep, go } = await pausedAt(point, passes);
    await letHeartbeatsAge(host);
    const other = await open({ url: host.url });
    const recovering = await other.sweep.sweep(ACME, NOW);
    const gone = await expectLedgerToEqualData(other);
    go();
    expect(await sweep).toBe('run-lost');
    expect(await expectLedgerToEqualData(other)).toBe(gone);
    expect(recovering.status).toBe('succeeded');
    const statuses = (await other.ledger.runs()).items.map((run) => run.status).sort();
    expect(statuses).toEqual(['failed', 'succeeded']);
    await other.sweep.sweep(ACME, NOW);
    expect(await expectLedgerToEqualData(other)).toBe(ROWS);
  });

  // acceptance 278
  test('does not claim a success that recovery has settled as a failure: paused after its last batch', async () => {
    const reached = latch();
    const resume = latch();
    const options = { rules: { 'session-notes': { period: 'P30D', strategy: 'purge' as const } } };
    const host = await openHost({
      entities: [SessionNote],
      options,
      probe: async (at) => {
        if (at !== 'committed') return;
        reached.open();
        await resume.opened;
      },
    });
    await addNotes(host, [{}, {}]);
    const sweep = host.sweep.sweep(ACME, NOW);
    await reached.opened;
    await letHeartbeatsAge(host);
    const other = await openHost({ entities: [SessionNote], options, url: host.url });
    await other.sweep.sweep(ACME, NOW);
    resume.open();
    await expect(sweep).rejects.toMatchObject({ code: 'run-lost' });
    expect((await other.ledger.runs()).items.map((run) => [run.status, run.totalAffected])).toEqual([
      ['succeeded', 0],
      ['failed', 2],
    ]);
  });

  test('is not recovered in the middle of a batch: its lane is locked, which is a sign of life', async () => {
    const locked = latch();
    const aged = latch();
    const mutated = latch();
    const resume = latch();
    let first = true;
    const host = await open({
      probe: async (at) => {
        if (!first || (at !== 'locked' && at !== 'mutated')) return;
        (at === 'locked' ? locked : mutated).open();
        await (at === 'locked' ? aged : resume).opened;
        if (at === 'mutated') first = false;
      },
    });
    await addNotes(host, manyNotes());
    const sweep = host.sweep.sweep(ACME, NOW);
    await locked.opened;
    await letHeartbeatsAge(host);
    aged.open();
    await mutated.opened;
    const other = await open({ url: host.url });
    await other.sweep.sweep(ACME, NOW);
    expect((await other.ledger.runs()).items.map((run) => run.status).sort()).toEqual(['started', 'succeeded']);
    resume.open();
    expect((await sweep).status).toBe('succeeded');
    expect(await expectLedgerToEqualData(other)).toBe(ROWS);
  });
});

describe('the heartbeat of a pass', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  /** A sweep that stands between two batches, with a clock that the test winds. */
  function standing() {
    jest.useFakeTimers({ doNotFake: ALL_BUT_INTERVALS });
    return pausedAt('committed', 0);
  }

  // acceptance 277, 280
  test('beats while a batch takes its time, so that nobody recovers it', async () => {
    const { host, sweep, go } = await standing();
    await letHeartbeatsAge(host);
    jest.advanceTimersByTime(SETTLE_TIMEOUT_MS / 4);
    await until(() => countRows(host, `${OURS}.sweep_lane`, `heartbeat_at > now() - interval '1 minute'`));
    const other = await open({ url: host.url });
    await other.sweep.sweep(ACME, NOW);
    go();
    expect(await sweep).toBe('succeeded');
    expect(await expectLedgerToEqualData(other)).toBe(ROWS);
  });

  test('finds out that the pass was recovered, and stops it', async () => {
    const { host, sweep, go } = await standing();
    await letHeartbeatsAge(host);
    const other = await open({ url: host.url });
    const beforeRecovery = await countRows(host, 'session_notes');
    await recoverAbandoned(await other.readiness.context());
    jest.advanceTimersByTime(SETTLE_TIMEOUT_MS / 4);
    go();
    expect(await sweep).toBe('run-lost');
    expect(await countRows(host, 'session_notes')).toBe(beforeRecovery);
  });
});

describe('recovery', () => {
  // What another process may do between looking for abandoned passes and locking the lanes of one.
  test.each([
    { between: 'nothing', lanes: `true`, taken: 2 },
    { between: 'one lane beats', lanes: `lane = 2`, beats: true, taken: null },
    { between: 'one lane begins a batch', lanes: `lane = 2`, locks: true, taken: null },
    { between: 'the pass is settled', lanes: `true`, settles: true, taken: null },
  ])('looks again under its locks: $between', async ({ lanes, beats, locks, settles, taken }) => {
    const host = await open();
    const ctx = await host.readiness.context();
    const passId = randomUUID();
    const pass = { passId, trigger: 'manual', dryRun: false, tokens: [randomUUID(), randomUUID()], slot: null };
    await inLedger(ctx, (tx) => insertPass(tx, SCHEMA, pass));
    await letHeartbeatsAge(host);
    await host.orm.em.fork().transactional(async (em) => {
      if (locks) await em.execute(`select 1 from ${OURS}.sweep_lane where ${lanes} for update`);
      if (beats) await host.query(`update ${OURS}.sweep_lane set heartbeat_at = now() where ${lanes}`);
      if (settles) await host.query(`update ${OURS}.sweep_lane set status = 'settled'`);
      const tokens = await inLedger(ctx, (tx) => lockAbandoned(tx, SCHEMA, passId, 60_000));
      expect(tokens?.length ?? null).toBe(taken);
    });
  });
});

describe('recovery by several processes at once', () => {
  test('ends an abandoned run once', async () => {
    const host = await open();
    await addNotes(host, manyNotes());
    const child = await sweeperAt(host, 'committed', 2);
    await killProgram(child);
    await letHeartbeatsAge(host);
    const others = await Promise.all([1, 2, 3].map(() => open({ url: host.url })));
    await Promise.all([host, ...others].map((each) => each.sweep.sweep(ACME, NOW)));
    await host.sweep.sweep(ACME, NOW);
    expect(await expectLedgerToEqualData(host)).toBe(ROWS);
    const failed = (await host.ledger.runs()).items.filter((run) => run.status === 'failed');
    expect(failed).toHaveLength(1);
    expect(
      host.logs.concat(...others.map((other) => other.logs)).filter((line) => line.includes('abandoned')),
    ).toHaveLength(1);
  });
});
