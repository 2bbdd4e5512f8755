import { describe, expect, test } from '@jest/globals';
import { IsolationLevel } from '@mikro-orm/core';
import type { RetentionHoldError } from 'nestjs-cohort';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { ACME, CaseContact, GLOBEX, NOW, SessionNote, Ticket, daysBefore, notesHost } from '../support/notes.js';
import { addContacts, addNotes, addTickets, countRows, holdOn, somebodyWaits } from '../support/seed.js';
import { OURS } from '../support/schema.js';

type Point = 'before-lock' | 'locked' | 'mutated' | 'committed';

async function open(input: Partial<HostOptions> = {}): Promise<Host> {
  return openHost({ ...notesHost, ...input });
}

/** A host whose sweep stops once at `point` of one entity: `reached` tells when, `go` lets it on. */
async function pausing(point: Point, entityName: string, input: Partial<HostOptions> = {}) {
  const reached = latch();
  const resume = latch();
  let once = true;
  const host = await open({
    ...input,
    probe: async (at, entity) => {
      if (at !== point || entity !== entityName || !once) return;
      once = false;
      reached.open();
      await resume.opened;
    },
  });
  return { host, reached: reached.opened, go: resume.open };
}

const STRATEGIES = [
  {
    strategy: 'purge',
    entity: SessionNote,
    add: addNotes,
    table: 'session_notes',
    untouched: 'true',
    changed: 'false',
  },
  {
    strategy: 'soft-delete',
    entity: Ticket,
    add: addTickets,
    table: 'tickets',
    untouched: 'not is_deleted and deleted_at is null',
    changed: 'is_deleted',
  },
  {
    strategy: 'anonymise',
    entity: CaseContact,
    add: addContacts,
    table: 'case_contacts',
    untouched: `anonymised_at is null and email = 'ada@mail.test'`,
    changed: 'anonymised_at is not null and email is null',
  },
] as const;

