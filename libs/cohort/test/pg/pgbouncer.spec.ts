import { afterEach, expect, test } from '@jest/globals';
import { ErasureScope } from 'nestjs-cohort';
import { handlerOf } from '../support/handlers.js';
import { type Host, openHost } from '../support/host.js';
import { ACME, GLOBEX, NOW, SessionNote, notesHost } from '../support/notes.js';
import { type Pooler, findPgBouncer, startPgBouncer } from '../support/pgbouncer.js';
import { killProgram, messageOf, startProgram } from '../support/programs.js';
import { OURS } from '../support/schema.js';
import { addContacts, addNotes, countRows, holdOn, nobodyInTransaction } from '../support/seed.js';
import { workerOf } from '../support/worker.js';

const binary = findPgBouncer();
// On a developer's machine it may be missing; where everything is tested it may not.
const withPgBouncer = binary || process.env['CI'] ? test : test.skip;
const poolers: Pooler[] = [];
afterEach(() => Promise.all(poolers.splice(0).map((pooler) => pooler.stop())));

async function behind(host: Host): Promise<Pooler> {
  if (!binary) throw new Error('PgBouncer is not installed; wanted: the package pgbouncer of the distribution.');
  const pooler = await startPgBouncer(binary, host.url);
  poolers.push(pooler);
  return pooler;
}

const locksLeft = (host: Host) => countRows(host, 'pg_locks', `locktype = 'advisory'`);

// field case C17
withPgBouncer(
  `behind PgBouncer in transaction mode everything works, and no lock outlives its transaction${binary ? '' : ' (pgbouncer is not installed)'}`,
  async () => {
    const direct = await openHost(notesHost);
    const { url } = await behind(direct);
    const handler = handlerOf(SessionNote, 'Blobs');
    const host = await openHost({
      ...notesHost,
      url,
      providers: [handler],
      options: { ...notesHost.options, parallelism: 2, sweepBatchSize: 20, schedule: '0 2 * * *', tenants: [GLOBEX] },
    });
    const [held] = await addNotes(
      direct,
      Array.from({ length: 101 }, () => ({})),
    );
    await addNotes(direct, [{ tenant: 'globex' }]);
    await addContacts(direct, [{}]);
    await host.holds.create(holdOn(SessionNote, held!));
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 100, held: 1 });
    expect(await host.dispatcher.flush()).toMatchObject({ settled: true });
    expect(handler.afters).toHaveLength(100);
    const { tickAt } = workerOf(host, '2026-06-30T00:00:00Z');
    await tickAt('2026-06-30T00:00:00Z');
    await tickAt('2026-06-30T02:00:00Z');
    expect(await countRows(direct, 'session_notes')).toBe(1);
    const erased = await host.erasure.erase(ACME, ErasureScope.tenant({ allowSoftDeleteAsErasure: true }), NOW);
    expect(erased.status).toBe('succeeded');
    expect(await locksLeft(direct)).toBe(0);
  },
);

// field case C17
withPgBouncer(
  `behind PgBouncer a killed process leaves no lock, and the next run does the rest${binary ? '' : ' (pgbouncer is not installed)'}`,
  async () => {
    const direct = await openHost(notesHost);
    const { url } = await behind(direct);
    await addNotes(
      direct,
      Array.from({ length: 300 }, () => ({})),
    );
    const child = startProgram({ ...direct, url }, 'sweeper', 'mutated', 1);
    expect(await messageOf(child)).toBe('there');
    await killProgram(child);
    await nobodyInTransaction(direct);
    expect(await locksLeft(direct)).toBe(0);
    await direct.query(`update ${OURS}.sweep_lane set heartbeat_at = heartbeat_at - interval '2 hours'`);
    const host = await openHost({ ...notesHost, url });
    expect((await host.sweep.sweep(ACME, NOW)).status).toBe('succeeded');
    expect(await countRows(direct, 'session_notes')).toBe(0);
    const { items } = await host.ledger.runs();
    expect(items.map((run) => [run.status, run.totalAffected]).sort()).toEqual([
      ['failed', 100],
      ['succeeded', 200],
    ]);
  },
);
