import { describe, expect, test } from '@jest/globals';
import { CohortConfigurationError, type RetentionSweepResult, Strategy } from 'nestjs-cohort';
import { clerkUrl } from '../support/clerk.js';
import { type Host, openHost } from '../support/host.js';
import { ACME, NOW } from '../support/notes.js';
import { holdOn } from '../support/seed.js';
import { addRows, idsOf, retainedTable, rulesFor } from '../support/tables.js';

async function open(...names: string[]) {
  const entities = names.map((name) => retainedTable(name));
  const host = await openHost({ entities, options: { rules: rulesFor(Strategy.Purge, ...names), parallelism: 2 } });
  return { host, entities };
}

const key = (child: string, parent: string, action = 'no action', rest = '') =>
  `alter table ${child} add constraint ${child}_${parent}_fk foreign key (parent_id) references ${parent} (id) on delete ${action} ${rest}`;
const countOf = (result: RetentionSweepResult, entity: string) => result.counts.find((each) => each.entity === entity)!;

describe('foreign keys between retained entities', () => {
  // acceptance 259, 260; SWP-05
  test.each(['no action', 'restrict', 'no action deferrable initially deferred'])(
    'children go before their parents: %s',
    async (action) => {
      // By name the parent would come first.
      const { host } = await open('Album', 'Track');
      await host.query(
        key(
          'track',
          'album',
          ...(action.includes('deferrable') ? (['no action', 'deferrable initially deferred'] as const) : [action]),
        ),
      );
      await addRows(host, 'album', [{ id: 1 }, { id: 2 }]);
      await addRows(host, 'track', [
        { id: 10, parent: 1 },
        { id: 11, parent: 1 },
      ]);
      const result = await host.sweep.sweep(ACME, NOW);
      expect(result).toMatchObject({ status: 'succeeded' });
      expect(result.counts.map((each) => [each.entity, each.affected, each.skipped])).toEqual([
        ['Track', 2, 0],
        ['Album', 2, 0],
      ]);
    },
  );

  test('a parent whose child is held or not yet due is skipped, counted by the key that keeps it, and goes when it can', async () => {
    const { host, entities } = await open('Album', 'Track');
    await host.query(key('track', 'album', 'restrict'));
    await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
    await addRows(host, 'track', [
      { id: 10, parent: 1 },
      { id: 11, parent: 2, days: 1 },
      { id: 12, parent: 3 },
    ]);
    const hold = holdOn(entities[1]!, '10');
    await host.holds.create(hold);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(countOf(result, 'Track')).toMatchObject({ affected: 1, held: 1, skipped: 0 });
    expect(countOf(result, 'Album')).toMatchObject({
      affected: 1,
      held: 0,
      skipped: 2,
      skippedByCause: { 'referenced:public.track.track_album_fk': 2 },
    });
    expect(result.status).toBe('succeeded');
    await host.holds.release(hold.holdId);
    expect(countOf(await host.sweep.sweep(ACME, NOW), 'Album')).toMatchObject({ affected: 1, skipped: 1 });
    expect(await idsOf(host, 'album')).toEqual([2]);
  });

  test('a composite key keeps a row only where all of its columns match', async () => {
    const { host } = await open('Album');
    await host.query('alter table album add unique (id, tenant_id)');
    await host.query(
      `create table sleeve(album_id int, tenant text, foreign key (album_id, tenant) references album (id, tenant_id))`,
    );
    await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
    await host.query(`insert into sleeve values (1, 'acme'), (2, null), (null, 'acme')`);
    expect(countOf(await host.sweep.sweep(ACME, NOW), 'Album')).toMatchObject({ affected: 2, skipped: 1 });
    expect(await idsOf(host, 'album')).toEqual([1]);
  });

  test('a cycle has no order and is refused', async () => {
    const { host } = await open('Album', 'Track');
    await host.query(key('track', 'album'));
    await host.query(key('album', 'track'));
    await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/cycle of foreign keys \(Album < Track < Album\)/);
  });
});

// field case C13
test('a key added by another team after start keeps its rows, is named, and does not make the sweep loop or fail', async () => {
  const { host } = await open('Album');
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await host.preview.preview(ACME, NOW);
  await host.query(
    'create table plugin(album int constraint plugin_keeps_album references album (id) on delete restrict)',
  );
  await host.query('insert into plugin values (2)');
  const result = await host.sweep.sweep(ACME, NOW);
  expect(result.status).toBe('succeeded');
  expect(countOf(result, 'Album')).toMatchObject({
    affected: 2,
    skipped: 1,
    skippedByCause: { 'referenced:public.plugin.plugin_keeps_album': 1 },
  });
  expect(await idsOf(host, 'album')).toEqual([2]);
});