// acceptance 335-337, 350; field case C04; HOLD-20
describe.each(STRATEGIES)(
  'a hold placed while a sweep would $strategy its row',
  ({ strategy, entity, add, table, untouched, changed }) => {
    test('protects the row when it is placed before the batch locks', async () => {
      const { host, reached, go } = await pausing('before-lock', entity.name);
      const [held] = await add(host, [{}, {}]);
      const sweep = host.sweep.sweep(ACME, NOW);
      await reached;
      await host.holds.create(holdOn(entity, held!));
      go();
      const count = (await sweep).counts.find((each) => each.entity === entity.name);
      expect(count).toMatchObject({ affected: 1, held: 1, skipped: 0 });
      expect(await countRows(host, table, `id::text = $1 and ${untouched}`, [held])).toBe(1);
    });

    test.each(['locked', 'mutated'] as const)(
      'waits for the batch and then tells the truth when it is %s',
      async (point) => {
        const { host, reached, go } = await pausing(point, entity.name);
        const [row] = await add(host, [{}]);
        const sweep = host.sweep.sweep(ACME, NOW);
        await reached;
        const hold = host.holds.create(holdOn(entity, row!)).then(
          () => 'stored',
          (error: RetentionHoldError) => error.code,
        );
        await somebodyWaits(host);
        go();
        expect((await sweep).counts.find((each) => each.entity === entity.name)).toMatchObject({
          affected: 1,
          held: 0,
        });
        expect(await hold).toBe(strategy === 'purge' ? 'hold-record-missing' : 'stored');
        expect(await countRows(host, table, changed)).toBe(strategy === 'purge' ? 0 : 1);
        expect(await countRows(host, `${OURS}.retention_holds`)).toBe(strategy === 'purge' ? 0 : 1);
      },
    );

    test('fails loudly after a purge, and stands after an update', async () => {
      const { host, reached, go } = await pausing('committed', entity.name);
      const [row] = await add(host, [{}]);
      const sweep = host.sweep.sweep(ACME, NOW);
      await reached;
      const hold = host.holds.create(holdOn(entity, row!));
      if (strategy === 'purge') await expect(hold).rejects.toMatchObject({ code: 'hold-record-missing' });
      else await hold;
      go();
      await sweep;
    });

    // acceptance 363
    test('is refused with a serialisation failure under a repeatable-read snapshot from before the batch', async () => {
      const host = await open();
      const [row] = await add(host, [{}]);
      const attempt = host.orm.em.fork().transactional(
        async (em) => {
          await em.execute('select 1 from session_notes');
          await host.sweep.sweep(ACME, NOW);
          await host.holds.create(holdOn(entity, row!), { em });
        },
        { isolationLevel: IsolationLevel.REPEATABLE_READ },
      );
      await expect(attempt).rejects.toMatchObject({ code: 'hold-serialization', sqlState: '40001' });
      expect(await countRows(host, `${OURS}.retention_holds`)).toBe(0);
    });

    test('protects the row while its own transaction stays open, and after its commit', async () => {
      const host = await open();
      const [row] = await add(host, [{}, {}]);
      await host.orm.em.fork().transactional(async (em) => {
        await host.holds.create(holdOn(entity, row!), { em });
        const during = await host.sweep.sweep(ACME, NOW);
        expect(during.counts.find((each) => each.entity === entity.name)).toMatchObject({
          affected: 1,
          held: 0,
          skipped: 1,
          skippedByCause: { locked: 1 },
        });
      });
      const after = await host.sweep.sweep(ACME, NOW);
      expect(after.counts.find((each) => each.entity === entity.name)).toMatchObject({
        affected: 0,
        held: 1,
        skipped: 0,
      });
      expect(await countRows(host, table, `id::text = $1 and ${untouched}`, [row])).toBe(1);
    });

    test('lets the row go when its transaction is rolled back', async () => {
      const host = await open();
      const [row] = await add(host, [{}]);
      await host.orm.em
        .fork()
        .transactional(async (em) => {
          await host.holds.create(holdOn(entity, row!), { em });
          throw new Error('changed my mind');
        })
        .catch(() => undefined);
      expect((await host.sweep.sweep(ACME, NOW)).counts.find((each) => each.entity === entity.name)).toMatchObject({
        affected: 1,
      });
    });
  },
);

describe('a database that defaults to repeatable read', () => {
  test('is swept under read committed all the same, and its held rows stay', async () => {
    const { host, reached, go } = await pausing('before-lock', 'SessionNote');
    const [{ name }] = (await host.query<{ name: string }>('select current_database() as name')) as [{ name: string }];
    await host.query(`alter database ${name} set default_transaction_isolation = 'repeatable read'`);
    const second = await open({ url: host.url });
    await host.query('create table seen(isolation text)');
    await host.query(`create function note_isolation() returns trigger language plpgsql as
      $$ begin insert into seen values (current_setting('transaction_isolation')); return old; end $$`);
    await host.query(
      'create trigger seen before delete on session_notes for each row execute function note_isolation()',
    );
    const [held] = await addNotes(host, [{}, {}]);
    const sweep = host.sweep.sweep(ACME, NOW);
    await reached;
    await second.holds.create(holdOn(SessionNote, held!));
    go();
    expect((await sweep).counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 1, held: 1 });
    await addNotes(host, [{}]);
    await second.sweep.sweep(ACME, NOW);
    expect(await host.query('select distinct isolation from seen')).toEqual([{ isolation: 'read committed' }]);
  });
});

