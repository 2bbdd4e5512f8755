import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { handlerOf, letLeasesAge, statusesOf } from '../support/handlers.js';
import { openHost } from '../support/host.js';
import { ACME, NOW, SessionNote, notesHost } from '../support/notes.js';
import { killProgram, messageOf, startProgram, stopProgram } from '../support/programs.js';
import { OURS } from '../support/schema.js';
import { addNotes, countRows, nobodyInTransaction, until } from '../support/seed.js';

/** Numbers from a seed, 0 up to `below`. */
function numbersFrom(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

// issue 4: SIGKILL between claim, work and settle, at random points
describe('a dispatcher killed again and again', () => {
  const ROWS = 1000;
  const POISONED = 20;
  const POINTS = ['claimed', 'worked', 'settling', 'settled'] as const;

  test.each([1, 2026])(
    'loses no work, keeps the order within a row, and calls nobody after a dead letter (seed %i)',
    async (seed) => {
      const pick = numbersFrom(seed);
      const host = await openHost({
        ...notesHost,
        providers: [
          handlerOf(SessionNote, 'First', {
            priority: 1,
            before: (note: SessionNote, { snapshot }) => void (snapshot['body'] = note.body),
          }),
          handlerOf(SessionNote, 'Second', { priority: 2 }),
        ],
      });
      await host.query('create table handled(id bigserial primary key, handler text, record_id text, fails bool)');
      await addNotes(
        host,
        Array.from({ length: ROWS }, () => ({})),
      );
      await host.query(`update session_notes set body = 'poison' where id in (select id from session_notes limit $1)`, [
        POISONED,
      ]);
      await host.sweep.sweep(ACME, NOW);

      for (let round = 0; round < 12; round++) {
        const child = startProgram(host, 'dispatcher', POINTS[pick(POINTS.length)]!, pick(60));
        // A point that comes too rarely lets it do all there is.
        await messageOf(child);
        await killProgram(child);
        await nobodyInTransaction(host);
        await letLeasesAge(host);
      }
      const last = startProgram(host, 'dispatcher');
      expect(await messageOf(last)).toMatchObject({ settled: true });

      const done = (handler: string) =>
        countRows(host, `(select distinct record_id from handled where handler = $1 and not fails) as d`, 'true', [
          handler,
        ]);
      expect([await done('First'), await done('Second')]).toEqual([ROWS - POISONED, ROWS - POISONED]);
      const tooEarly = `handled as s where s.handler = 'Second' and not exists (
        select 1 from handled as f where f.handler = 'First' and not f.fails and f.record_id = s.record_id and f.id < s.id)`;
      expect(await countRows(host, `(select 1 from ${tooEarly}) as t`)).toBe(0);

      const statuses = await statusesOf(host);
      const dead = statuses.filter((status) => status.state === 'deadLettered');
      expect(dead.map((status) => status.handler).sort()).toEqual([
        ...Array.from({ length: POISONED }, () => 'First'),
        ...Array.from({ length: POISONED }, () => 'Second'),
      ]);
      expect(statuses.filter((status) => status.state === 'succeeded')).toHaveLength(2 * (ROWS - POISONED));
      expect(statuses.filter((status) => status.payload !== null)).toEqual([]);
    },
    120_000,
  );
});

// field case C32
test('no blob outlives its row, nor a row its blob, whatever fails and whoever is killed', async () => {
  const pick = numbersFrom(32);
  const folder = await mkdtemp(join(tmpdir(), 'cohort-blobs-'));
  try {
    const host = await openHost({
      ...notesHost,
      options: { ...notesHost.options, sweepBatchSize: 50 },
      providers: [
        handlerOf(SessionNote, 'First', {
          before: (note: SessionNote, { snapshot }) => void (snapshot['body'] = note.body),
        }),
      ],
    });
    await host.query('create table handled(id bigserial primary key, handler text, record_id text, fails bool)');
    const ids = await addNotes(host, [
      ...Array.from({ length: 200 }, () => ({})),
      ...Array.from({ length: 5 }, () => ({ days: 1 })),
    ]);
    for (const id of ids) await writeFile(join(folder, id), 'pdf');
    await host.sweep.sweep(ACME, NOW);
    for (let round = 0; round < 5; round++) {
      const child = startProgram(host, 'dispatcher', 'worked', pick(60), [folder]);
      await messageOf(child);
      await killProgram(child);
      await nobodyInTransaction(host);
      await letLeasesAge(host);
    }
    const last = startProgram(host, 'dispatcher', '', 0, [folder]);
    expect(await messageOf(last)).toMatchObject({ settled: true });
    const rows = await host.query<{ id: string }>('select id from session_notes');
    expect((await readdir(folder)).sort()).toEqual(rows.map((row) => row.id).sort());
    expect(rows).toHaveLength(5);
    expect((await host.dispatcher.deadLetters()).items).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
}, 60_000);

// field case C16; acceptance 435, 436
describe('four processes with two-second slots', () => {
  /** Four processes start and four slots pass. */
  const SLOTS_MS = 45_000;
  const passesBySlot = `(select slot, count(*) as n from ${OURS}.sweep_pass where slot is not null group by slot) as p`;

  test('sweep each slot once', async () => {
    const host = await openHost(notesHost);
    await addNotes(
      host,
      Array.from({ length: 50 }, () => ({})),
    );
    const children = Array.from({ length: 4 }, () => startProgram(host, 'worker'));
    await until(async () => Math.max(0, (await countRows(host, passesBySlot)) - 3), SLOTS_MS);
    await Promise.all(children.map(stopProgram));
    // Told to stop in the middle, one may cancel its slot and leave it to another.
    const whole = `select 1 from ${OURS}.sweep_run r join ${OURS}.sweep_pass p using (pass_id) where r.status <> 'cancelled'`;
    expect(await countRows(host, `(${whole} group by p.slot, r.tenant_id having count(*) > 1) as twice`)).toBe(0);
    expect(await countRows(host, `${OURS}.sweep_run`, `status not in ('succeeded', 'cancelled')`)).toBe(0);
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(50);
  }, 60_000);

  test('finish the slot of a leader that was killed in the middle of its run', async () => {
    const host = await openHost(notesHost);
    await addNotes(
      host,
      Array.from({ length: 50 }, () => ({})),
    );
    const leader = startProgram(host, 'worker', 'committed', 2);
    expect(await messageOf(leader)).toBe('there');
    const others = Array.from({ length: 3 }, () => startProgram(host, 'worker'));
    await killProgram(leader);
    const claimed = await countRows(host, 'session_notes');
    expect(claimed).toBeGreaterThan(0);
    await until(() => countRows(host, passesBySlot, 'n > 1'), SLOTS_MS);
    await until(async () => ((await countRows(host, 'session_notes')) === 0 ? 1 : 0));
    await until(() => countRows(host, `${OURS}.sweep_run`, `status = 'failed' and error like '%recovered%'`));
    await Promise.all(others.map(stopProgram));
    // What the leader had committed is in its run, the rest in the run that finished the slot.
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(50);
    expect(await countRows(host, passesBySlot, 'n > 2')).toBe(0);
  }, 60_000);
});
