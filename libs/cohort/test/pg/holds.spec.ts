import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { defineEntity, p } from '@mikro-orm/core';
import { Strategy, TENANTLESS, retain } from 'nestjs-cohort';
import { type Host, openHost, startHost } from '../support/host.js';
import {
  ACME,
  CaseContact,
  GLOBEX,
  NOTE_ID,
  NOW,
  SIGNAL_ID,
  SessionNote,
  Signal,
  Ticket,
  daysBefore,
  notesHost,
} from '../support/notes.js';
import { addContacts, addNotes, addTickets, countRows, holdOn, somebodyWaits } from '../support/seed.js';
import { OURS } from '../support/schema.js';

/** Keys whose text is not the caller's spelling: a numeric, a char(8), a case-insensitive collation. */
const Ledger = defineEntity({
  name: 'Ledger',
  tableName: 'ledgers',
  properties: { id: p.decimal().precision(10).scale(2).primary(), tenantId: p.text(), createdAt: p.datetime() },
});
retain(Ledger, { category: 'ledgers', anchor: 'createdAt', entityId: '5f0c2a3e-0000-4000-8000-00000000abcd' });

let host: Host;
beforeAll(async () => {
  host = await startHost({
    entities: [...notesHost.entities, Ledger],
    options: { rules: { ...notesHost.options.rules, ledgers: { period: 'P30D', strategy: Strategy.Purge } } },
  });
});
afterAll(() => host.close());
beforeEach(() =>
  host.query(`truncate session_notes, case_contacts, tickets, signals, ledgers, ${OURS}.retention_holds`),
);

const sweepNotes = async () =>
  (await host.sweep.sweep(ACME, NOW)).counts.find((each) => each.entity === 'SessionNote')!;
const soon = () => new Date(Date.now() + 60_000);

// field case C01
test('one hold is honoured by preview, dry run and sweep alike; without it both rows go', async () => {
  const [held] = await addNotes(host, [{}, {}]);
  const hold = holdOn(SessionNote, held!);
  await host.holds.create(hold);
  const counts = [
    (await host.preview.preview(ACME, NOW)).counts,
    (await host.sweep.sweep(ACME, NOW, { dryRun: true })).counts,
    (await host.sweep.sweep(ACME, NOW)).counts,
  ].map((each) => each.find((count) => count.entity === 'SessionNote'));
  for (const count of counts) expect(count).toMatchObject({ affected: 1, held: 1, skipped: 0 });
  expect(await countRows(host, 'session_notes', 'id = $1', [held])).toBe(1);
  await host.holds.release(hold.holdId);
  expect(await sweepNotes()).toMatchObject({ affected: 1, held: 0 });
});

// field case C05; HOLD-13
test('two matters hold one row: releasing the first leaves the second in force', async () => {
  const [row] = await addNotes(host, [{}]);
  const first = { ...holdOn(SessionNote, row!), reason: 'matter M1' };
  const second = { ...holdOn(SessionNote, row!), reason: 'matter M2' };
  await host.holds.create([first, second]);
  await host.holds.release(first.holdId);
  expect(await sweepNotes()).toMatchObject({ affected: 0, held: 1 });
  expect((await host.holds.list({ activeAsOf: soon() })).map((hold) => hold.reason)).toEqual(['matter M2']);
  await host.holds.release(second.holdId);
  expect(await sweepNotes()).toMatchObject({ affected: 1, held: 0 });
});