// acceptance 272, 274; SWP-39
describe('two sweepers over one backlog', () => {
  test.each(STRATEGIES)('$strategy each row once and count each once', async ({ entity, add }) => {
    const options = {
      ...notesHost.options,
      sweepBatchSize: 40,
      rules: {
        'session-notes': { period: 'P30D', strategy: 'purge' as const, auditRowDetail: 'perRow' as const },
        'case-contacts': { period: 'P1Y', strategy: 'anonymise' as const, auditRowDetail: 'perRow' as const },
        tickets: { period: 'P90D', strategy: 'softDelete' as const, auditRowDetail: 'perRow' as const },
        signals: { period: 'P7D', strategy: 'purge' as const },
      },
    };
    // Both stop once with a batch in hand, so that they are sure to work at the same time.
    const bothHave = latch();
    let arrived = 0;
    const probe = async (at: Point) => {
      if (at !== 'locked') return;
      if (++arrived === 2) bothHave.open();
      await bothHave.opened;
    };
    const one = await open({ options, probe });
    const other = await open({ options, probe, url: one.url });
    await add(
      one,
      Array.from({ length: 1000 }, () => ({})),
    );
    const results = await Promise.all([one.sweep.sweep(ACME, NOW), other.sweep.sweep(ACME, NOW)]);
    const affected = results.map((result) => result.counts.find((each) => each.entity === entity.name)!.affected);
    expect(affected[0]! + affected[1]!).toBe(1000);
    expect(Math.min(...affected)).toBeGreaterThan(0);
    const [details] = await one.query(
      `select count(*)::int as rows, count(distinct record_id)::int as ids from ${OURS}.sweep_run_row_detail`,
    );
    expect(details).toEqual({ rows: 1000, ids: 1000 });
    const third = await one.sweep.sweep(ACME, NOW);
    expect(third.counts.find((each) => each.entity === entity.name)).toMatchObject({ affected: 0, skipped: 0 });
  });
});

