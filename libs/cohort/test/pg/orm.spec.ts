import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { EntityCaseNamingStrategy, type EntitySchema, defineEntity, p } from '@mikro-orm/core';
import { Embeddable, Embedded, Entity, ManyToOne, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { createTestDatabase } from 'local-stack/testing';
import {
  Anonymise,
  type AnonymiseFactory,
  AnonymiseMethod,
  type CohortConfigurationError,
  Retain,
  RetentionEntityId,
  RetentionRecordId,
  RetentionTenant,
  Strategy,
  TenantContext,
  retain,
} from 'nestjs-cohort';
import { type Host, type HostOptions, openHost, startHost } from '../support/host.js';
import {
  type Model,
  anonymisable,
  date,
  dateOrNull,
  model,
  softDeletable,
  text,
  textOrNull,
} from '../support/models.js';
import { ACME, GLOBEX, NOW } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { countRows, holdOn } from '../support/seed.js';

const rulesFor = (strategy: Strategy) => ({ rules: { notes: { period: 'P30D', strategy } } });

function open(entities: readonly object[], strategy: Strategy = Strategy.Purge, more: Partial<HostOptions> = {}) {
  return openHost({ entities: entities as HostOptions['entities'], options: rulesFor(strategy), ...more });
}

const problemsOf = (host: Host): Promise<readonly string[]> =>
  host.readiness.context().then(
    () => [],
    (error: CohortConfigurationError) => error.problems,
  );

@Embeddable()
class Geo {
  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  place: string | null = null;
}

@Embeddable()
class Address {
  @Anonymise(AnonymiseMethod.FixedLiteral, '[gone]')
  @Property({ type: 'text' })
  street = '';

  @Property({ type: 'text' })
  country = '';

  @Embedded({ entity: () => Geo })
  geo = new Geo();
}

const addressed = (embedded: object, more: Model = {}) => {
  class Letter {
    id!: string;
    tenantId!: string;
    createdAt!: Date;
    anonymisedAt: Date | null = null;
    email: string | null = null;
    address = new Address();
  }
  Entity({ tableName: 'note' })(Letter);
  PrimaryKey({ type: 'uuid' })(Letter.prototype, 'id');
  Property({ type: 'text' })(Letter.prototype, 'tenantId');
  Property(date as never)(Letter.prototype, 'createdAt');
  Property(dateOrNull as never)(Letter.prototype, 'anonymisedAt');
  Property(textOrNull as never)(Letter.prototype, 'email');
  Embedded({ entity: () => Address, ...embedded })(Letter.prototype, 'address');
  retain(Letter, { category: 'notes', anchor: 'createdAt', entityId: randomUUID(), ...more.retain } as never);
  return Letter;
};

/** What any letter has that may be anonymised. */
const LETTER = {
  id: p.uuid().primary(),
  tenantId: p.text(),
  createdAt: p.datetime(),
  anonymisedAt: p.datetime().nullable(),
};

describe('embeddables', () => {
  test('in columns are anonymised where their own class says so, however deep', async () => {
    const host = await open([addressed({})], Strategy.Anonymise);
    await host.query(
      `insert into note(id, tenant_id, created_at, address_street, address_country, address_geo_place)
       values (gen_random_uuid(), 'acme', '2020-01-01', 'Elm 1', 'UK', 'here')`,
    );
    await host.sweep.sweep(ACME, NOW);
    expect(
      await host.query('select address_street as s, address_country as c, address_geo_place as g from note'),
    ).toEqual([{ s: '[gone]', c: 'UK', g: null }]);
  });

  test('are anonymised where the entity says so by a path', async () => {
    const Place = defineEntity({ name: 'Place', embeddable: true, properties: { city: p.text().nullable() } });
    const Letter = defineEntity({
      name: 'Letter',
      tableName: 'note',
      properties: { ...LETTER, place: () => p.embedded(Place) },
    });
    retain(Letter, {
      category: 'notes',
      anchor: 'createdAt',
      entityId: randomUUID(),
      anonymise: { 'place.city': 'null' },
    });
    const host = await open([Letter, Place], Strategy.Anonymise);
    await host.query(
      `insert into note(id, tenant_id, created_at, place_city) values (gen_random_uuid(), 'acme', '2020-01-01', 'Rome')`,
    );
    await host.sweep.sweep(ACME, NOW);
    expect(await host.query('select place_city from note')).toEqual([{ place_city: null }]);
  });

  test('in JSON are refused where only parts of them are marked, and taken where the whole is', async () => {
    const host = await open([addressed({ object: true })], Strategy.Anonymise);
    expect(await problemsOf(host)).toEqual([
      "Letter: 'address.geo.place' is marked for anonymising, but stored inside of JSON; mark 'address' as a whole.",
      "Letter: 'address.street' is marked for anonymising, but stored inside of JSON; mark 'address' as a whole.",
    ]);
    const whole = await open(
      [addressed({ object: true, nullable: true }, { retain: { anonymise: { address: 'null' } } })],
      Strategy.Anonymise,
    );
    await whole.query(
      `insert into note(id, tenant_id, created_at, address) values (gen_random_uuid(), 'acme', '2020-01-01', '{"street": "Elm 1"}')`,
    );
    await whole.sweep.sweep(ACME, NOW);
    expect(await whole.query('select address from note')).toEqual([{ address: null }]);
  });

  test('are no record id, tenant or anchor', async () => {
    const host = await open([addressed({}, { retain: { tenant: 'address' } })]);
    expect(await problemsOf(host)).toEqual([
      "Letter: 'address' (@RetentionTenant or its default name) is not mapped to one column of the table.",
    ]);
  });
});

describe('record ids', () => {
  const composite = (recordId: unknown, more: Model = {}) =>
    model({
      properties: { id: { type: 'integer' }, tenantId: { type: 'text', primary: true }, ...more.properties },
      meta: { indexes: [], ...more.meta },
      retain: { recordId },
    });

  // VAL-33, VAL-33 near miss, acceptance 106, 107
  test('that are one column of a composite key are refused, unless they are unique beside it', async () => {
    const id = { type: 'integer', primary: true };
    const host = await open([composite('id', { properties: { id } })]);
    expect(await problemsOf(host)).toEqual([expect.stringContaining("record id 'id' is not unique by itself")]);
    expect(await problemsOf(await open([composite('id', { properties: { id: { ...id, unique: true } } })]))).toEqual(
      [],
    );
  });

  // VAL-33, VAL-34, VAL-34 near miss, acceptance 104: the model may say so, and the database not
  test('that the database does not keep unique are refused', async () => {
    const host = await open([model()]);
    await host.query('alter table note drop constraint note_pkey');
    expect(await problemsOf(host)).toEqual([
      'Note: nothing in the database keeps record id id unique; wanted: a primary key or unique constraint of its own.',
    ]);
    await host.query('create unique index half on note (id) where tenant_id is not null');
    await host.query('create unique index wide on note (id, tenant_id)');
    expect(await problemsOf(host)).toHaveLength(1);
    await host.query('create unique index whole on note (id) include (tenant_id)');
    expect(await problemsOf(host)).toEqual([]);
  });

  // design 4.6
  describe('that are unique across partitions', () => {
    @Entity({ tableName: 'event' })
    @Retain('notes', 'createdAt')
    @RetentionEntityId('1f0c9c4e-6d3b-4a55-9a64-0d4dbb1f9f11')
    class Event {
      @RetentionRecordId({ uniqueAcrossPartitions: true })
      @PrimaryKey({ type: 'uuid' })
      id!: string;

      @PrimaryKey({ type: 'text' })
      @RetentionTenant()
      tenantId!: string;

      @Property({ type: 'Date', columnType: 'timestamptz' })
      createdAt!: Date;
    }
    const columns = 'id uuid not null, tenant_id text not null, created_at timestamptz not null';

    test('are taken where the key is the id and the partition columns', async () => {
      const host = await open([Event]);
      await host.query('drop table event');
      await host.query(`create table event(${columns}, primary key (id, tenant_id)) partition by list (tenant_id)`);
      await host.query(`create table event_acme partition of event for values in ('acme')`);
      await host.query(`create table event_rest partition of event default`);
      const ids = [randomUUID(), randomUUID(), randomUUID()];
      await host.query(
        `insert into event select i, t, '2020-01-01' from unnest($1::uuid[], array['acme', 'acme', 'globex']) as r(i, t)`,
        [ids],
      );
      await host.holds.create(holdOn(Event, ids[0]!));
      const results = await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW));
      expect(results.map((result) => result.counts[0])).toMatchObject([{ affected: 1, held: 1 }, { affected: 1 }]);
      expect(await host.query('select id from event')).toEqual([{ id: ids[0] }]);
    });

    test.each([
      ['that is not partitioned', `create table event(${columns}, primary key (id, tenant_id))`],
      [
        'that has another column in its key',
        `create table event(${columns}, primary key (id, tenant_id, created_at)) partition by list (tenant_id)`,
      ],
      [
        'whose key is only a unique index',
        `create table event(${columns}, unique (id, tenant_id)) partition by list (tenant_id)`,
      ],
    ])('are refused on a table %s', async (_, ddl) => {
      const host = await open([Event]);
      await host.query('drop table event');
      await host.query(ddl);
      expect(await problemsOf(host)).toEqual([
        expect.stringContaining(
          'Event: record id id is said to be unique across partitions; wanted: a primary key of id',
        ),
      ]);
    });
  });
});

