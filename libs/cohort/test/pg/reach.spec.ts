import { expect, test } from '@jest/globals';
import { CompiledQuery } from 'kysely';
import { Strategy } from 'nestjs-cohort';
import { clerkUrl } from '../support/clerk.js';
import { type HostOptions, latch, openHost } from '../support/host.js';
import { ACME, NOW } from '../support/notes.js';
import { holdOn, somebodyWaits } from '../support/seed.js';
import { addRows, idsOf, retainedTable, rulesFor } from '../support/tables.js';

async function open(names: string[], probe?: HostOptions['probe'], options: object = {}) {
  const entities = names.map((name) => retainedTable(name));
  const host = await openHost({ entities, options: { rules: rulesFor(Strategy.Purge, ...names), ...options }, probe });
  return { host, entities };
}
const key = (child: string, parent: string, action: string, column = 'parent_id') =>
  `alter table ${child} add foreign key (${column}) references ${parent} (id) on delete ${action}`;

/** Runs once when `entity` reaches 'locked'. */
function pauseAtLocked(name: string) {
  const reached = latch();
  const resume = latch();
  const probe: HostOptions['probe'] = async (at, entity) => {
    if (at !== 'locked' || entity !== name) return;
    reached.open();
    await resume.opened;
  };
  return { reached, resume, probe };
}

test('a hold on a SET NULL child that commits between lock and mutation keeps its parent, and the others go', async () => {
  const { reached, resume, probe } = pauseAtLocked('Album');
  const { host, entities } = await open(['Album', 'Track'], probe);
  await host.query(key('track', 'album', 'set null'));
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await addRows(host, 'track', [{ id: 10, parent: 1, days: 1 }]);
  const sweep = host.sweep.sweep(ACME, NOW);
  await reached.opened;
  await host.holds.create(holdOn(entities[1]!, '10'));
  resume.open();
  const result = await sweep;
  expect(await idsOf(host, 'album')).toEqual([1]);
  expect(result.status).toBe('succeeded');
});

test('a restricting row that comes between lock and mutation, behind a cascade, keeps its ancestor, and the others go', async () => {
  const { reached, resume, probe } = pauseAtLocked('Album');
  const { host } = await open(['Album', 'Track'], probe);
  await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
  await host.query('create table box(id int primary key, shelf int references shelf (id) on delete restrict)');
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await host.query('insert into shelf values (7, 1)');
  const sweep = host.sweep.sweep(ACME, NOW);
  await reached.opened;
  await host.query('insert into box values (8, 7)');
  resume.open();
  const result = await sweep;
  expect(await idsOf(host, 'album')).toEqual([1]);
  expect(result.status).toBe('succeeded');
});

test('a held row put behind a cascade while the batch runs keeps every field', async () => {
  const { reached, resume, probe } = pauseAtLocked('Album');
  const { host, entities } = await open(['Album', 'Track'], probe);
  await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
  await host.query(key('track', 'shelf', 'set null'));
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into shelf values (7, 1)');
  const sweep = host.sweep.sweep(ACME, NOW);
  await reached.opened;
  await host.orm.em.fork().transactional(async (em) => {
    await em
      .getKysely()
      .executeQuery(
        CompiledQuery.raw(
          `insert into track(id, tenant_id, created_at, parent_id, note, is_deleted) values (10, 'acme', now(), 7, 'x', false)`,
        ),
      );
    await host.holds.create(holdOn(entities[1]!, '10'), { em: em as never });
    resume.open();
    await somebodyWaits(host);
  });
  await sweep;
  expect(await host.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 7 }]);
});

test('anonymising that would reach a retained row through ON UPDATE over a table that is not retained is refused', async () => {
  const entities = [retainedTable('Alpha'), retainedTable('Beta')];
  const host = await openHost({
    entities,
    options: { rules: { ...rulesFor(Strategy.Anonymise, 'Alpha'), ...rulesFor(Strategy.Purge, 'Beta') } },
  });
  await host.query('alter table alpha add unique (note)');
  await host.query('create table mid(note text unique references alpha (note) on update cascade)');
  await host.query('alter table beta add foreign key (note) references mid (note) on update cascade');
  await addRows(host, 'alpha', [{ id: 1 }]);
  await host.query(`insert into mid values ('personal')`);
  await addRows(host, 'beta', [{ id: 10 }]);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/Alpha: anonymising would change Beta through ON UPDATE/);
  expect(await host.query('select id, note from beta')).toEqual([{ id: 10, note: 'personal' }]);
});

test('a purge that would reach a retained row through SET NULL and then ON UPDATE is refused', async () => {
  const { host } = await open(['Album', 'Track']);
  await host.query('create table shelf(album int unique references album (id) on delete set null)');
  await host.query('alter table track add foreign key (parent_id) references shelf (album) on update cascade');
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into shelf values (1)');
  await addRows(host, 'track', [{ id: 10, parent: 1 }]);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/Album: a purge would change Track through ON UPDATE/);
  expect(await host.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 1 }]);
});

test('a purge that would set retained rows to NULL along a tree that cascades into itself is refused', async () => {
  const { host } = await open(['Album', 'Track']);
  await host.query(
    'create table shelf(id int primary key, album int references album (id) on delete cascade, up int references shelf (id) on delete cascade)',
  );
  await host.query(key('track', 'shelf', 'set null'));
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into shelf values (7, 1, null), (8, null, 7), (9, null, 8)');
  await addRows(host, 'track', [{ id: 10, parent: 9 }]);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(
    /held rows of Track through tables that cascade in a circle/,
  );
  expect(await host.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 9 }]);
});