describe('a row that somebody else is changing', () => {
  test.each([
    { change: 'touched, still due', sql: `update session_notes set body = 'new' where id = $1`, goes: true },
    {
      change: 'no longer due',
      sql: `update session_notes set created_at = '${NOW.toISOString()}' where id = $1`,
      goes: false,
    },
    {
      change: 'moved to another tenant',
      sql: `update session_notes set tenant_id = 'globex' where id = $1`,
      goes: false,
    },
    { change: 'without an anchor now', sql: `update session_notes set created_at = null where id = $1`, goes: false },
  ])('is judged by its new version: $change', async ({ sql, goes }) => {
    const host = await open();
    const [row] = await addNotes(host, [{}, {}]);
    await host.orm.em.fork().transactional(async (em) => {
      await em.execute(sql.replace('$1', '?'), [row]);
      // Passed over without waiting; what was free has gone.
      const during = await host.sweep.sweep(ACME, NOW);
      expect(during.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({
        affected: 1,
        skipped: 1,
        skippedByCause: { locked: 1 },
      });
    });
    await host.sweep.sweep(ACME, NOW);
    expect(await countRows(host, 'session_notes', 'id = $1', [row])).toBe(goes ? 0 : 1);
  });

  // The other transaction commits between the batch's snapshot and its lock, again and again.
  test('is never lost or counted twice under a storm of updates, moves and holds', async () => {
    const host = await open({ options: { ...notesHost.options, sweepBatchSize: 25, parallelism: 2 }, poolSize: 20 });
    const ids = await addNotes(
      host,
      Array.from({ length: 1200 }, (_, index) => ({
        tenant: index % 2 ? ACME.id : GLOBEX.id,
        days: 40 + (index % 300),
      })),
    );
    let sweeping = true;
    const held: string[] = [];
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    const updater = async (sql: string) => {
      while (sweeping) await host.query(sql, [ids[random(ids.length)]]);
    };
    const holder = async () => {
      while (sweeping) {
        const id = ids[random(ids.length)]!;
        const tenants = await host.query<{ tenant_id: string }>('select tenant_id from session_notes where id = $1', [
          id,
        ]);
        if (!tenants[0]) continue;
        const tenant = tenants[0].tenant_id === ACME.id ? ACME : GLOBEX;
        const stored = await host.holds.create(holdOn(SessionNote, id, tenant)).then(
          () => true,
          (error: RetentionHoldError) => {
            if (!['hold-record-missing', 'hold-tenant-mismatch'].includes(error.code)) throw error;
            return false;
          },
        );
        if (stored) held.push(id);
      }
    };
    const storm = [
      updater(`update session_notes set body = body || 'x' where id = $1`),
      updater(`update session_notes set created_at = created_at - interval '1 day' where id = $1`),
      updater(
        `update session_notes set tenant_id = case tenant_id when 'acme' then 'globex' else 'acme' end where id = $1`,
      ),
      holder(),
      holder(),
    ];
    let affected = 0;
    for (let round = 0; round < 3; round++) {
      const sweeps = [host.sweep.sweepMany([ACME, GLOBEX], NOW), host.sweep.sweepMany([GLOBEX, ACME], NOW)].map(
        async (results) => {
          for await (const result of results) affected += result.counts.reduce((sum, each) => sum + each.affected, 0);
        },
      );
      await Promise.all(sweeps);
    }
    sweeping = false;
    await Promise.all(storm);
    for await (const result of host.sweep.sweepMany([ACME, GLOBEX], NOW))
      affected += result.counts.reduce((sum, each) => sum + each.affected, 0);

    const left = await countRows(host, 'session_notes');
    expect(await countRows(host, 'session_notes', 'id = any($1)', [held])).toBe(new Set(held).size);
    expect(left).toBe(new Set(held).size);
    expect(affected).toBe(1200 - left);
    const [ledger] = await host.query(`select sum(affected)::int as affected from ${OURS}.sweep_run_entity_summary`);
    expect(ledger).toEqual({ affected });
    expect(await countRows(host, `${OURS}.sweep_progress`)).toBe(0);
  });
});

// field case C04
describe('lists of holds in opposite order', () => {
  test('never deadlock, within an entity and across two', async () => {
    const host = await open({ poolSize: 8 });
    const notes = await addNotes(host, [{}, {}, {}]);
    const contacts = await addContacts(host, [{}, {}, {}]);
    const list = () => [
      ...notes.map((id) => holdOn(SessionNote, id)),
      ...contacts.map((id) => holdOn(CaseContact, id)),
    ];
    await Promise.all(
      Array.from({ length: 30 }, (_, round) => {
        const holds = list();
        return host.holds.create(round % 2 ? holds : holds.reverse());
      }),
    );
    expect(await countRows(host, `${OURS}.retention_holds`)).toBe(180);
  });
});

describe('a sweep inside the caller’s transaction', () => {
  // acceptance 261-263, SWP-14, PREV-07; field case C46
  test('neither sees nor joins it, and what the caller loaded before cannot bring a row back', async () => {
    const host = await open();
    const [gone] = await addNotes(host, [{ days: 40 }]);
    const [contact] = await addContacts(host, [{}]);
    await host.orm.em
      .fork()
      .transactional(async (em) => {
        const note = await em.findOneOrFail(SessionNote, { id: gone! });
        const loaded = await em.findOneOrFail(CaseContact, { id: contact! });
        await em.execute(
          `insert into session_notes(id, tenant_id, created_at, body) values (gen_random_uuid(), 'acme', ?, '')`,
          [daysBefore(40)],
        );
        expect(
          (await host.preview.preview(ACME, NOW)).counts.find((each) => each.entity === 'SessionNote'),
        ).toMatchObject({ affected: 1 });
        const result = await host.sweep.sweep(ACME, NOW);
        expect(result.counts.map((each) => [each.entity, each.affected])).toEqual([
          ['CaseContact', 1],
          ['SessionNote', 1],
          ['Ticket', 0],
        ]);
        loaded.country = 'FR';
        note.body = 'edited after it was purged';
        await em.flush().catch(() => undefined);
      })
      .catch(() => undefined);
    expect(await countRows(host, 'session_notes', 'id = $1', [gone])).toBe(0);
    expect(await countRows(host, 'case_contacts', 'email is null and anonymised_at is not null')).toBe(1);
  });
});