describe('tenants', () => {
  test('may be references, lazy or not', async () => {
    @Entity({ tableName: 'workspace' })
    class Workspace {
      @PrimaryKey({ type: 'uuid' })
      id!: string;
    }
    @Entity({ tableName: 'note' })
    @Retain('notes', 'createdAt')
    @RetentionEntityId('5b1e2c8e-7a43-4a0c-b8ce-6f0d5f3c0a01')
    class Note {
      @PrimaryKey({ type: 'uuid' })
      id!: string;

      @RetentionTenant()
      @ManyToOne(() => Workspace, { ref: true })
      workspace!: unknown;

      @Property({ type: 'Date', columnType: 'timestamptz' })
      createdAt!: Date;
    }
    const host = await open([Note, Workspace]);
    const [mine, other] = [randomUUID(), randomUUID()];
    await host.query('insert into workspace values ($1), ($2)', [mine, other]);
    await host.query(
      `insert into note(id, workspace_id, created_at) select gen_random_uuid(), w.id, '2020-01-01' from workspace as w`,
    );
    expect((await host.sweep.sweep(new TenantContext(mine!), NOW)).counts[0]).toMatchObject({ affected: 1 });
    expect(await host.query('select workspace_id from note')).toEqual([{ workspace_id: other }]);
  });

  test.each([
    ['uuid', { type: 'uuid' }, 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8', 'b7316df4-7db5-46ad-aea7-f65c4b430f73'],
    ['text', text, 'acme', 'globex'],
    ['integer', { type: 'integer' }, '7', '8'],
    ['bigint', { type: 'bigint' }, '7', '8'],
  ])('of type %s are swept, held and previewed', async (_, tenantId, mine, other) => {
    const note = model({ properties: { tenantId } });
    const host = await open([note]);
    const ids = [randomUUID(), randomUUID(), randomUUID()];
    await host.query(
      `insert into note(id, tenant_id, created_at) values ('${ids[0]}', '${mine}', '2020-01-01'), ('${ids[1]}', '${mine}', '2020-01-01'), ('${ids[2]}', '${other}', '2020-01-01')`,
    );
    const tenant = new TenantContext(mine);
    await host.holds.create(holdOn(note, ids[0]!, tenant));
    expect((await host.preview.preview(tenant, NOW)).counts[0]).toMatchObject({ affected: 1, held: 1 });
    expect((await host.sweep.sweep(tenant, NOW)).counts[0]).toMatchObject({ affected: 1, held: 1 });
    expect(await countRows(host, 'note')).toBe(2);
  });
});

describe('properties', () => {
  test('of a formula have no column, and play no role', async () => {
    const tenantId = { type: 'text', formula: "'acme'", persist: false };
    expect(await problemsOf(await open([model({ properties: { tenantId } })]))).toEqual([
      "Note: 'tenantId' (@RetentionTenant or its default name) is not mapped to one column of the table.",
    ]);
  });

  test('that the database generates may be the tenant or the anchor, and are not written', async () => {
    const key = { type: 'text', generated: '(tenant_id || $$!$$) stored' };
    const note = anonymisable({
      properties: { owner: { type: 'text', generated: '(lower(tenant_id)) stored' } },
      retain: { tenant: 'owner' },
    });
    const host = await open([note], Strategy.Anonymise);
    await host.query(
      `insert into note(id, tenant_id, created_at, email) values (gen_random_uuid(), 'ACME', '2020-01-01', 'ann')`,
    );
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
    const written = await open(
      [anonymisable({ properties: { key }, retain: { anonymise: { key: ['fixedLiteral', 'x'] } } })],
      Strategy.Anonymise,
    );
    expect(await problemsOf(written)).toEqual(['Note: column key is generated by the database and cannot be written.']);
  });

  test('that are lazy or read through a reference are anonymised', async () => {
    const Letter = defineEntity({
      name: 'Letter',
      tableName: 'note',
      properties: { ...LETTER, body: p.text().lazy().ref().nullable() },
    });
    class Shout implements AnonymiseFactory {
      readonly mode = 'perRowWithOriginalValue';
      create = ({ originalValue }: { originalValue: unknown }) => (originalValue as string).toUpperCase();
    }
    retain(Letter, { category: 'notes', anchor: 'createdAt', entityId: randomUUID(), anonymise: { body: Shout } });
    const host = await open([Letter], Strategy.Anonymise, { factories: [new Shout()] });
    await host.query(
      `insert into note(id, tenant_id, created_at, body) values (gen_random_uuid(), 'acme', '2020-01-01', 'quiet')`,
    );
    await host.sweep.sweep(ACME, NOW);
    expect(await host.query('select body from note')).toEqual([{ body: 'QUIET' }]);
  });

  // VAL-36, acceptance 129
  test.each(['moment', 'moments', 'span', 'spans', 'pair'])(
    'a record id of type %s, whose text depends on the session, is refused however it is made up',
    async (type) => {
      const host = await open([model({ properties: { id: { ...text, primary: true } } })]);
      await host.query(`create domain moment as timestamptz`);
      await host.query(`create domain moments as date[]`);
      await host.query(`create type span as range (subtype = moment)`);
      await host.query(`create domain spans as span[]`);
      await host.query(`create type pair as (a int, b interval)`);
      await host.query(`alter table note drop column id, add column id ${type} not null unique`);
      expect(await problemsOf(host)).toContainEqual(
        expect.stringMatching(/record id id is .*, whose text depends on the session/),
      );
    },
  );

  // VAL-36 near miss
  test.each(['label', 'labels', 'steps'])('a record id of type %s is taken', async (type) => {
    const host = await open([model({ properties: { id: { ...text, primary: true } } })]);
    await host.query(`create schema "Types"`);
    await host.query(`create domain "Types".label as text check (value <> '')`);
    await host.query(`create domain "Types".labels as text[]`);
    await host.query(`create type "Types".steps as range (subtype = int)`);
    await host.query(`alter table note drop column id, add column id "Types".${type} primary key`);
    const id = { label: 'one', labels: '{one,two}', steps: '[1,7)' }[type]!;
    await host.query(`insert into note(id, tenant_id, created_at) values ('${id}', 'acme', '2020-01-01')`);
    const [note] = host.orm.config.get('entities') as EntitySchema[];
    await host.holds.create(holdOn(note!, id));
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 0, held: 1 });
  });
});

