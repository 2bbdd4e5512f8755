import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { COHORT_TABLES } from '../../src/schema/cohort-entities.js';
import { type Host, openHost } from '../support/host.js';
import { anonymisable, model } from '../support/models.js';
import { ACME, NOW } from '../support/notes.js';
import { SCHEMA } from '../support/schema.js';
import { holdOn } from '../support/seed.js';

/** Stands in front of everything under its own name; whoever calls or reads it fails. */
const DECOYS = `
  create schema decoys;
  create function decoys.count(anyelement) returns bigint language plpgsql as $$ begin raise 'decoy'; end $$;
  create function decoys.now() returns timestamptz language sql as $$ select '-infinity'::timestamptz $$;
  create function decoys.statement_timestamp() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$;
  create function decoys.clock_timestamp() returns timestamptz language sql as $$ select '-infinity'::timestamptz $$;
  create function decoys.unnest(anyarray) returns setof anyelement language sql as $$ select $1[1] where false $$;
  create function decoys.jsonb_to_recordset(jsonb) returns setof record language plpgsql as $$ begin raise 'decoy'; end $$;
  create function decoys.hashtextextended(text, bigint) returns bigint language sql as $$ select 7::bigint $$;
  create function decoys.pg_advisory_xact_lock(bigint) returns void language sql as $$ select $$;
  create function decoys.pg_try_advisory_xact_lock(bigint) returns boolean language sql as $$ select true $$;
  create function decoys.row_security_active(oid) returns boolean language sql as $$ select true $$;
  create function decoys.date_trunc(text, timestamptz) returns timestamptz language sql as $$ select '-infinity'::timestamptz $$;
  create domain decoys.uuid as text;
  create domain decoys.timestamptz as text;
  create domain decoys.text as bytea;
  create domain decoys.bool as text;
  create domain decoys.tid as text;
  create view decoys.note as select 1 / 0 as id;
  create table decoys.pg_class(); create table decoys.pg_index(); create table decoys.pg_constraint();
`;
/** Every operator of the catalog between two plain types once more; whoever uses one fails. */
const DECOY_OPERATORS = `
  do $$ declare o record; begin
    for o in
      select p.oid, p.oprname, pg_catalog.format_type(l.oid, null) as l, pg_catalog.format_type(r.oid, null) as r,
        pg_catalog.format_type(b.oid, null) as result
      from pg_operator as p
      join pg_type as l on l.oid = p.oprleft and l.typtype = 'b'
      join pg_type as r on r.oid = p.oprright and r.typtype = 'b'
      join pg_type as b on b.oid = p.oprresult and b.typtype = 'b'
      where p.oprname in ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '||', '~', '->>')
    loop
      execute format('create function decoys.decoy_%s(%s, %s) returns %s language plpgsql as
        $f$ begin raise ''a decoy of %s''; end $f$', o.oid, o.l, o.r, o.result, o.oprname);
      execute format('create operator decoys.%s (leftarg = %s, rightarg = %s, function = decoys.decoy_%s)', o.oprname, o.l, o.r, o.oid);
    end loop;
  end $$`;
const OUR_TABLES = Object.values(COHORT_TABLES);

async function open() {
  const note = anonymisable({
    properties: { code: { type: 'string', columnType: 'char(3)', nullable: true } },
    meta: { schema: 'shop' },
    retain: { anonymise: { email: 'null', code: ['fixedLiteral', 'X'] } },
  });
  const options = { rules: { notes: { period: 'P30D', strategy: 'anonymise' as const } } };
  const owner = await openHost({ entities: [note], options });
  await owner.query(DECOYS);
  for (const table of OUR_TABLES) await owner.query(`create view decoys.${table} as select 1 / 0 as broken`);
  const ids = [randomUUID(), randomUUID(), randomUUID()];
  await owner.query(
    `insert into shop.note(id, tenant_id, created_at, email, code) select i, 'acme', '2020-01-01', 'ann', 'abc' from unnest($1::uuid[]) as i`,
    [ids],
  );
  await owner.query(
    `do $$ begin execute format('alter database %I set search_path = decoys, pg_catalog', current_database()); end $$`,
  );
  // Its connections are made under the new search_path.
  const host = await openHost({ entities: [note], options, url: owner.url });
  return { host, owner, note, ids };
}

const stateOf = (host: Host) =>
  host.query<{ id: string; email: string | null; code: string | null }>(
    'select id, email, code from shop.note order by email nulls last, id',
  );

