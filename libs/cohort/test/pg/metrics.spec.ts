import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { type CohortOptions, ErasureScope, RetentionTenantSource, type TenantContext } from 'nestjs-cohort';
import { inLedger } from '../../src/engine/context.js';
import { endPass } from '../../src/engine/recover.js';
import { insertPass } from '../../src/sql/lanes.js';
import { insertRuns } from '../../src/sql/ledger.js';
import { handlerOf } from '../support/handlers.js';
import { type HostOptions, openHost } from '../support/host.js';
import { ACME, CaseContact, GLOBEX, NOW, SessionNote, daysBefore, notesHost } from '../support/notes.js';
import { OURS, SCHEMA } from '../support/schema.js';
import { addContacts, addNotes, holdOn, until } from '../support/seed.js';

async function open(options: Partial<CohortOptions> = {}, more: Partial<HostOptions> = {}) {
  const registry = new Registry();
  const metrics = { registry, probeInterval: 1000, ...options.metrics };
  const host = await openHost({
    ...notesHost,
    ...more,
    options: { ...notesHost.options, tenants: [ACME, GLOBEX], ...options, metrics },
  });
  /** Samples of a metric, labels to value. */
  const read = async (name: string) => {
    const lines = (await registry.metrics()).split('\n').filter((line) => /^\w+/.exec(line)?.[0] === name);
    return Object.fromEntries(lines.map((line) => [/\{(.*)\}/.exec(line)?.[1] ?? '', Number(line.split(' ').at(-1))]));
  };
  return { host, registry, read };
}

const failing = handlerOf(CaseContact, 'Contacts', {
  before: () => {
    throw new Error('ada@mail.test');
  },
});

test('what a sweep did is counted by entity and strategy, what it left by cause, and its run by its end', async () => {
  const { host, read } = await open({}, { providers: [failing] });
  const [held] = await addNotes(host, [{}, {}, {}, { tenant: 'globex' }, { days: 1 }]);
  await addContacts(host, [{}, {}]);
  await host.holds.create(holdOn(SessionNote, held!));
  await host.sweep.sweep(ACME, NOW);
  await host.sweep.sweep(ACME, NOW, { dryRun: true });
  expect(await read('cohort_affected_rows_total')).toEqual({
    'entity="CaseContact",strategy="anonymise"': 0,
    'entity="SessionNote",strategy="purge"': 2,
  });
  expect(await read('cohort_held_rows_total')).toEqual({ 'entity="SessionNote",strategy="purge"': 1 });
  expect(await read('cohort_skipped_rows_total')).toEqual({
    'entity="CaseContact",strategy="anonymise",cause="handlerFailed"': 2,
  });
  expect(await read('cohort_runs_total')).toEqual({
    'trigger="manual",dry_run="false",status="succeeded"': 1,
    'trigger="manual",dry_run="true",status="succeeded"': 1,
  });
  expect(await read('cohort_run_duration_seconds_count')).toEqual({ 'trigger="manual"': 2 });
  expect(Object.keys(await read('cohort_batch_duration_seconds_count')).sort()).toEqual([
    'entity="CaseContact",strategy="anonymise"',
    'entity="SessionNote",strategy="purge"',
  ]);
});

test('runs of an owner that is gone are counted once, by whoever recovers them', async () => {
  const { host, read } = await open();
  const ctx = await host.readiness.context();
  const passId = randomUUID();
  await inLedger(ctx, async (tx) => {
    await insertPass(tx, SCHEMA, { passId, trigger: 'manual', dryRun: false, tokens: [randomUUID()], slot: null });
    const header = {
      passId,
      trigger: 'manual',
      dryRun: false,
      now: NOW,
      actor: null,
      engineVersion: '1',
      subjectKind: null,
    };
    await insertRuns(tx, SCHEMA, header, [
      { sweepId: randomUUID(), tenantId: 'acme' },
      { sweepId: randomUUID(), tenantId: 'globex' },
    ]);
  });
  expect(await Promise.all([endPass(ctx, passId, 0), endPass(ctx, passId, 0)])).toContain(true);
  expect(await read('cohort_runs_total')).toEqual({ 'trigger="manual",dry_run="false",status="failed"': 2 });
});

test('tenants are labels only where the host asks for that', async () => {
  const { host, read, registry } = await open({ metrics: { tenantLabel: true } as CohortOptions['metrics'] & object });
  await addNotes(host, [{}, {}, { tenant: 'globex' }]);
  for await (const result of host.sweep.sweepMany([ACME, GLOBEX], NOW)) expect(result.status).toBe('succeeded');
  expect(await read('cohort_affected_rows_total')).toEqual({
    'entity="SessionNote",strategy="purge",tenant="acme"': 2,
    'entity="SessionNote",strategy="purge",tenant="globex"': 1,
  });
  expect(Object.keys(await read('cohort_runs_total'))).toHaveLength(2);
  const other = await open();
  await addNotes(other.host, [{}]);
  await other.host.sweep.sweep(ACME, NOW);
  expect(await other.registry.metrics()).not.toContain('acme');
  expect(registry.getMetricsAsArray().length).toBe(other.registry.getMetricsAsArray().length);
});

