import { once } from 'node:events';
import { describe, expect, jest, test } from '@jest/globals';
import { SchedulerRegistry } from '@nestjs/schedule';
import {
  type CohortOptions,
  RetentionCategoryCapabilities,
  RetentionRule,
  RetentionRuleProvider,
  RetentionTenantSource,
  Strategy,
  TENANTLESS,
  TENANTLESS_ID,
  TenantContext,
} from 'nestjs-cohort';
import { keepLease } from '../../src/workers/slot-lease.js';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { ACME, GLOBEX, SessionNote, Signal, daysBefore, notesHost } from '../support/notes.js';
import { addNotes, countRows, until } from '../support/seed.js';
import { OURS } from '../support/schema.js';
import { openWorker, workerOf } from '../support/worker.js';

const DAILY = '0 2 * * *';
const DAY = 86_400_000;
const MIDNIGHT = '2026-06-30T00:00:00.000Z';
const SLOT = '2026-06-30T02:00:00.000Z';

function open(options: Partial<CohortOptions> = {}, input: Partial<HostOptions> = {}): Promise<Host> {
  return openHost({
    ...notesHost,
    ...input,
    options: { ...notesHost.options, schedule: DAILY, tenants: [ACME, GLOBEX], ...options },
  });
}

/** An instant as JavaScript prints it: the driver gives timestamps as texts of PostgreSQL's. */
const printed = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const runsOf = (host: Host) =>
  host.query<{ tenant: string; status: string; dryRun: boolean; trigger: string; now: string; slot: string }>(
    `select r.tenant_id as tenant, r.status, r.dry_run as "dryRun", r.trigger_kind as trigger, ${printed('r.logical_now')} as now,
       ${printed('p.slot')} as slot
     from ${OURS}.sweep_run r join ${OURS}.sweep_pass p using (pass_id) order by p.started_at, p.pass_id, r.tenant_id`,
  );
const slotsOf = async (host: Host) =>
  host.query<{ slot: string; dry_run: boolean; status: string; passes: number }>(
    `select ${printed('o.slot')} as slot, o.dry_run, o.status, (select count(*)::int from ${OURS}.sweep_pass p where p.slot = o.slot and p.dry_run = o.dry_run) as passes
     from ${OURS}.sweep_occurrence o where token <> '00000000-0000-0000-0000-000000000000' order by slot, dry_run`,
  );