// acceptance 186; trap 73
test('whatever stands in front of the catalog in the search_path is neither called nor read', async () => {
  const { host, note, ids } = await open();
  expect((await host.query<{ search_path: string }>('show search_path'))[0]).toEqual({
    search_path: 'decoys, pg_catalog',
  });
  const hold = holdOn(note, ids[0]!);
  await host.holds.create(hold);
  expect(await host.holds.hasActive({ entity: note, recordId: ids[0]!, tenant: ACME })).toBe(true);
  expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 2, held: 1 });
  const dry = await host.sweep.sweep(ACME, NOW, { dryRun: true });
  expect(dry.counts[0]).toMatchObject({ affected: 2, held: 1 });
  const run = await host.sweep.sweep(ACME, NOW);
  expect(run).toMatchObject({ status: 'succeeded', counts: [{ affected: 2, held: 1 }] });
  expect(await stateOf(host)).toMatchObject([{ id: ids[0], email: 'ann' }, { code: 'X  ' }, { code: 'X  ' }]);
  await host.holds.release(hold.holdId);
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1, held: 0 });
  expect(await host.ledger.run(run.sweepId)).toMatchObject({ totalAffected: 2, summaries: [{ affected: 2 }] });
  expect((await host.ledger.runs()).items).toHaveLength(3);
});

const tablesIn = async (host: Host, schema: string) =>
  (await host.query<{ name: string }>('select tablename as name from pg_tables where schemaname = $1', [schema]))
    .map((row) => row.name)
    .sort();

// acceptance 187
test('moving all of the tables to another schema keeps what they say and how they work', async () => {
  const note = anonymisable();
  const options = { rules: { notes: { period: 'P30D', strategy: 'anonymise' as const } } };
  const before = await openHost({ entities: [note], options });
  const ids = [randomUUID(), randomUUID()];
  await before.query(
    `insert into note(id, tenant_id, created_at, email) select i, 'acme', '2020-01-01', 'ann' from unnest($1::uuid[]) as i`,
    [ids],
  );
  await before.holds.create(holdOn(note, ids[0]!));
  const run = await before.sweep.sweep(ACME, NOW);
  const said = await before.ledger.run(run.sweepId);
  await before.query('create schema "Archive of records"');
  await before.query(`do $$ declare name text; begin
    for name in select tablename from pg_tables where schemaname = '${SCHEMA}' loop
      execute format('alter table %I.%I set schema "Archive of records"', '${SCHEMA}', name);
    end loop; end $$`);
  expect(await tablesIn(before, SCHEMA)).toEqual([]);
  expect(await tablesIn(before, 'Archive of records')).toEqual([...OUR_TABLES].sort());
  const after = await openHost({ entities: [note], options, url: before.url, cohortSchema: 'Archive of records' });
  expect(said).toMatchObject({ summaries: [{ affected: 1, held: 1 }] });
  expect(await after.ledger.run(run.sweepId)).toEqual(said);
  expect((await after.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 0, held: 1 });
  expect(await after.orm.schema.getUpdateSchemaSQL({ wrap: false })).toBe('');
});

// acceptance 186
test('no operator in front of the catalog decides anything', async () => {
  const note = anonymisable({
    properties: { parent: { type: 'uuid', fieldName: 'parent_id', nullable: true } },
    retain: { auditRowDetail: 'perRow' },
  });
  const options = { rules: { notes: { period: 'P30D', strategy: 'anonymise' as const } } };
  const owner = await openHost({ entities: [note], options });
  const [held, ...free] = [randomUUID(), randomUUID(), randomUUID()];
  await owner.query(
    `insert into note(id, tenant_id, created_at, email) select i, 'acme', '2020-01-01', 'ann' from unnest($1::uuid[]) as i`,
    [[held, ...free]],
  );
  await owner.query('alter table note add foreign key (parent_id) references note (id)');
  await owner.query('create schema decoys');
  await owner.query(DECOY_OPERATORS);
  await owner.query(
    `do $$ begin execute format('alter database %I set search_path = decoys, pg_catalog, public', current_database()); end $$`,
  );
  const host = await openHost({ entities: [note], options, url: owner.url });
  await expect(host.query(`select 'a'::text = 'a'::text`)).rejects.toThrow('a decoy of =');
  const hold = holdOn(note, held!);
  await host.holds.create(hold);
  expect(await host.holds.hasActive({ entity: note, recordId: held!, tenant: ACME })).toBe(true);
  expect(await host.holds.list({ activeAsOf: new Date(Date.now() + 1000), tenant: ACME, entity: note })).toHaveLength(
    1,
  );
  expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 2, held: 1 });
  expect((await host.sweep.sweep(ACME, NOW, { dryRun: true })).counts[0]).toMatchObject({ affected: 2, held: 1 });
  const run = await host.sweep.sweep(ACME, NOW);
  expect(run).toMatchObject({ status: 'succeeded', counts: [{ affected: 2, held: 1 }] });
  await host.holds.release(hold.holdId);
  expect((await Array.fromAsync(host.sweep.sweepMany([ACME], NOW)))[0]).toMatchObject({ counts: [{ affected: 1 }] });
  expect(await host.ledger.run(run.sweepId)).toMatchObject({ totalAffected: 2, summaries: [{ affected: 2 }] });
  expect((await host.ledger.rowDetails(run.sweepId)).items).toHaveLength(2);
  expect(host.logs.filter((line) => !line.includes('note_parent_id_fkey has no index'))).toEqual([]);
});