describe('a column that is not what the model says', () => {
  test.each<[string, Model, Strategy, string, string[]]>([
    [
      'missing',
      {},
      'purge',
      'alter table note drop column created_at',
      ['Note: table public.note has no column created_at; apply the pending migrations.'],
    ],
    [
      'an anchor without a zone',
      {},
      'purge',
      'alter table note alter created_at type timestamp',
      ['Note: column created_at is timestamp without time zone in the database; wanted: timestamptz.'],
    ],
    [
      'a record id that takes NULL',
      {
        properties: { id: { type: 'uuid' }, key: { type: 'integer', primary: true } },
        retain: { recordId: 'id' },
        meta: { uniques: [{ properties: ['id'] }] },
      },
      'purge',
      'alter table note alter id drop not null',
      ['Note: record id id takes NULL in the database; wanted: NOT NULL.'],
    ],
    [
      'a tenant that is a number with a fraction',
      {},
      'purge',
      'alter table note alter tenant_id type numeric using 1',
      ['Note: column tenant_id is numeric in the database; wanted: uuid, a text or an integer.'],
    ],
    [
      'a marker that takes no NULL',
      { ...{} },
      'anonymise',
      'alter table note alter anonymised_at set not null',
      ['Note: column anonymised_at is NOT NULL in the database; anonymising needs NULL in it.'],
    ],
    [
      'a field that takes no NULL',
      {},
      'anonymise',
      'alter table note alter email set not null',
      ['Note: column email is NOT NULL in the database; anonymising needs NULL in it.'],
    ],
    [
      'a flag that is a number',
      {},
      'softDelete',
      'alter table note alter is_deleted type int using 0',
      ['Note: column is_deleted is integer in the database; wanted: boolean.'],
    ],
  ])('%s is refused', async (_, input, strategy, ddl, problems) => {
    const make = { purge: model, anonymise: anonymisable, softDelete: softDeletable }[strategy as 'purge'];
    const host = await open([make(input)], strategy);
    expect(await problemsOf(host)).toEqual([]);
    const other = await open([make(input)], strategy, { url: host.url });
    await host.query(ddl);
    expect(await problemsOf(other)).toEqual(problems);
  });

  test('of which none is there, on a table that is, is refused for each', async () => {
    const host = await open([model()]);
    await host.query('drop table note; create table note()');
    expect(await problemsOf(host)).toEqual([
      'Note: nothing in the database keeps record id id unique; wanted: a primary key or unique constraint of its own.',
      ...['created_at', 'id', 'tenant_id'].map(
        (column) => `Note: table public.note has no column ${column}; apply the pending migrations.`,
      ),
    ]);
  });

  // acceptance 100
  test('is told of together with what the tables of Cohort and the keys lack', async () => {
    const host = await open([model()]);
    await host.query(
      `alter table note alter created_at type timestamp; create rule keep as on delete to note do instead nothing`,
    );
    await host.query(`alter table ${OURS}.sweep_run rename actor to author`);
    expect(await problemsOf(host)).toEqual([
      'Note: column created_at is timestamp without time zone in the database; wanted: timestamptz.',
      expect.stringContaining('Note: table public.note has rewrite rules'),
      expect.stringContaining('has no column actor'),
    ]);
  });

  // A model that says NOT NULL must not hide rows that are never due.
  test('an anchor that takes NULL against the model has its rows counted', async () => {
    const host = await open([model()]);
    await host.query('alter table note alter created_at drop not null');
    await host.query(`insert into note(id, tenant_id) values (gen_random_uuid(), 'acme')`);
    expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ nullAnchor: 1 });
  });
});