// acceptance 340, 349; HOLD-01, HOLD-14, HOLD-16
test('create, list, check and release come round', async () => {
  const [note] = await addNotes(host, [{}]);
  const [contact] = await addContacts(host, [{ tenant: 'globex' }]);
  const ofNote = { ...holdOn(SessionNote, note!), expiresAt: new Date('2999-01-01T00:00:00Z') };
  const ofContact = holdOn(CaseContact, contact!, GLOBEX);
  await host.holds.create([ofContact, ofNote]);
  expect(await host.holds.list({ activeAsOf: soon() })).toMatchObject([
    {
      holdId: ofNote.holdId,
      entityId: NOTE_ID,
      recordId: note,
      tenantId: 'acme',
      reason: 'matter 7',
      expiresAt: ofNote.expiresAt,
      removedAt: null,
    },
    { holdId: ofContact.holdId, recordId: contact, tenantId: 'globex', expiresAt: null },
  ]);
  expect(await host.holds.list({ activeAsOf: soon(), tenant: GLOBEX })).toHaveLength(1);
  expect(await host.holds.list({ activeAsOf: soon(), entity: SessionNote })).toHaveLength(1);
  expect(await host.holds.hasActive({ entity: NOTE_ID, recordId: note!, tenant: ACME })).toBe(true);
  await host.holds.release(ofNote.holdId);
  expect(await host.holds.hasActive({ entity: SessionNote, recordId: note!, tenant: ACME })).toBe(false);
  await expect(host.holds.release(ofNote.holdId)).rejects.toMatchObject({ code: 'hold-not-active' });
  await expect(host.holds.release(randomUUID())).rejects.toMatchObject({ code: 'hold-not-active' });
});

test('what a caller does with his list and his requests after the call changes nothing of what is held', async () => {
  const [first, second] = (await addNotes(host, [{}, {}])) as [string, string];
  const request = { ...holdOn(SessionNote, first) };
  const list = [request, holdOn(SessionNote, second)];
  const placed = host.holds.create(list);
  request.recordId = second;
  list.length = 0;
  await placed;
  const held = (await host.holds.list({ activeAsOf: soon(), entity: SessionNote })).map((hold) => hold.recordId);
  expect(held).toEqual([first, second].sort());
});

// acceptance 341-343; HOLD-15
test('a hold is active from its creation on, and no longer at its expiry or release', async () => {
  const [row] = await addNotes(host, [{}]);
  const [createdAt, expiresAt] = [new Date('2026-01-01T00:00:00Z'), new Date('2026-02-01T00:00:00Z')];
  const hold = { ...holdOn(SessionNote, row!), createdAt, expiresAt };
  await host.holds.create(hold);
  const activeAt = (asOf: Date) => host.holds.hasActive({ entity: SessionNote, recordId: row!, tenant: ACME, asOf });
  const near = (instant: Date, ms: number) => new Date(instant.getTime() + ms);
  expect([await activeAt(near(createdAt, -1)), await activeAt(createdAt)]).toEqual([false, true]);
  expect([await activeAt(near(expiresAt, -1)), await activeAt(expiresAt)]).toEqual([true, false]);
  const releasedAt = new Date('2026-01-15T00:00:00Z');
  await host.holds.release(hold.holdId, releasedAt);
  expect([await activeAt(near(releasedAt, -1)), await activeAt(releasedAt)]).toEqual([true, false]);
});

// acceptance 357-359
test.each([
  { entity: SessionNote, add: addNotes },
  { entity: Ticket, add: addTickets },
  { entity: CaseContact, add: addContacts },
] as const)('$entity.name: active holds keep their rows, expired and released ones do not', async ({ entity, add }) => {
  const [active, expired, released] = await add(host, [{}, {}, {}]);
  const toRelease = holdOn(entity, released!);
  await host.holds.create([
    holdOn(entity, active!),
    { ...holdOn(entity, expired!), createdAt: daysBefore(2), expiresAt: daysBefore(1) },
    toRelease,
  ]);
  await host.holds.release(toRelease.holdId);
  expect((await host.sweep.sweep(ACME, NOW)).counts.find((each) => each.entity === entity.name)).toMatchObject({
    affected: 2,
    held: 1,
  });
});

// acceptance 350; HOLD-18; 5.3 trap 22
test('today’s hold protects its row from a sweep of an earlier logical now, and expiry goes by the database’s clock', async () => {
  const [row, other] = await addNotes(host, [{}, {}]);
  await host.holds.create([
    holdOn(SessionNote, row!),
    // Expired by the logical now of the sweep, which is in the year 2100, but not by the database's clock.
    { ...holdOn(SessionNote, other!), expiresAt: new Date('2099-01-01T00:00:00Z') },
  ]);
  const backdated = await host.sweep.sweep(ACME, new Date('2025-06-01T00:00:00Z'));
  expect(backdated.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 0, held: 2 });
  const ahead = await host.sweep.sweep(ACME, new Date('2100-01-01T00:00:00Z'));
  expect(ahead.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 0, held: 2 });
});