test('a cascade into a retained entity that was added after start fails its entity before a row is touched', async () => {
  const { host } = await open('Album', 'Track');
  await addRows(host, 'album', [{ id: 1 }]);
  await addRows(host, 'track', [{ id: 10, parent: 1, days: 1 }]);
  await host.preview.preview(ACME, NOW);
  await host.query(key('track', 'album', 'cascade'));
  const result = await host.sweep.sweep(ACME, NOW);
  expect(result.status).toBe('partiallyFailed');
  expect(result.entityFailures).toMatchObject([
    { entity: 'Album', error: expect.stringContaining('code=configuration') },
  ]);
  expect([await idsOf(host, 'album'), await idsOf(host, 'track')]).toEqual([[1], [10]]);
});

// acceptance 122, 131; VAL-52, VAL-53
test.each([
  { path: 'directly', sql: [key('track', 'album', 'cascade')] },
  {
    path: 'through a table that is not retained',
    sql: [
      'create table shelf(id int primary key, album int references album (id) on delete cascade)',
      'alter table track add foreign key (parent_id) references shelf (id) on delete cascade',
    ],
  },
  { path: 'to itself', sql: [key('album', 'album', 'cascade')] },
])('a purge that would cascade into a retained entity $path is refused at start', async ({ sql }) => {
  const { host } = await open('Album', 'Track');
  for (const statement of sql) await host.query(statement);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(CohortConfigurationError);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/ON DELETE CASCADE/);
});

// VAL-52 near miss, VAL-53 near miss
test('a cascade into a table that is not retained is allowed', async () => {
  const { host } = await open('Album');
  await host.query('create table sleeve(id int primary key, album int references album (id) on delete cascade)');
  await addRows(host, 'album', [{ id: 1 }, { id: 2, days: 1 }]);
  await host.query('insert into sleeve values (1, 1), (2, 2)');
  expect(countOf(await host.sweep.sweep(ACME, NOW), 'Album')).toMatchObject({ affected: 1 });
  expect(await idsOf(host, 'sleeve')).toEqual([2]);
});

describe('a table that refers to itself', () => {
  test('is swept from the leaves up, the whole chain in one run', async () => {
    const { host } = await open('Folder');
    await host.query(key('folder', 'folder'));
    await addRows(
      host,
      'folder',
      Array.from({ length: 12 }, (_, index) => ({ id: index + 1, parent: index === 0 ? null : index })),
    );
    expect(countOf(await host.sweep.sweep(ACME, NOW), 'Folder')).toMatchObject({ affected: 12, skipped: 0 });
  });

  test('keeps the ancestors of a held row, and lets a row that refers to itself go', async () => {
    const { host, entities } = await open('Folder');
    await host.query(key('folder', 'folder'));
    await addRows(host, 'folder', [
      { id: 1 },
      { id: 2, parent: 1 },
      { id: 3, parent: 2 },
      { id: 4, parent: 1 },
      { id: 9, parent: 9 },
    ]);
    await host.holds.create(holdOn(entities[0]!, '3'));
    const result = await host.sweep.sweep(ACME, NOW);
    expect(countOf(result, 'Folder')).toMatchObject({
      affected: 2,
      held: 1,
      skipped: 2,
      skippedByCause: { 'referenced:public.folder.folder_folder_fk': 2 },
    });
    expect(await idsOf(host, 'folder')).toEqual([1, 2, 3]);
  });
});

describe.each(['set null', 'set default'])('a key with ON DELETE %s', (action) => {
  test('counts as RESTRICT while its child is held: a hold keeps every field', async () => {
    const { host, entities } = await open('Album', 'Track');
    await host.query(key('track', 'album', action));
    await addRows(host, 'album', [{ id: 1 }, { id: 2 }]);
    await addRows(host, 'track', [
      { id: 10, parent: 1 },
      { id: 11, parent: 2, days: 1 },
    ]);
    const hold = holdOn(entities[1]!, '10');
    await host.holds.create(hold);
    expect(countOf(await host.sweep.sweep(ACME, NOW), 'Album')).toMatchObject({ affected: 1, skipped: 1 });
    expect(await host.query('select id, parent_id from track order by id')).toEqual([
      { id: 10, parent_id: 1 },
      { id: 11, parent_id: null },
    ]);
    await host.holds.release(hold.holdId);
    await host.sweep.sweep(ACME, NOW);
    expect(await idsOf(host, 'album')).toEqual([]);
  });
});

