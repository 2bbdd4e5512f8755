import { describe, expect, test } from '@jest/globals';
import { Strategy } from 'nestjs-cohort';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { ACME, NOW } from '../support/notes.js';
import { holdOn, somebodyWaits } from '../support/seed.js';
import { addRows, idsOf, retainedTable, rulesFor } from '../support/tables.js';

async function open(names: string[], probe?: HostOptions['probe']) {
  const entities = names.map((name) => retainedTable(name));
  const rules = rulesFor(Strategy.Purge, ...names);
  const host = await openHost({ entities, options: { rules, sweepBatchSize: 1 }, probe });
  return { host, entities };
}
const key = (child: string, parent: string, action: string, column = 'parent_id') =>
  `alter table ${child} add foreign key (${column}) references ${parent} (id) on delete ${action}`;

/** Swept or refused, the held row is as it was. */
const sweepOrRefuse = (host: Host) => host.sweep.sweep(ACME, NOW).catch((error: Error) => error);

// The hold's row lock keeps the child from the batch, but the batch has judged the child before the hold was visible.
test('a hold that commits while a purge waits for its child under SET NULL keeps every field', async () => {
  const reached = latch();
  const resume = latch();
  const { host, entities } = await open(['Album', 'Track'], async (at, entity) => {
    if (at !== 'locked' || entity !== 'Album') return;
    reached.open();
    await resume.opened;
  });
  await host.query(key('track', 'album', 'set null'));
  await addRows(host, 'album', [{ id: 1 }]);
  await addRows(host, 'track', [{ id: 10, parent: 1, days: 1 }]);
  const sweep = host.sweep.sweep(ACME, NOW);
  await reached.opened;
  await host.orm.em.fork().transactional(async (em) => {
    await host.holds.create(holdOn(entities[1]!, '10'), { em });
    resume.open();
    await somebodyWaits(host);
  });
  expect((await sweep).status).toBe('succeeded');
  expect(await host.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 1 }]);
});

describe('a held row is not changed or deleted', () => {
  test.each(['set null', 'set default'])(
    'by a cascade into a table that is not retained whose own children it is among (%s)',
    async (action) => {
      const { host, entities } = await open(['Album', 'Track']);
      await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
      await host.query(key('track', 'shelf', action));
      await addRows(host, 'album', [{ id: 1 }]);
      await host.query('insert into shelf values (7, 1)');
      await addRows(host, 'track', [{ id: 10, parent: 7 }]);
      await host.holds.create(holdOn(entities[1]!, '10')).catch(() => undefined);
      await sweepOrRefuse(host);
      expect(await host.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 7 }]);
    },
  );

  test('by a cascade that is declared on a partition of its table alone', async () => {
    const { host, entities } = await open(['Album', 'Track']);
    await host.query('drop table track');
    await host.query(
      `create table track(id int, tenant_id text not null, created_at timestamptz, parent_id int, note text, anonymised_at timestamptz,
        is_deleted boolean not null default false, primary key (id, tenant_id)) partition by list (tenant_id)`,
    );
    await host.query(`create table track_acme partition of track for values in ('acme')`);
    await host.query(key('track_acme', 'album', 'cascade'));
    await addRows(host, 'album', [{ id: 1 }]);
    await addRows(host, 'track', [{ id: 10, parent: 1 }]);
    await host.holds.create(holdOn(entities[1]!, '10')).catch(() => undefined);
    await sweepOrRefuse(host);
    expect(await idsOf(host, 'track')).toEqual([10]);
  });

  test('by a cascade from a key that points at one partition of the purged table', async () => {
    const { host, entities } = await open(['Album', 'Track']);
    await host.query('drop table album');
    await host.query(
      `create table album(id int, tenant_id text not null, created_at timestamptz, parent_id int, note text, anonymised_at timestamptz,
        is_deleted boolean not null default false) partition by list (tenant_id)`,
    );
    await host.query(`create table album_acme partition of album for values in ('acme')`);
    await host.query('alter table album_acme add primary key (id)');
    await host.query(key('track', 'album_acme', 'cascade'));
    await addRows(host, 'album', [{ id: 1 }]);
    await addRows(host, 'track', [{ id: 10, parent: 1 }]);
    await host.holds.create(holdOn(entities[1]!, '10')).catch(() => undefined);
    await sweepOrRefuse(host);
    expect(await idsOf(host, 'track')).toEqual([10]);
  });

  test('by a purge of a partitioned table of which its own table is a partition', async () => {
    const { host, entities } = await open(['Album', 'Track']);
    await host.query('drop table album');
    await host.query('create table album (like track including defaults) partition by list (tenant_id)');
    await host.query(`alter table album attach partition track for values in ('acme')`);
    await addRows(host, 'track', [{ id: 10 }]);
    await host.holds.create(holdOn(entities[1]!, '10')).catch(() => undefined);
    await sweepOrRefuse(host);
    expect(await idsOf(host, 'track')).toEqual([10]);
  });

  test('by a purge of a table that its own table inherits from', async () => {
    const { host, entities } = await open(['Album', 'Track']);
    await host.query('alter table track inherit album');
    await addRows(host, 'track', [{ id: 10 }]);
    await host.holds.create(holdOn(entities[1]!, '10')).catch(() => undefined);
    await sweepOrRefuse(host);
    expect(await idsOf(host, 'track')).toEqual([10]);
  });
});