test('a row in a table that inherits from the child keeps nobody: the key does not bind it', async () => {
  const { host } = await open(['Album']);
  await host.query('create table sleeve(id int, album int references album (id))');
  await host.query('create table sleeve_archive() inherits (sleeve)');
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into sleeve_archive values (1, 1)');
  await host.sweep.sweep(ACME, NOW);
  expect(await idsOf(host, 'album')).toEqual([]);
});

test('rows whose SET NULL children somebody has locked do not keep the others from going', async () => {
  const { host } = await open(['Album', 'Track'], undefined, { lockTimeout: 'PT0.01S' });
  await host.query(key('track', 'album', 'set null'));
  await addRows(
    host,
    'album',
    Array.from({ length: 60 }, (_, i) => ({ id: i + 1, days: 500 - i })),
  );
  await addRows(
    host,
    'track',
    Array.from({ length: 40 }, (_, i) => ({ id: 100 + i, parent: i + 1, days: 1 })),
  );
  await host.orm.em.fork().transactional(async (em) => {
    await em.getKysely().executeQuery(CompiledQuery.raw('select 1 from track for update'));
    const result = await host.sweep.sweep(ACME, NOW);
    expect([result.entityFailures, await idsOf(host, 'album')]).toEqual([
      [],
      Array.from({ length: 40 }, (_, i) => i + 1),
    ]);
  });
});

test('a row that only keeps itself, by way of a cascade, goes', async () => {
  const { host } = await open(['Album']);
  await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
  await host.query(key('album', 'shelf', 'no action'));
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into shelf values (7, 1)');
  await host.query('update album set parent_id = 7');
  const result = await host.sweep.sweep(ACME, NOW);
  expect(result.counts[0]).toMatchObject({ affected: 1, skipped: 0 });
});

test('a child table in a schema that this role may not use keeps its parent, and the others go', async () => {
  const { host } = await open(['Album']);
  await host.query('create schema private');
  await host.query('create table private.vault(album int references public.album (id))');
  await host.query('grant select on private.vault to public');
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }]);
  await host.query('insert into private.vault values (2)');
  const clerk = await openHost({
    entities: [retainedTable('Album')],
    options: { rules: rulesFor(Strategy.Purge, 'Album') },
    url: await clerkUrl(host, 'album'),
  });
  const result = await clerk.sweep.sweep(ACME, NOW);
  expect([await idsOf(host, 'album'), result.entityFailures.map((each) => each.error)]).toEqual([
    [2],
    [expect.stringContaining('23503')],
  ]);
});

// The key of the tree says nothing about albums; both of its ends go in the one statement that deletes their album.
test.each(['no action', 'restrict'])(
  'a tree behind a cascade, tied together by %s, is left to the database',
  async (action) => {
    const { host } = await open(['Album']);
    await host.query('create table shelf(code text primary key, album int references album (id) on delete cascade)');
    await host.query(`alter table shelf add up text references shelf (code) on delete ${action}`);
    await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
    await host.query(`insert into shelf values ('a', 1, null), ('b', 1, 'a'), ('c', 2, null), ('d', null, 'c')`);
    const result = await host.sweep.sweep(ACME, NOW);
    // Shelf d belongs to no album and keeps c, hence album 2.
    expect(await idsOf(host, 'album')).toEqual([2]);
    expect(result.counts[0]!.skippedByCause).toEqual({ refused: 1 });
    expect(result.entityFailures[0]!.error).toMatch(/code=sqlstate:2350[13]|code=sqlstate:23001/);
  },
);

// As a shop has them: a customer's orders point at the addresses of the same customer.
test('what a cascade takes together keeps nobody, and what another row needs does', async () => {
  const { host } = await open(['Album']);
  await host.query('create table shelf(code text primary key, album int references album (id) on delete cascade)');
  await host.query(
    'create table loan(album int references album (id) on delete cascade, shelf text references shelf (code))',
  );
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3, days: 1 }]);
  await host.query(`insert into shelf values ('a', 1), ('b', 2)`);
  await host.query(`insert into loan values (1, 'a'), (3, 'b')`);
  const result = await host.sweep.sweep(ACME, NOW);
  expect(await idsOf(host, 'album')).toEqual([2, 3]);
  expect(result.counts[0]).toMatchObject({ affected: 1, skippedByCause: { refused: 1 } });
});

test('a table that gains an inheriting one while a pass runs has only its own rows changed', async () => {
  const { reached, resume, probe } = pauseAtLocked('Album');
  const { host } = await open(['Album'], probe);
  await addRows(host, 'album', [{ id: 1 }]);
  const sweep = host.sweep.sweep(ACME, NOW);
  await reached.opened;
  // Its first row stands in the same place of its table as the locked one in its own; both are looked for in later batches.
  await host.query('create table bootleg() inherits (album)');
  await addRows(host, 'bootleg', [{ id: 98 }, { id: 99 }]);
  resume.open();
  expect((await sweep).counts[0]).toMatchObject({ affected: 1, skipped: 0 });
  expect(await idsOf(host, 'album')).toEqual([98, 99]);
});