describe('behind a cascade through tables that are not retained', () => {
  const shelves = async (host: Host, action: string) => {
    await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
    await host.query(
      'create table box(id int primary key, shelf int constraint box_shelf references shelf (id) on delete cascade)',
    );
    await host.query(
      `alter table track add constraint track_box foreign key (parent_id) references box (id) on delete ${action}`,
    );
    await host.query('insert into shelf values (1, null), (2, null)');
    await host.query('insert into box values (5, 1), (6, 2)');
    await addRows(host, 'album', [{ id: 1 }, { id: 2 }]);
    await host.query('update shelf set album = id');
    await addRows(host, 'track', [
      { id: 10, parent: 5 },
      { id: 11, parent: 6 },
    ]);
  };

  test('a held row keeps every field as well', async () => {
    const { host, entities } = await open('Album', 'Track');
    await shelves(host, 'set null');
    await host.query(`update track set created_at = now()`);
    await host.holds.create(holdOn(entities[1]!, '10'));
    expect(countOf(await host.sweep.sweep(ACME, NOW), 'Album')).toMatchObject({
      affected: 1,
      skipped: 1,
      skippedByCause: {
        'referenced:public.track.track_box via public.box.box_shelf via public.shelf.shelf_album_fkey': 1,
      },
    });
    expect(await host.query('select id, parent_id from track order by id')).toEqual([
      { id: 10, parent_id: 5 },
      { id: 11, parent_id: null },
    ]);
  });

  test('a row that restricts keeps its ancestor, goes before it when it is due itself, and fails nothing', async () => {
    const { host } = await open('Album', 'Track');
    await shelves(host, 'restrict');
    await host.query(`update track set created_at = now() where id = 10`);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.status).toBe('succeeded');
    expect(result.counts.map((each) => [each.entity, each.affected, each.skipped])).toEqual([
      ['Track', 1, 0],
      ['Album', 1, 1],
    ]);
    expect(await idsOf(host, 'box')).toEqual([5]);
  });
});

test('a table that others inherit from is refused: a purge would reach their rows', async () => {
  const { host } = await open('Album');
  await host.query('create table bootleg() inherits (album)');
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/inheriting tables/);
});

test('a child that this role may not read still keeps its parent: the row is refused and the run says so', async () => {
  const { host } = await open('Album');
  await host.query('create table vault(album int references album (id))');
  await addRows(host, 'album', [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await host.query('insert into vault values (2)');
  const clerk = await openHost({
    entities: [retainedTable('Album')],
    options: { rules: rulesFor(Strategy.Purge, 'Album') },
    url: await clerkUrl(host, 'album'),
  });
  const result = await clerk.sweep.sweep(ACME, NOW);
  expect(countOf(result, 'Album')).toMatchObject({ affected: 2, skipped: 1, skippedByCause: { refused: 1 } });
  expect(result.status).toBe('partiallyFailed');
  expect(result.entityFailures[0]!.error).toMatch(/code=sqlstate:23503/);
  expect(await idsOf(host, 'album')).toEqual([2]);
});

test('more ways through cascades than a statement can follow are refused at start, at once', async () => {
  const host = await openHost({
    entities: [retainedTable('Alpha')],
    options: { rules: rulesFor(Strategy.Purge, 'Alpha') },
  });
  for (let level = 0; level < 16; level++) {
    const parent = level === 0 ? 'alpha' : `level${level - 1}`;
    await host.query(
      `create table level${level}(id int primary key, a int references ${parent} on delete cascade, b int references ${parent} on delete cascade)`,
    );
  }
  await expect(host.readiness.context()).rejects.toThrow('more than 100 ways lead from table public.alpha');
});

test('a key that is not enforced keeps nobody, on a server that has such', async () => {
  const entities = [retainedTable('Alpha'), retainedTable('Beta')];
  const host = await openHost({ entities, options: { rules: rulesFor(Strategy.Purge, 'Alpha', 'Beta') } });
  const [{ version } = { version: 0 }] = await host.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  );
  if (version < 180_000) return;
  await host.query('alter table beta add foreign key (parent_id) references alpha (id) not enforced');
  await addRows(host, 'alpha', [{ id: 1 }]);
  await addRows(host, 'beta', [{ id: 10, parent: 1, days: 1 }]);
  expect((await host.sweep.sweep(ACME, NOW)).counts).toContainEqual(
    expect.objectContaining({ entity: 'Alpha', affected: 1, skipped: 0 }),
  );
});