// A key compares by operators of its own, whatever a query would find.
test('an operator for varchar in the public schema hides no held child from SET NULL', async () => {
  const code = { type: 'string', columnType: 'varchar(40)' };
  const album = model({ name: 'Album', properties: { id: { ...code, primary: true } } });
  const track = model({
    name: 'Track',
    properties: { album: { ...code, fieldName: 'album_id', nullable: true } },
    retain: { category: 'tracks' },
  });
  const rule = { period: 'P30D', strategy: 'purge' as const };
  const host = await openHost({ entities: [album, track], options: { rules: { notes: rule, tracks: rule } } });
  await host.query('alter table track add foreign key (album_id) references album (id) on delete set null');
  await host.query(
    'create function differ(varchar, varchar) returns bool language sql immutable as $$ select false $$',
  );
  await host.query('create operator public.= (leftarg = varchar, rightarg = varchar, function = differ)');
  const id = randomUUID();
  await host.query(`insert into album(id, tenant_id, created_at) values ('a', 'acme', '2020-01-01')`);
  await host.query(`insert into track(id, tenant_id, created_at, album_id) values ($1, 'acme', now(), 'a')`, [id]);
  await host.holds.create(holdOn(track, id));
  expect((await host.sweep.sweep(ACME, NOW)).counts).toContainEqual(
    expect.objectContaining({ entity: 'Album', affected: 0, skipped: 1 }),
  );
  expect(await host.query('select album_id from track')).toEqual([{ album_id: 'a' }]);
});

// 42P22 otherwise: a query that compares two collations says which one, as the key itself does.
test('a key between columns of different collations is followed', async () => {
  const album = model({ name: 'Album', properties: { id: { type: 'text', primary: true } } });
  const options = { rules: { notes: { period: 'P30D', strategy: 'purge' as const } } };
  const host = await openHost({ entities: [album], options });
  await host.query('create table track(album_id text collate "C" references album (id))');
  await host.query(
    `insert into album(id, tenant_id, created_at) select i, 'acme', '2020-01-01' from unnest(array['a', 'b']) as i`,
  );
  await host.query(`insert into track values ('a')`);
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1, skipped: 1 });
  expect(await host.query('select id from album')).toEqual([{ id: 'a' }]);
});

// pg_catalog has no operator for varchar itself: one in any schema of the path comes before that for text.
test('an operator for varchar in the public schema makes no tenant of another one', async () => {
  const note = model({ properties: { tenantId: { type: 'string', columnType: 'varchar(40)' } } });
  const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
  const host = await openHost({ entities: [note], options: { rules } });
  await host.query(
    `create function anything(varchar, varchar) returns bool language sql immutable as $$ select true $$`,
  );
  await host.query(`create operator public.= (leftarg = varchar, rightarg = varchar, function = anything)`);
  await host.query(
    `insert into note(id, tenant_id, created_at) select gen_random_uuid(), t, '2020-01-01' from unnest(array['acme', 'globex']) as t`,
  );
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
  expect(await host.query('select tenant_id from note')).toEqual([{ tenant_id: 'globex' }]);
});

test('operators in front of the catalog cannot deny a hold', async () => {
  const note = model();
  const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
  const owner = await openHost({ entities: [note], options: { rules } });
  const [held, free] = [randomUUID(), randomUUID()];
  await owner.query(
    `insert into note(id, tenant_id, created_at) select i, 'acme', '2020-01-01' from unnest($1::uuid[]) as i`,
    [[held, free]],
  );
  await owner.holds.create(holdOn(note, held));
  await owner.query(
    `create schema decoys;
     create function decoys.differs(text, text) returns bool language sql immutable
       as $$ select $1 operator(pg_catalog.=) $2 and not $1 operator(pg_catalog.=) any (array['${held}', 'record']) $$;
     create operator decoys.= (leftarg = text, rightarg = text, function = decoys.differs);
     create function decoys.never(timestamptz, timestamptz) returns bool language sql immutable as $$ select false $$;
     create operator decoys.> (leftarg = timestamptz, rightarg = timestamptz, function = decoys.never);
     do $$ begin execute format('alter database %I set search_path = decoys, pg_catalog', current_database()); end $$`,
  );
  const host = await openHost({ entities: [note], options: { rules }, url: owner.url });
  expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 1, held: 1 });
  expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1, held: 1 });
  expect(await host.query('select id from public.note')).toEqual([{ id: held }]);
});