test('entities that depend on each other through a cascading table that is not retained are swept in that order', async () => {
  const { host } = await open(['Album', 'Track']);
  await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
  await host.query(key('track', 'shelf', 'restrict'));
  await addRows(host, 'album', [{ id: 1 }]);
  await host.query('insert into shelf values (7, 1)');
  await addRows(host, 'track', [{ id: 10, parent: 7 }]);
  const result = await host.sweep.sweep(ACME, NOW);
  expect(result.counts.map((each) => [each.entity, each.affected])).toEqual([
    ['Track', 1],
    ['Album', 1],
  ]);
});

test('anonymising a referenced column, which would reach held rows through ON UPDATE CASCADE, is refused', async () => {
  const entities = [retainedTable('Alpha'), retainedTable('Beta')];
  const host = await openHost({
    entities,
    options: { rules: { ...rulesFor(Strategy.Anonymise, 'Alpha'), ...rulesFor(Strategy.Purge, 'Beta') } },
  });
  await host.query('alter table alpha add unique (note)');
  await host.query('alter table beta add foreign key (note) references alpha (note) on update cascade');
  await addRows(host, 'alpha', [{ id: 1 }]);
  await addRows(host, 'beta', [{ id: 10 }]);
  await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/anonymising would change Beta through ON UPDATE/);
  expect(await host.query('select id, note from beta')).toEqual([{ id: 10, note: 'personal' }]);
});

// The keys of a partition's siblings and of its parent bind its rows as well.
test('a retained table that is itself a partition is judged with the keys of its whole tree', async () => {
  const { host } = await open(['Album', 'Track']);
  await host.query('drop table album');
  await host.query(
    `create table catalogue(id int, tenant_id text not null, created_at timestamptz, parent_id int, note text, anonymised_at timestamptz,
      is_deleted boolean not null default false, primary key (id, tenant_id)) partition by list (tenant_id)`,
  );
  await host.query(`create table album partition of catalogue for values in ('acme')`);
  await host.query(
    'alter table track add foreign key (parent_id, tenant_id) references catalogue (id, tenant_id) on delete restrict',
  );
  await addRows(host, 'album', [{ id: 1 }]);
  await addRows(host, 'track', [{ id: 10, parent: 1, days: 1 }]);
  await host.query('alter table album add unique (id)');
  // Found beforehand, the row is skipped; found out by the database, it would be refused and the run fail in part.
  const result = await host.sweep.sweep(ACME, NOW);
  expect(result.status).toBe('succeeded');
  expect(result.counts.find((each) => each.entity === 'Album')).toMatchObject({ affected: 0, skipped: 1 });
});

describe('a change of a written column that ON UPDATE CASCADE carries into a retained table is refused', () => {
  test('where the marker of a soft deletion is part of the key', async () => {
    const entities = [retainedTable('Alpha'), retainedTable('Beta')];
    const rules = { ...rulesFor(Strategy.SoftDelete, 'Alpha'), ...rulesFor(Strategy.Purge, 'Beta') };
    const host = await openHost({ entities, options: { rules } });
    await host.query('alter table alpha add unique (id, is_deleted)');
    await host.query(
      'alter table beta add foreign key (parent_id, is_deleted) references alpha (id, is_deleted) on update cascade',
    );
    await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/soft deletion would change Beta through ON UPDATE/);
  });

  test.each([
    ['a generated column of a scrubbed one', 'lower(note)', true],
    ['a generated column of others', 'lower(tenant_id)', false],
  ])('where the key points at %s', async (_, expression, isRefused) => {
    const entities = [retainedTable('Alpha'), retainedTable('Beta')];
    const rules = { ...rulesFor(Strategy.Anonymise, 'Alpha'), ...rulesFor(Strategy.Purge, 'Beta') };
    const host = await openHost({ entities, options: { rules } });
    await host.query(`alter table alpha add column key text generated always as (${expression}) stored unique`);
    await host.query('alter table beta add foreign key (note) references alpha (key) on update cascade');
    const started = host.readiness.context();
    if (isRefused) await expect(started).rejects.toThrow(/anonymising would change Beta through ON UPDATE/);
    else expect((await started).registry.entries).toHaveLength(2);
  });
});

// What a mutation reaches is judged by the keys of the pass's beginning.
describe('a key that a migration adds between two batches of a pass', () => {
  async function sweepWhile(ddl: string) {
    let added = false;
    const { host, entities } = await open(['Album', 'Track'], async (at, entity) => {
      if (at !== 'committed' || entity !== 'Album' || added) return;
      added = true;
      await host.query(ddl);
    });
    await addRows(host, 'album', [{ id: 1, days: 600 }, { id: 2 }]);
    await addRows(host, 'track', [{ id: 10, parent: 2, days: 1 }]);
    await host.holds.create(holdOn(entities[1]!, '10'));
    const result = await host.sweep.sweep(ACME, NOW, {});
    expect(added).toBe(true);
    return { host, result };
  }

  test('and that cascades stops its entity, which the next pass refuses', async () => {
    const { host, result } = await sweepWhile(key('track', 'album', 'cascade'));
    expect(result.status).toBe('partiallyFailed');
    expect(result.entityFailures).toMatchObject([{ entity: 'Album' }]);
    expect(await idsOf(host, 'album')).toEqual([2]);
    expect(await idsOf(host, 'track')).toEqual([10]);
    const next = await host.sweep.sweep(ACME, NOW);
    expect(next.entityFailures[0]?.error).toContain('entity=Album');
    expect(await idsOf(host, 'track')).toEqual([10]);
  });

  test('and that restricts keeps its parent, and nothing fails but the row', async () => {
    const { host, result } = await sweepWhile(key('track', 'album', 'restrict'));
    expect(result.counts.find((each) => each.entity === 'Album')).toMatchObject({ affected: 1, skipped: 1 });
    expect(await idsOf(host, 'track')).toEqual([10]);
  });
});