// acceptance 362; HOLD-12; design 4.1
test('an application clock that runs ahead opens no gap, nor does a database clock that was ahead', async () => {
  const [row, failedOver] = await addNotes(host, [{}, {}]);
  await host.holds.create({ ...holdOn(SessionNote, row!), createdAt: new Date('2200-01-01T00:00:00Z') });
  const [stored] = await host.holds.list({ activeAsOf: soon() });
  expect(stored!.createdAt.getTime()).toBeLessThanOrEqual(Date.now() + 1000);
  await host.query(
    `insert into ${OURS}.retention_holds(hold_id, scope_kind, retention_entity_id, record_id, tenant_id, reason, created_at)
     values (gen_random_uuid(), 'record', $1, $2, 'acme', 'stored by the old primary', now() + interval '1 hour')`,
    [NOTE_ID, failedOver],
  );
  expect(await sweepNotes()).toMatchObject({ affected: 0, held: 2 });
  expect(await host.holds.hasActive({ entity: SessionNote, recordId: failedOver!, tenant: ACME })).toBe(true);
});

describe('a hold that could protect nothing is refused', () => {
  const refused = async (hold: Parameters<Host['holds']['create']>[0], code: string) => {
    await expect(host.holds.create(hold)).rejects.toMatchObject({ code });
    expect(await countRows(host, `${OURS}.retention_holds`)).toBe(0);
  };

  // acceptance 351-353, 356, 455; HOLD-04 to HOLD-11
  test('unknown entity, missing row, wrong tenant, tenant where there is none', async () => {
    const [note] = await addNotes(host, [{}]);
    await host.query('insert into signals(id, seen_at) values (5, now())');
    await refused(holdOn('99999999-0000-4000-8000-000000000000', note!), 'hold-unknown-entity');
    await refused(holdOn(class Unknown {}, note!), 'hold-unknown-entity');
    await refused(holdOn(SessionNote, randomUUID()), 'hold-record-missing');
    await refused(holdOn(SessionNote, note!, GLOBEX), 'hold-tenant-mismatch');
    await refused(holdOn(SessionNote, note!, TENANTLESS), 'hold-tenant-mismatch');
    await refused(holdOn(Signal, '5', ACME), 'hold-tenant-mismatch');
    await refused([holdOn(SessionNote, note!), holdOn(SessionNote, randomUUID())], 'hold-record-missing');
  });

  test.each([
    [SessionNote, 'not a uuid'],
    [SessionNote, '5'],
    [Ticket, 'five'],
    [Ticket, '5.0'],
    [Ticket, '99999999999'],
    [Ledger, 'a lot'],
  ])('malformed ids of %p: %s', async (entity, id) => {
    await refused(holdOn(entity, id), 'hold-record-id-invalid');
  });

  test('the same holdId twice, and an expiry before the beginning', async () => {
    const [note] = await addNotes(host, [{}]);
    await refused({ ...holdOn(SessionNote, note!), expiresAt: new Date('2020-01-01T00:00:00Z') }, 'hold-not-active');
    const hold = holdOn(SessionNote, note!);
    await host.holds.create(hold);
    await expect(host.holds.create(hold)).rejects.toMatchObject({ code: 'hold-exists', sqlState: '23505' });
  });
});

// acceptance 354, 355, 360; HOLD-06, HOLD-09; field trap 30
test('a record is held under any spelling of its id', async () => {
  const [note] = await addNotes(host, [{}]);
  await addTickets(host, [{ id: '77' }]);
  await host.query(`insert into ledgers(id, tenant_id, created_at) values (1.50, 'acme', '2020-01-01')`);
  await host.query('insert into signals(id, seen_at) values (5, $1)', [daysBefore(90)]);
  await host.holds.create([
    holdOn(SessionNote, `{${note!.toUpperCase()}}`),
    holdOn(Ticket, ' 077 '),
    holdOn(Ledger, '1.5'),
    holdOn(SIGNAL_ID, '05', TENANTLESS),
  ]);
  const counts = (await host.sweep.sweep(ACME, NOW)).counts;
  expect(counts.filter((each) => each.held === 1).map((each) => each.entity)).toEqual([
    'Ledger',
    'SessionNote',
    'Ticket',
  ]);
  expect((await host.sweep.sweep(TENANTLESS, NOW)).counts).toMatchObject([{ entity: 'Signal', affected: 0, held: 1 }]);
  expect(await host.holds.hasActive({ entity: SessionNote, recordId: note!.replaceAll('-', ''), tenant: ACME })).toBe(
    true,
  );
  expect(await host.holds.hasActive({ entity: Ticket, recordId: '0077', tenant: ACME })).toBe(true);
});