describe('the ORM around them', () => {
  // field case C33, SWP-36, SWP-40
  test('global filters hide nothing from a purge: what was soft-deleted long ago goes', async () => {
    const Mail = defineEntity({
      name: 'Mail',
      tableName: 'note',
      filters: {
        trash: { name: 'trash', cond: { isDeleted: false }, default: true },
        tenant: { name: 'tenant', cond: { tenantId: 'nobody' }, default: true },
      } as never,
      properties: {
        id: p.uuid().primary(),
        tenantId: p.text(),
        isDeleted: p.boolean().default(false),
        deletedAt: p.datetime().nullable(),
      },
    });
    retain(Mail, { category: 'notes', anchor: 'deletedAt', entityId: randomUUID() });
    const host = await open([Mail], Strategy.Purge, {
      options: { rules: { notes: { period: 'P90D', strategy: 'purge' } } },
    });
    await host.query(
      `insert into note(id, tenant_id, is_deleted, deleted_at)
       select gen_random_uuid(), 'acme', true, $1::timestamptz - d * interval '1 day' from unnest(array[100, 80]) as d`,
      [NOW.toISOString()],
    );
    expect(await host.orm.em.fork().count(Mail)).toBe(0);
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1, nullAnchor: 0 });
    expect(await countRows(host, 'note')).toBe(1);
  });

  // META-10, acceptance 146
  test('the naming strategy alone gives tables and columns their names', async () => {
    const note = anonymisable({ name: 'SessionNote', table: undefined as never, meta: { tableName: undefined } });
    const host = await open([note], Strategy.Anonymise, { orm: { namingStrategy: EntityCaseNamingStrategy } as never });
    await host.query(
      `insert into "SessionNote"(id, "tenantId", "createdAt", email) values (gen_random_uuid(), 'acme', '2020-01-01', 'ann')`,
    );
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
    expect(await host.query('select email from "SessionNote" where "anonymisedAt" = $1', [NOW.toISOString()])).toEqual([
      { email: null },
    ]);
  });

  // META-11, acceptance 121
  test('each entity lives in the schema of its own, or in the one of the ORM', async () => {
    const own = model({ meta: { schema: 'Own "place"' } });
    const memo = model({ name: 'Memo' });
    const host = await open([own, memo], Strategy.Purge, { orm: { schema: 'shared' } as never });
    for (const table of ['"Own ""place"""."note"', 'shared.memo'])
      await host.query(
        `insert into ${table}(id, tenant_id, created_at) values (gen_random_uuid(), 'acme', '2020-01-01')`,
      );
    const { counts } = await host.sweep.sweep(ACME, NOW);
    expect(counts.map((count) => count.affected)).toEqual([1, 1]);
  });

  test('an entity with a table in many schemas is refused', async () => {
    const host = await openHost({
      entities: [model({ meta: { schema: '*' } })],
      options: rulesFor(Strategy.Purge),
      url: (await open([model()])).url,
    });
    expect(await problemsOf(host)).toContainEqual(expect.stringContaining('Note: has a table in many schemas'));
  });

  test('read replicas are never asked: everything happens on the primary', async () => {
    const stale = await createTestDatabase({ name: 'stale' });
    const primary = await open([model()]);
    const orm = { replicas: [{ clientUrl: stale.url }], preferReadReplicas: true };
    const host = await startHost({
      entities: [model()],
      options: rulesFor(Strategy.Purge),
      url: primary.url,
      orm: orm as never,
    });
    try {
      await primary.query(
        `insert into note(id, tenant_id, created_at) values (gen_random_uuid(), 'acme', '2020-01-01')`,
      );
      const connection = host.orm.em.getDriver().getConnection('read');
      expect(
        await (connection as unknown as { execute(sql: string): Promise<object[]> }).execute(
          'select current_database() as db',
        ),
      ).not.toEqual(await primary.query('select current_database() as db'));
      expect((await host.preview.preview(ACME, NOW)).counts[0]).toMatchObject({ affected: 1 });
      const { sweepId } = await host.sweep.sweep(ACME, NOW);
      expect(await host.ledger.run(sweepId)).toMatchObject({ totalAffected: 1 });
    } finally {
      await host.close();
      await stale.drop();
    }
  });
});