describe('a slot of the schedule', () => {
  // acceptance 420, 423, 430, 451; WRK-12, WRK-14
  test('sweeps every tenant once, then the tenantless entities, in one pass', async () => {
    const host = await open();
    await addNotes(host, [{}, { tenant: 'globex' }, { tenant: 'initech' }, { days: 1 }, { days: null }]);
    await host.query('insert into signals(seen_at) values ($1)', [daysBefore(500)]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    expect(await tickAt(MIDNIGHT)).toEqual(new Date('2026-06-30T00:00:30.000Z'));
    expect(await runsOf(host)).toEqual([]);
    expect(await tickAt('2026-06-30T01:59:45.000Z')).toEqual(new Date(SLOT));
    await tickAt('2026-06-30T02:00:00.007Z');
    const run = { status: 'succeeded', dryRun: false, trigger: 'scheduled', now: '2026-06-30T02:00:00.007Z' };
    expect(await runsOf(host)).toEqual(
      [TENANTLESS_ID, 'acme', 'globex'].map((tenant) => ({ ...run, tenant, slot: SLOT })),
    );
    expect(await countRows(host, 'session_notes', `tenant_id <> 'initech'`)).toBe(2);
    expect(await countRows(host, 'session_notes', `tenant_id = 'initech'`)).toBe(1);
    expect(await countRows(host, 'signals')).toBe(0);
    expect(await countRows(host, `${OURS}.sweep_run_entity_summary`, 'null_anchor_count = 1')).toBe(1);
    expect(await countRows(host, `${OURS}.sweep_pass`)).toBe(1);
    expect(host.logs).toContain(
      'Slot 2026-06-30T02:00:00.000Z: 3 runs, 0 of them with failures; 3 rows affected, 0 held, 0 skipped.',
    );
  });

  // acceptance 421; WRK-16, DRY-01
  test('is a dry run where the host says so: everything is counted, nothing changed', async () => {
    const host = await open({ dryRun: true });
    await addNotes(host, [{}, {}]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect(await countRows(host, 'session_notes')).toBe(2);
    const runs = await host.ledger.runs();
    expect(runs.items.map((run) => [run.trigger, run.dryRun, run.totalAffected]).sort()).toEqual([
      ['scheduled', true, 0],
      ['scheduled', true, 0],
      ['scheduled', true, 2],
    ]);
  });

  // WRK-17
  test('that nobody was there for is not caught up', async () => {
    const host = await open({ schedule: '0 * * * *' });
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    // Asleep over three slots: the one that was waited for comes late, the others do not come.
    await tickAt('2026-06-30T03:30:00.000Z');
    expect((await slotsOf(host)).map((each) => each.slot)).toEqual(['2026-06-30T01:00:00.000Z']);
    await tickAt('2026-06-30T03:59:59.000Z');
    await tickAt('2026-06-30T04:00:00.000Z');
    expect(await slotsOf(host)).toHaveLength(2);
    // A whole day late it may have been swept and forgotten.
    await tickAt('2026-07-02T05:00:00.000Z');
    expect(await slotsOf(host)).toHaveLength(2);
    expect(host.logs).toContain('Slot 2026-06-30T05:00:00.000Z is more than a day ago; it was missed.');
  });

  // acceptance 431; WRK-08, WRK-09, trap 69
  test('sweeps the tenantless entities also where the source names nobody', async () => {
    const host = await open({ tenants: [] });
    await host.query('insert into signals(seen_at) values ($1)', [daysBefore(500)]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect((await runsOf(host)).map((run) => run.tenant)).toEqual([TENANTLESS_ID]);
    expect(await countRows(host, 'signals')).toBe(0);
    expect(host.logs).toContain('The tenant source named no tenant; entities with a tenant are not swept.');
  });

  // WRK-09
  test('does not ask for tenants where no entity has one', async () => {
    const asked = jest.fn(() => [ACME]);
    const host = await openHost({
      entities: [Signal],
      options: {
        rules: { signals: { period: 'P7D', strategy: 'purge' } },
        schedule: DAILY,
        tenants: new (class extends RetentionTenantSource {
          override tenants = asked;
        })(),
      },
    });
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect((await runsOf(host)).map((run) => run.tenant)).toEqual([TENANTLESS_ID]);
    expect(asked).not.toHaveBeenCalled();
  });

  // acceptance 428; WRK-08
  test('sweeps a tenant that is named twice once, as it was named first', async () => {
    const seen: (string | undefined)[] = [];
    class Jurisdictions extends RetentionRuleProvider {
      override getCapabilities = () => new RetentionCategoryCapabilities([Strategy.Purge]);
      override resolve = ({ tenant }: { tenant: TenantContext }) => {
        seen.push(tenant.jurisdiction);
        return new RetentionRule({ period: 'P30D', strategy: Strategy.Purge });
      };
    }
    const host = await openHost({
      entities: [SessionNote],
      options: {
        rules: new Jurisdictions(),
        schedule: DAILY,
        tenants: [new TenantContext('acme', { jurisdiction: 'DE' }), GLOBEX, new TenantContext('acme'), GLOBEX],
      },
    });
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect((await runsOf(host)).map((run) => run.tenant)).toEqual(['acme', 'globex']);
    expect(seen).toEqual(['DE', undefined]);
    expect(host.logs).toContain('Tenant acme was named with different jurisdictions or tags; the first ones count.');
    expect(host.logs.filter((line) => line.includes('globex'))).toEqual([]);
  });

  // acceptance 424, 433; WRK-07, WRK-18, trap 72
  test.each([
    ['null', [ACME, null], /tenants\[1\] is null/],
    ['what is no tenant', [{ id: 'acme' }], /tenants\[0\] is a value of type Object/],
    ['TENANTLESS', [ACME, GLOBEX, TENANTLESS], /tenants\[2\] is a value of type TenantContext/],
  ])('is not begun where the source names %s, and the next slot is', async (_, wrong, message) => {
    let tenants: unknown = wrong;
    class Source extends RetentionTenantSource {
      override tenants = () => tenants as TenantContext[];
    }
    const host = await open({ tenants: new Source() });
    await addNotes(host, [{}]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect(await runsOf(host)).toEqual([]);
    expect(await countRows(host, 'session_notes')).toBe(1);
    expect(host.logs.at(-1)).toMatch(message);
    tenants = [ACME];
    await tickAt('2026-07-01T02:00:00.000Z');
    expect((await slotsOf(host)).map((each) => each.passes)).toEqual([0, 1]);
    expect(await countRows(host, 'session_notes')).toBe(0);
  });

  // acceptance 427; WRK-10
  test('goes on with the other tenants, and the tenantless entities, where the rules of one fail', async () => {
    class Rules extends RetentionRuleProvider {
      override getCapabilities = () => new RetentionCategoryCapabilities([Strategy.Purge]);
      override resolve({ tenant }: { tenant: TenantContext }) {
        if (tenant.id === 'acme') throw new Error('the policy service is down for acme');
        return new RetentionRule({ period: 'P7D', strategy: Strategy.Purge });
      }
    }
    const host = await openHost({
      entities: [SessionNote, Signal],
      options: { rules: new Rules(), schedule: DAILY, tenants: [ACME, GLOBEX] },
    });
    await addNotes(host, [{}, { tenant: 'globex' }]);
    await host.query('insert into signals(seen_at) values ($1)', [daysBefore(500)]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    expect((await runsOf(host)).map((run) => [run.tenant, run.status])).toEqual([
      [TENANTLESS_ID, 'succeeded'],
      ['acme', 'partiallyFailed'],
      ['globex', 'succeeded'],
    ]);
    expect(await host.query('select tenant_id from session_notes')).toEqual([{ tenant_id: 'acme' }]);
  });

  // WRK-18, acceptance 433
  test('that fails as a whole is logged and done with; the next one comes', async () => {
    const host = await open();
    await addNotes(host, [{}]);
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await host.query(`alter table ${OURS}.sweep_lane rename to away`);
    await tickAt(SLOT);
    expect(host.logs.at(-1)).toMatch(/^Slot 2026-06-30T02:00:00.000Z failed: .*sweep_lane/s);
    await host.query(`alter table ${OURS}.away rename to sweep_lane`);
    await tickAt('2026-06-30T02:00:30.000Z');
    expect(await countRows(host, 'session_notes')).toBe(1);
    await tickAt('2026-07-01T02:00:00.000Z');
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect((await slotsOf(host)).map((each) => each.status)).toEqual(['completed', 'completed']);
  });
});

describe('two replicas', () => {
  // acceptance 435; WRK-15, field case S18 as far as it is the library's
  test('sweep each slot once, and a late one sees that it is done', async () => {
    const host = await open();
    const other = await open({}, { url: host.url });
    const [one, two] = [workerOf(host, MIDNIGHT), workerOf(other, MIDNIGHT)];
    await Promise.all([one.tickAt(MIDNIGHT), two.tickAt(MIDNIGHT)]);
    await Promise.all([one.tickAt(SLOT), two.tickAt('2026-06-30T02:00:00.250Z')]);
    await one.tickAt('2026-07-01T02:00:00.000Z');
    await two.tickAt('2026-07-01T02:05:00.000Z');
    expect((await slotsOf(host)).map((each) => [each.status, each.passes])).toEqual([
      ['completed', 1],
      ['completed', 1],
    ]);
    const skipped = [...host.logs, ...other.logs].filter((line) => line.includes('is skipped'));
    expect(skipped).toHaveLength(2);
    expect(skipped[1]).toBe('Slot 2026-07-01T02:00:00.000Z is skipped: another replica sweeps it.');
  });

  // acceptance 438; WRK-16
  test('of which one does dry runs do not take each other’s slots', async () => {
    const host = await open();
    const other = await open({ dryRun: true }, { url: host.url });
    await addNotes(host, [{}]);
    const [dry, real] = [workerOf(other, MIDNIGHT), workerOf(host, MIDNIGHT)];
    await dry.tickAt(MIDNIGHT);
    await real.tickAt(MIDNIGHT);
    await dry.tickAt(SLOT);
    expect(await countRows(host, 'session_notes')).toBe(1);
    await real.tickAt(SLOT);
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect((await slotsOf(host)).map((each) => [each.dry_run, each.passes])).toEqual([
      [false, 1],
      [true, 1],
    ]);
  });

  // acceptance 437
  test('with their tables in two schemas know nothing of each other', async () => {
    const host = await open();
    await host.query('create schema second');
    const other = await open({}, { url: host.url, cohortSchema: 'second' });
    await other.orm.schema.update({ safe: true });
    const [one, two] = [workerOf(host, MIDNIGHT), workerOf(other, MIDNIGHT)];
    await one.tickAt(MIDNIGHT);
    await two.tickAt(MIDNIGHT);
    await one.tickAt(SLOT);
    await two.tickAt(SLOT);
    expect(await countRows(host, `${OURS}.sweep_pass`)).toBe(1);
    expect(await countRows(host, 'second.sweep_pass')).toBe(1);
  });
});

/** A replica whose sweep stands before its first batch of session notes, until it is told to go on. */
async function standing(options: Partial<CohortOptions> = {}) {
  const reached = latch();
  const resume = latch();
  const host = await open(options, {
    probe: async (point, entity) => {
      if (point !== 'before-lock' || entity !== 'SessionNote') return;
      reached.open();
      await resume.opened;
    },
  });
  await addNotes(host, [{}, {}]);
  const driven = workerOf(host, MIDNIGHT);
  await driven.tickAt(MIDNIGHT);
  const sweeping = driven.tickAt(SLOT);
  await reached.opened;
  return { host, ...driven, sweeping, go: resume.open };
}

const expireLeases = (host: Host) =>
  host.query(`update ${OURS}.sweep_occurrence set lease_until = now() - interval '1 second' where status = 'claimed'`);

describe('while one replica sweeps', () => {
  // acceptance 429, 432; WRK-06
  test('another one skips its own slot, and finishes nothing', async () => {
    const { host, sweeping, go } = await standing();
    const other = await open({ schedule: '5 2 * * *' }, { url: host.url });
    const { tickAt } = workerOf(other, SLOT);
    await tickAt(SLOT);
    await tickAt('2026-06-30T02:05:00.000Z');
    expect(other.logs).toEqual([
      'Slot 2026-06-30T02:05:00.000Z is skipped: slot 2026-06-30T02:00:00.000Z is still being swept.',
    ]);
    go();
    await sweeping;
    expect(await slotsOf(host)).toEqual([{ slot: SLOT, dry_run: false, status: 'completed', passes: 1 }]);
  });

  // acceptance 436; WRK-15, trap 46
  test('another one takes the slot over when the lease runs out, and the first can commit nothing more', async () => {
    const { host, sweeping, go } = await standing();
    const other = await open({}, { url: host.url });
    const { tickAt } = workerOf(other, '2026-06-30T02:01:00.000Z');
    await expireLeases(host);
    await tickAt('2026-06-30T02:01:00.000Z');
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect((await runsOf(host)).map((run) => run.status)).toEqual([
      ...Array.from({ length: 3 }, () => 'failed'),
      ...Array.from({ length: 3 }, () => 'succeeded'),
    ]);
    go();
    await sweeping;
    expect((await runsOf(host)).map((run) => run.status).sort()).toEqual([
      ...Array.from({ length: 3 }, () => 'failed'),
      ...Array.from({ length: 3 }, () => 'succeeded'),
    ]);
    expect(await slotsOf(host)).toEqual([{ slot: SLOT, dry_run: false, status: 'completed', passes: 2 }]);
    expect(other.logs[0]).toBe('Slot 2026-06-30T02:00:00.000Z was left unfinished; it is swept again.');
    // What is finished is not finished again.
    await tickAt('2026-06-30T02:02:00.000Z');
    expect((await slotsOf(host))[0]!.passes).toBe(2);
  });

  test('its lease is renewed, so that nobody takes the slot over', async () => {
    const { host, sweeping, go } = await standing({ worker: { slotLease: 1000 } });
    const [before] = await host.query<{ until: Date }>(
      `select max(lease_until) as until from ${OURS}.sweep_occurrence`,
    );
    await until(() => countRows(host, `${OURS}.sweep_occurrence`, 'lease_until > $1', [before!.until]));
    go();
    await sweeping;
    expect((await runsOf(host)).map((run) => run.status)).toEqual(['succeeded', 'succeeded', 'succeeded']);
  });

  test('a lease that cannot be renewed in time is lost, and its end waits for the renewal under way', async () => {
    const { host, sweeping, go } = await standing();
    const ctx = await host.readiness.context();
    const [claimed] = await host.query<{ token: string }>(
      `select token from ${OURS}.sweep_occurrence where status = 'claimed'`,
    );
    const claim = { slot: new Date(SLOT), dryRun: false, token: claimed!.token };
    const renewals = () =>
      countRows(host, 'pg_stat_activity', `wait_event_type = 'Lock' and query like '%set lease_until%'`);
    let hasEnded = false;
    const { ending } = await host.orm.em.fork().transactional(async (em) => {
      await em.execute(`select 1 from ${OURS}.sweep_occurrence for update`);
      const lease = keepLease(ctx, claim, 90, new AbortController().signal);
      if (!lease.signal.aborted) await once(lease.signal, 'abort');
      expect(lease.signal.reason).toMatchObject({ code: 'slot-lost' });
      await until(renewals);
      const ending = lease.end().then(() => (hasEnded = true));
      expect(await renewals()).toBe(1);
      expect(hasEnded).toBe(false);
      return { ending };
    });
    await ending;
    expect(await renewals()).toBe(0);
    go();
    await sweeping;
  });

  test('a slot that was taken over before its pass was opened is not swept by the first', async () => {
    const listing = latch();
    const listed = latch();
    class Slow extends RetentionTenantSource {
      override async *tenants() {
        listing.open();
        await listed.opened;
        yield ACME;
      }
    }
    const host = await open({ tenants: new Slow() });
    const other = await open({}, { url: host.url });
    const first = workerOf(host, MIDNIGHT);
    await first.tickAt(MIDNIGHT);
    const sweeping = first.tickAt(SLOT);
    await listing.opened;
    await expireLeases(host);
    await workerOf(other, SLOT).tickAt(SLOT);
    listed.open();
    await sweeping;
    expect((await slotsOf(host)).map((each) => [each.status, each.passes])).toEqual([['completed', 1]]);
    expect(host.logs.at(-1)).toMatch(/^Slot 2026-06-30T02:00:00.000Z was taken over by another replica/);
  });
});

describe('RetentionSettings.update', () => {
  // acceptance 422; WRK-03, WRK-04, WRK-05
  test('of the schedule holds from the next tick on: the slot waited for is dropped', async () => {
    const host = await open();
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    host.readiness.settings.update({ schedule: '0 3 * * *' });
    expect(() => host.readiness.settings.update({ schedule: '0 0 30 2 *' })).toThrow(/that fires/);
    await tickAt(SLOT);
    expect(await slotsOf(host)).toEqual([]);
    await tickAt('2026-06-30T03:00:00.000Z');
    expect((await slotsOf(host)).map((each) => each.slot)).toEqual(['2026-06-30T03:00:00.000Z']);
    host.readiness.settings.update({ schedule: null });
    expect(await tickAt('2026-07-01T03:00:00.000Z')).toBeNull();
  });

  // acceptance 434; WRK-01, WRK-11, V12
  test('of the kill switch stops the sweep before its next batch; lifted, the slot is finished', async () => {
    const { host, worker, tickAt, sweeping, go } = await standing({ sweepBatchSize: 1 });
    worker.start();
    host.readiness.settings.update({ killSwitch: true });
    go();
    await sweeping;
    // The batch that had begun is rolled back.
    expect(await countRows(host, 'session_notes')).toBe(2);
    expect((await runsOf(host)).map((run) => run.status)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    expect((await slotsOf(host))[0]).toMatchObject({ status: 'claimed' });
    expect(await tickAt('2026-07-01T02:00:00.000Z')).toBeNull();
    await worker.stop();
    expect(await countRows(host, 'session_notes')).toBe(2);
    expect(host.logs).toContain('Slot 2026-06-30T02:00:00.000Z was interrupted: the kill switch is on.');

    host.readiness.settings.update({ killSwitch: false });
    const next = workerOf(host, '2026-07-01T04:00:00.000Z');
    await next.tickAt('2026-07-01T04:00:00.000Z');
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect(await slotsOf(host)).toMatchObject([{ status: 'completed', passes: 2 }]);
  });

  // WRK-13's counterpart, acceptance 419
  test('of a schedule without tenants is refused where an entity has one', async () => {
    const host = await openHost(notesHost);
    await host.readiness.context();
    expect(() => host.readiness.settings.update({ schedule: DAILY })).toThrow(
      /schedule is '0 2 \* \* \*', but nothing says whose rows are swept/,
    );
    expect(host.readiness.settings.inForce.worker.schedule).toBeNull();
  });
});

describe('a worker that runs by itself', () => {
  /** Real loop, real timers, a cron that fires each second. */
  async function running(options: Partial<CohortOptions> = {}) {
    const host = await open({ schedule: '* * * * * *', ...options });
    const timers = new SchedulerRegistry();
    return { host, timers, worker: openWorker(host, undefined, timers) };
  }

  // acceptance 420, 426
  test('is stopped in the middle of a sweep, which another one finishes', async () => {
    const { host, worker, sweeping, go } = await standing();
    const stopping = worker.stop();
    go();
    await Promise.all([sweeping, stopping]);
    expect((await runsOf(host)).map((run) => run.status)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    expect(host.logs.at(-1)).toBe('Slot 2026-06-30T02:00:00.000Z was interrupted: the host shuts down.');
    const other = await open({}, { url: host.url });
    await workerOf(other, '2026-06-30T03:00:00.000Z').tickAt('2026-06-30T03:00:00.000Z');
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect(await slotsOf(host)).toMatchObject([{ status: 'completed', passes: 2 }]);
  });

  // acceptance 425
  test('is stopped while its tenants are listed', async () => {
    const listing = latch();
    const stopped = new AbortController();
    class Endless extends RetentionTenantSource {
      override async *tenants() {
        for (let tenant = 0; !stopped.signal.aborted; tenant++) {
          yield new TenantContext(`tenant-${tenant}`);
          listing.open();
        }
        throw new Error('the source was cancelled');
      }
    }
    const host = await open({ tenants: new Endless() });
    const { worker, tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    const sweeping = tickAt(SLOT);
    await listing.opened;
    await worker.stop();
    stopped.abort();
    await sweeping;
    expect(await runsOf(host)).toEqual([]);
    expect((await slotsOf(host))[0]).toMatchObject({ status: 'claimed', passes: 0 });
  });

  test('sweeps slot after slot, stands in the registry of Nest, and is gone from it when stopped', async () => {
    const { host, worker, timers } = await running();
    worker.start();
    await until(() => countRows(host, `${OURS}.sweep_occurrence`, `pass_id is not null and status = 'completed'`));
    await until(async () => timers.getTimeouts().length);
    expect(timers.getTimeouts()).toEqual(['cohort-retention-worker']);
    await worker.stop();
    expect(timers.getTimeouts()).toEqual([]);
    const count = await countRows(host, `${OURS}.sweep_occurrence`);
    expect(count).toBeGreaterThan(1);
  });

  // WRK-03
  test('is woken by a change of its settings', async () => {
    const { host, worker } = await running({ schedule: null });
    worker.start();
    host.readiness.settings.update({ schedule: '* * * * * *' });
    await until(() => countRows(host, `${OURS}.sweep_occurrence`, 'pass_id is not null'));
    host.readiness.settings.update({ killSwitch: true });
    await worker.stop();
  });

  test('is left behind when it does not end in time', async () => {
    const { host, worker, go, sweeping } = await standing({ worker: { shutdownTimeout: 1 } });
    worker.start();
    // The tick in progress was not begun by the loop; the loop's own is the one that waits.
    await worker.stop();
    go();
    await sweeping;
    expect(host.logs.filter((line) => line.includes('was interrupted'))).toHaveLength(1);
  });
});

describe('start-up', () => {
  const problemsOf = async (options: object): Promise<readonly string[]> => {
    const host = await open(options);
    return host.readiness.context().then(
      () => [],
      (error: { problems: string[] }) => error.problems,
    );
  };

  // acceptance 419
  test.each(['0 0 30 2 *', '* * * *', 'daily'])('refuses the schedule %p', async (schedule) => {
    expect(await problemsOf({ schedule })).toEqual([
      expect.stringMatching(/^schedule is '.*'; wanted: a cron expression/),
    ]);
  });

  // WRK-13
  test.each([
    ['nothing', undefined, /^schedule is '0 2 \* \* \*', but nothing says whose rows are swept/],
    ['null', null, /^tenants is null; wanted: a RetentionTenantSource/],
    ['a generator', (function* () {})(), /^tenants is a value of type .*a generator cannot/],
    ['a text', 'acme', /^tenants is 'acme'; wanted: a RetentionTenantSource/],
    [
      'a class that nobody registered',
      class Tenants extends RetentionTenantSource {
        override tenants = () => [];
      },
      /^tenants is the class Tenants/,
    ],
  ])('refuses %s for the tenants', async (_, tenants, problem) => {
    expect(await problemsOf({ tenants })).toEqual([expect.stringMatching(problem)]);
  });

  test.each([
    ['a set', new Set([ACME])],
    [
      'an async iterable',
      {
        async *[Symbol.asyncIterator]() {
          yield ACME;
        },
      },
    ],
  ])('takes %s for the tenants', async (_, tenants) => {
    const host = await open({ tenants });
    const { tickAt } = workerOf(host, MIDNIGHT);
    await tickAt(MIDNIGHT);
    await tickAt(SLOT);
    await tickAt('2026-07-01T02:00:00.000Z');
    expect((await runsOf(host)).filter((run) => run.tenant === 'acme')).toHaveLength(2);
  });
});

// issue 4: a year of daily slots with a driven clock, by three replicas of which each is away now and then
test('a year of daily slots: each is swept once, whoever is there', async () => {
  const host = await open();
  const others = [await open({}, { url: host.url }), await open({}, { url: host.url })];
  await host.query(
    `insert into session_notes(id, tenant_id, created_at, body)
     select gen_random_uuid(), 'acme', $1::timestamptz - interval '30 days' + g * interval '1 day', '' from generate_series(0, 364) g`,
    [new Date(Date.parse(MIDNIGHT) + 3_600_000)],
  );
  const replicas = [host, ...others].map((each) => workerOf(each, MIDNIGHT));
  for (const replica of replicas) await replica.tickAt(MIDNIGHT);
  for (let day = 0; day < 365; day++) {
    const slot = Date.parse(SLOT) + day * DAY;
    const there = replicas.filter((_, index) => (day + index) % 3 !== 0);
    await Promise.all(there.map((replica, index) => replica.tickAt(new Date(slot + index))));
    // Each day one more row has become due.
    expect(await countRows(host, 'session_notes')).toBe(364 - day);
  }
  expect(
    await host.query(
      `select count(*)::int as passes, count(distinct slot)::int as slots, ${printed('min(slot)')} as first, ${printed('max(slot)')} as last from ${OURS}.sweep_pass`,
    ),
  ).toEqual([{ passes: 365, slots: 365, first: SLOT, last: new Date(Date.parse(SLOT) + 364 * DAY).toISOString() }]);
  // What nobody will ask for is not kept.
  expect(await countRows(host, `${OURS}.sweep_occurrence`)).toBeLessThan(365);
}, 120_000);