// acceptance 339; HOLD-21
test('a hold on one entity leaves the same id of another alone', async () => {
  const id = randomUUID();
  await addNotes(host, [{ id }]);
  await addContacts(host, [{ id }]);
  await host.holds.create(holdOn(CaseContact, id));
  const counts = (await host.sweep.sweep(ACME, NOW)).counts;
  expect(counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 1, held: 0 });
  expect(counts.find((each) => each.entity === 'CaseContact')).toMatchObject({ affected: 0, held: 1 });
});

describe('inside the caller’s transaction', () => {
  // acceptance 344-348; HOLD-02
  test('every call sees what the transaction did, commits and rolls back with it', async () => {
    const [kept, undone] = await addNotes(host, [{}, {}]);
    const hold = holdOn(SessionNote, kept!);
    await host.orm.em.fork().transactional(async (em) => {
      await host.holds.create(hold, { em });
      expect(await host.holds.hasActive({ entity: SessionNote, recordId: kept!, tenant: ACME }, { em })).toBe(true);
      expect(await host.holds.list({ activeAsOf: soon() }, { em })).toHaveLength(1);
      expect(await host.holds.list({ activeAsOf: soon() })).toHaveLength(0);
    });
    await expect(
      host.orm.em.fork().transactional(async (em) => {
        await host.holds.create(holdOn(SessionNote, undone!), { em });
        await host.holds.release(hold.holdId, undefined, { em });
        expect(await host.holds.hasActive({ entity: SessionNote, recordId: kept!, tenant: ACME }, { em })).toBe(false);
        throw new Error('rolled back');
      }),
    ).rejects.toThrow('rolled back');
    expect((await host.holds.list({ activeAsOf: soon() })).map((each) => each.recordId)).toEqual([kept]);
  });

  // acceptance 361; HOLD-08
  test('a refused hold leaves it usable, and its lock_timeout as it was', async () => {
    const [note] = await addNotes(host, [{}]);
    await addTickets(host, [{ id: '1' }]);
    await host.query(`insert into ledgers(id, tenant_id, created_at) values (1, 'acme', '2020-01-01')`);
    await host.orm.em.fork().transactional(async (em) => {
      await em.execute(`set local lock_timeout = '4321ms'`);
      await expect(host.holds.create(holdOn(Ledger, 'nonsense'), { em })).rejects.toMatchObject({
        code: 'hold-record-id-invalid',
      });
      await expect(host.holds.create(holdOn(SessionNote, randomUUID()), { em })).rejects.toMatchObject({
        code: 'hold-record-missing',
      });
      await host.holds.create(holdOn(SessionNote, note!), { em });
      expect(await em.execute('show lock_timeout')).toEqual([{ lock_timeout: '4321ms' }]);
    });
    expect(await host.holds.list({ activeAsOf: soon() })).toHaveLength(1);
  });

  test('calls that are made at once take turns: one that is refused undoes no other', async () => {
    const [a, b, c] = (await addNotes(host, [{}, {}, {}])) as [string, string, string];
    const known = holdOn(SessionNote, a);
    const released = holdOn(SessionNote, c);
    await host.holds.create([known, released]);
    const good = holdOn(SessionNote, b);
    const [contact] = (await addContacts(host, [{}])) as [string];
    // Refused late, at its insert.
    const bad = [{ ...holdOn(SessionNote, b), holdId: known.holdId }, holdOn(CaseContact, contact)];
    const settled = await host.orm.em
      .fork()
      .transactional((em) =>
        Promise.allSettled([
          host.holds.create(bad, { em }),
          host.holds.create(good, { em }),
          host.holds.create(holdOn(SessionNote, randomUUID()), { em }),
          host.holds.release(released.holdId, undefined, { em }),
        ]),
      );
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    const active = await host.holds.list({ activeAsOf: new Date() });
    expect(active.map(({ holdId }) => holdId).sort()).toEqual([known.holdId, good.holdId].sort());
  });

  test('a gate that another open transaction keeps closed is waited for two seconds, then named', async () => {
    const [one, two] = await addNotes(host, [{}, {}]);
    await host.orm.em.fork().transactional(async (em) => {
      await host.holds.create(holdOn(SessionNote, one!), { em });
      const waiting = host.holds.create(holdOn(SessionNote, two!));
      waiting.catch(() => undefined);
      await somebodyWaits(host);
      await expect(waiting).rejects.toMatchObject({ code: 'hold-busy', sqlState: '55P03' });
    });
    await host.holds.create(holdOn(SessionNote, two!));
    expect(await host.holds.list({ activeAsOf: soon() })).toHaveLength(2);
  });

  test('two that each place several, one by one, in opposite order, end in a clear error for one and a hold for the other', async () => {
    const [one, two] = await addNotes(host, [{}, {}]);
    const place = (first: string, second: string) =>
      host.orm.em.fork().transactional(async (em) => {
        await em.execute('update session_notes set body = ? where id = ?', ['mine', first]);
        await bothUpdated();
        await host.holds.create(holdOn(SessionNote, second), { em });
      });
    let arrived = 0;
    let release!: () => void;
    const both = new Promise<void>((resolve) => (release = resolve));
    const bothUpdated = () => (++arrived === 2 ? release() : undefined, both);
    const outcomes = await Promise.allSettled([place(one!, two!), place(two!, one!)]);
    const failed = outcomes.filter((each) => each.status === 'rejected');
    expect(failed).toHaveLength(1);
    expect(failed[0]!.reason).toMatchObject({ code: 'hold-deadlock', sqlState: '40P01' });
    expect(await countRows(host, `${OURS}.retention_holds`)).toBe(1);
  });
});

