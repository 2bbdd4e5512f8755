import { describe, expect, test } from '@jest/globals';
import { type Host, openHost } from '../support/host.js';
import { ACME, GLOBEX, NOW, SessionNote, notesHost } from '../support/notes.js';
import { addNotes, countRows, holdOn, nobodyInTransaction } from '../support/seed.js';
import { OURS } from '../support/schema.js';

const KILL = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;

/** Ends one batch's backend while it stands in its transaction, and waits until it is gone. */
async function killOpenTransaction(outside: Host): Promise<void> {
  await outside.query(`${KILL} and state like 'idle in transaction%'`);
  await nobodyInTransaction(outside);
}

describe('a connection that the server ends between two statements of a batch', () => {
  test.each(['before-lock', 'locked', 'mutated'] as const)('%s, once, costs the run nothing', async (point) => {
    let once = true;
    const outside = await openHost(notesHost);
    const host = await openHost({
      ...notesHost,
      options: { ...notesHost.options, sweepBatchSize: 10 },
      url: outside.url,
      probe: async (at, entity) => {
        if (at !== point || entity !== 'SessionNote' || !once) return;
        once = false;
        await killOpenTransaction(outside);
      },
    });
    await addNotes(
      host,
      Array.from({ length: 50 }, () => ({})),
    );
    const result = await host.sweep.sweep(ACME, NOW);
    const pool = (await host.orm.em.getDriver().getConnection().getNativeClient()) as unknown as Record<string, number>;
    expect(pool['totalCount']! - pool['idleCount']!).toBe(0);
    expect(result.status).toBe('succeeded');
    expect(result.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 50 });
    expect(await host.ledger.run(result.sweepId)).toMatchObject({ totalAffected: 50 });
  });
});

// design 4.1: RetentionDeletion runs in a transaction of the host's ORM.
test('a deletion whose connection is lost gives it back to the pool of the host', async () => {
  const outside = await openHost(notesHost);
  const host = await openHost({ ...notesHost, url: outside.url, poolSize: 3 });
  const ids = await addNotes(outside, [{}, {}, {}, {}]);
  for (const id of ids) {
    const target = { entity: SessionNote, recordId: id, tenant: ACME };
    await expect(
      host.deletion.execute([target], async (em) => {
        await killOpenTransaction(outside);
        await em.nativeDelete(SessionNote, { id });
      }),
    ).rejects.toThrow();
  }
  expect(await countRows(host, 'session_notes')).toBe(4);
});

test('connections killed at any statement, on several lanes, leave a ledger that equals the data', async () => {
  const options = { ...notesHost.options, sweepBatchSize: 20, parallelism: 3 };
  const host = await openHost({ ...notesHost, options, poolSize: 80 });
  const outside = await openHost({ ...notesHost, url: host.url, poolSize: 3 });
  const [{ pids }] = (await outside.query<{ pids: number[] }>('select array[pg_backend_pid()] as pids')) as [
    { pids: number[] },
  ];
  const ids = await addNotes(
    host,
    Array.from({ length: 1500 }, (_, i) => ({ tenant: i % 2 ? 'acme' : 'globex' })),
  );
  await host.holds.create(ids.slice(0, 20).map((id, i) => holdOn(SessionNote, id, i % 2 ? ACME : GLOBEX)));
  let sweeping = true;
  let killed = 0;
  const killer = (async () => {
    while (sweeping && killed < 40) {
      const rows = await outside.query(
        `${KILL} and pid <> all($1) and state in ('active', 'idle in transaction') and query ~ 'sweep_lane|session_notes|commit' order by random() limit 1`,
        [pids],
      );
      killed += rows.length;
    }
  })();
  for (let round = 0; round < 4; round++)
    await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW)).catch(() => undefined);
  sweeping = false;
  await killer;
  await outside.query(`update ${OURS}.sweep_lane set heartbeat_at = heartbeat_at - interval '2 hours'`);
  await Array.fromAsync(outside.sweep.sweepMany([ACME, GLOBEX], NOW));
  expect(killed).toBeGreaterThan(0);
  expect(await countRows(outside, 'session_notes')).toBe(20);
  const [sums] = await outside.query(
    `select (select sum(total_affected) from ${OURS}.sweep_run)::int as runs, (select sum(affected) from ${OURS}.sweep_run_entity_summary)::int as summaries,
      (select count(*) from ${OURS}.sweep_progress)::int as unfolded, (select count(*) from ${OURS}.sweep_run where status = 'started')::int as open`,
  );
  expect(sums).toEqual({ runs: 1480, summaries: 1480, unfolded: 0, open: 0 });
});

test.each([
  [{ driverOptions: { query_timeout: 200 } }, /driverOptions\.query_timeout is 200: .*use statement_timeout/],
  [{ sessionContext: 'connection' as const }, /sessionContext is 'connection'.*use 'transaction'/],
])('a driver that would hand on our connections in a state that is not theirs is refused: %j', async (orm, problem) => {
  const host = await openHost({ ...notesHost, orm });
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(problem);
});