describe('gauges', () => {
  test('show the queue of row handlers: how much, how old, what is dead', async () => {
    const handler = handlerOf(SessionNote, 'Blobs', {
      after: () => {
        throw new Error('no disk');
      },
    });
    const { host, read } = await open({ rowHandlerDispatch: { maxAttempts: 1 } }, { providers: [handler] });
    await host.readiness.context();
    expect(await read('cohort_handler_queue_age_seconds')).toEqual({ '': 0 });
    await addNotes(host, [{}, {}]);
    await host.sweep.sweep(ACME, NOW);
    await host.query(`update ${OURS}.sweep_row_handler_status set queued_at = queued_at - interval '1 hour'`);
    const again = await openAgain(host.url, { rowHandlerDispatch: { maxAttempts: 1 } }, [handler]);
    expect(await again.read('cohort_handler_queue_depth')).toEqual({ 'state="pending"': 2, 'state="inFlight"': 0 });
    expect((await again.read('cohort_handler_queue_age_seconds'))['']).toBeGreaterThanOrEqual(3600);
    await host.dispatcher.flush();
    const last = await openAgain(host.url, {}, [handler]);
    expect(await last.read('cohort_dead_letters')).toEqual({ '': 2 });
    expect(await last.read('cohort_handler_queue_age_seconds')).toEqual({ '': 0 });
  });

  test('show for how long the oldest row of each entity has been due', async () => {
    const { host, read } = await open();
    const now = new Date();
    const [held] = await addNotes(host, [{}, {}, { tenant: 'globex' }, { tenant: 'nobody' }]);
    await host.holds.create(holdOn(SessionNote, held!));
    const age = (days: number, id: string) =>
      host.query('update session_notes set created_at = $1 where id = $2', [daysBefore(days, now).toISOString(), id]);
    const ids = (await host.query<{ id: string; tenant_id: string }>('select id, tenant_id from session_notes')).filter(
      (row) => row.id !== held,
    );
    for (const { id, tenant_id: tenant } of ids) await age(tenant === 'acme' ? 31 : tenant === 'globex' ? 33 : 99, id);
    await host.readiness.context();
    const overdue = await read('cohort_oldest_overdue_row_seconds');
    expect(Object.keys(overdue).sort()).toEqual([
      'entity="CaseContact"',
      'entity="SessionNote"',
      'entity="Signal"',
      'entity="Ticket"',
    ]);
    // Of globex, three days: one that is held is not overdue, nor is one of a tenant that nobody sweeps.
    expect(overdue['entity="SessionNote"']).toBeGreaterThanOrEqual(3 * 86_400);
    expect(overdue['entity="SessionNote"']).toBeLessThan(3 * 86_400 + 600);
    expect(overdue['entity="CaseContact"']).toBe(0);
  });

  test('are not shown when the database cannot be asked', async () => {
    const { host, read, registry } = await open();
    await host.readiness.context();
    await host.query(`alter table ${OURS}.sweep_row_handler_status rename to away`);
    await host.query('alter table tickets rename to tickets_away');
    expect(await read('cohort_dead_letters')).toEqual({});
    // What can be looked at is shown all the same.
    expect(Object.keys(await read('cohort_oldest_overdue_row_seconds')).sort()).toEqual([
      'entity="CaseContact"',
      'entity="SessionNote"',
      'entity="Signal"',
    ]);
    expect(await registry.metrics()).toContain('cohort_runs_total');
    // A failure is not repeated at every scrape.
    expect(host.logs.map((line) => line.split(':')[0]).sort()).toEqual([
      'The metrics of the row handler queue could not be looked at',
      'The oldest overdue row of Ticket could not be looked at',
    ]);
  });

  test('are left out of a scrape that would have to wait for them', async () => {
    const { host, read } = await open({ metrics: { probeInterval: 'PT1H' } as CohortOptions['metrics'] & object });
    await host.readiness.context();
    await host.orm.em.fork().transactional(async (em) => {
      await em.execute(`lock table ${OURS}.sweep_row_handler_status in access exclusive mode`);
      expect(await read('cohort_dead_letters')).toEqual({});
      expect(Object.keys(await read('cohort_oldest_overdue_row_seconds'))).toHaveLength(4);
    });
    await until(async () => Object.keys(await read('cohort_dead_letters')).length);
    expect(host.logs).toEqual([]);
  });

  test('of overdue rows are not shown while the tenant source hangs; all else is', async () => {
    class Hanging extends RetentionTenantSource {
      // eslint-disable-next-line require-yield
      override async *tenants(): AsyncGenerator<TenantContext> {
        await new Promise(() => undefined);
      }
    }
    const { host, read } = await open({ tenants: new Hanging() });
    await host.readiness.context();
    expect(await read('cohort_oldest_overdue_row_seconds')).toEqual({});
    expect(await read('cohort_dead_letters')).toEqual({ '': 0 });
    expect(host.logs.map((line) => line.split(':')[0])).toEqual(['The metrics of overdue rows could not be looked at']);
  });

  test('that are scraped at the same time ask once', async () => {
    const { host, registry } = await open();
    await host.readiness.context();
    await registry.metrics();
    await host.query(`alter table ${OURS}.sweep_row_handler_status rename to away`);
    await registry.metrics();
    expect(host.logs).toEqual([]);
  });

  async function openAgain(url: string, options: Partial<CohortOptions>, providers: readonly object[]) {
    const opened = await open(options, { url, providers });
    await opened.host.readiness.context();
    return opened;
  }
});

test('an erasure counts as a sweep does', async () => {
  const { host, read } = await open();
  await addNotes(host, [{}, { days: 1 }]);
  await host.erasure.erase(ACME, ErasureScope.tenant({ allowSoftDeleteAsErasure: true }), NOW);
  expect(await read('cohort_affected_rows_total')).toEqual({ 'entity="SessionNote",strategy="purge"': 2 });
  expect(await read('cohort_runs_total')).toEqual({ 'trigger="erasure",dry_run="false",status="succeeded"': 1 });
});