describe('holds that the database does not keep as asked', () => {
  test.each([
    ['a rule', `create rule swallow as on insert to ${OURS}.retention_holds do instead nothing`],
    [
      'a trigger',
      `create function swallow() returns trigger language plpgsql as 'begin return null; end';
       create trigger swallow before insert on ${OURS}.retention_holds for each row execute function swallow()`,
    ],
  ])('are not reported as placed: %s swallowed them', async (_, ddl) => {
    const host = await openHost(notesHost);
    const [id] = await addNotes(host, [{}]);
    await host.query(ddl);
    await expect(host.holds.create(holdOn(SessionNote, id!))).rejects.toMatchObject({ code: 'hold-not-stored' });
  });

  test('but imported with a scope that this version does not know stop every sweep', async () => {
    const host = await openHost(notesHost);
    await addNotes(host, [{}]);
    await host.query(
      `insert into ${OURS}.retention_holds(hold_id, scope_kind, retention_entity_id, reason, created_at) values (gen_random_uuid(), 'entity', $1, 'x', now())`,
      [NOTE_ID],
    );
    await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow("active holds of scope 'entity'");
    await host.query(`update ${OURS}.retention_holds set removed_at = now()`);
    expect((await host.sweep.sweep(ACME, NOW)).status).toBe('succeeded');
  });

  test('of an entity manager of another database are refused', async () => {
    const host = await openHost(notesHost);
    const other = await openHost(notesHost);
    const id = randomUUID();
    for (const each of [host, other]) await addNotes(each, [{ id }]);
    const placed = other.orm.em.fork().transactional((em) => host.holds.create(holdOn(SessionNote, id), { em }));
    await expect(placed).rejects.toThrow("wanted: an EntityManager of Cohort's own MikroORM");
    expect(await countRows(other, `${OURS}.retention_holds`)).toBe(0);
  });

  test("but imported to last until 'infinity' are listed without an end", async () => {
    const host = await openHost(notesHost);
    const [id] = await addNotes(host, [{}]);
    await host.holds.create(holdOn(SessionNote, id!));
    await host.query(`update ${OURS}.retention_holds set expires_at = 'infinity'`);
    expect(await host.holds.list({ activeAsOf: new Date(Date.now() + 1000) })).toMatchObject([{ expiresAt: null }]);
    expect((await host.sweep.sweep(ACME, NOW)).counts.find((each) => each.held === 1)).toBeDefined();
  });
});
