import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Collection, type EntitySchema, Type } from '@mikro-orm/core';
import {
  Embeddable,
  Embedded,
  Entity,
  ManyToMany,
  ManyToOne,
  PrimaryKey,
  Property,
} from '@mikro-orm/decorators/legacy';
import { type TestDatabase, createTestDatabase } from 'local-stack/testing';
import {
  Anonymise,
  AnonymiseMethod,
  AnonymiseWith,
  CohortConfigurationError,
  type CohortOptions,
  ExemptFromRetention,
  Retain,
  RetentionEntityId,
  RetentionTenant,
  RetentionTenantless,
  Strategy,
  retain,
} from 'nestjs-cohort';
import { type Host, openHost } from '../support/host.js';
import {
  type Model,
  anonymisable,
  date,
  dateOrNull,
  flag,
  model,
  softDeletable,
  text,
  textOrNull,
  uuidKey,
} from '../support/models.js';

const ID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';
const OTHER_ID = 'b7316df4-7db5-46ad-aea7-f65c4b430f73';

let shared: TestDatabase;
beforeAll(async () => {
  shared = await createTestDatabase({ name: 'models' });
});
afterAll(() => shared.drop());

type Entities = readonly (EntitySchema | (abstract new () => object))[];

async function open(entities: Entities, options: Partial<CohortOptions>, url?: string): Promise<Host> {
  return openHost({
    entities: [...entities] as never,
    options: { rules: rulesFor('purge'), ...options },
    url,
    factories: [new Pseudonym()],
  });
}

@Retain('notes', 'createdAt')
@RetentionEntityId(OTHER_ID)
@Entity({ abstract: true })
abstract class Paper {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}

@Entity()
class Student {
  @PrimaryKey({ type: 'int', autoincrement: false }) id!: number;
  @ManyToMany({ entity: () => Student, pivotEntity: () => Friendship }) friends = new Collection<Student>(this);
}
@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity()
class Friendship {
  @PrimaryKey({ type: 'int', autoincrement: false }) id!: number;
  @ManyToOne({ entity: () => Student }) one!: Student;
  @ManyToOne({ entity: () => Student }) other!: Student;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}

/** Every problem that start-up finds in a model; the database is never asked. */
async function problemsOf(entities: Entities, options: Partial<CohortOptions> = {}): Promise<readonly string[]> {
  const host = await open(entities, options, shared.url);
  const error = await host.readiness.context().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CohortConfigurationError);
  return (error as CohortConfigurationError).problems;
}

/** Start-up passes on a database with the tables of the model; what it described is returned. */
async function accepted(entities: Entities, options: Partial<CohortOptions> = {}) {
  const host = await open(entities, options);
  return (await host.readiness.context()).registry.entries;
}

const rulesFor = (strategy: Strategy, ...categories: string[]) =>
  Object.fromEntries(['notes', ...categories].map((category) => [category, { period: 'P30D', strategy }]));
const under = (strategy: Strategy): Partial<CohortOptions> => ({ rules: rulesFor(strategy) });
const about = (...problems: string[]) => problems.map((problem) => expect.stringContaining(problem));

class Pseudonym {
  create = () => 'someone';
}
/** A factory that no host registers. */
class Unregistered extends Pseudonym {}

/** Converters of a host: what is stored is not what the application sees. */
class YesNoType extends Type<boolean, string> {
  override convertToDatabaseValue = (value: boolean) => (value ? 'Y' : 'N');
  override convertToJSValue = (value: string) => value === 'Y';
  override getColumnType = () => 'text';
}
class EpochType extends Type<Date, string> {
  override convertToDatabaseValue = (value: Date) => value.toISOString();
  override convertToJSValue = (value: string) => new Date(value);
  override getColumnType = () => 'timestamptz';
}
/** The name is one of the ORM's own, the conversion is not. */
const TextType = class TextType extends Type<string, string> {
  override convertToDatabaseValue = (value: string) => `tenant:${value}`;
  override convertToJSValue = (value: string) => value.slice('tenant:'.length);
  override getColumnType = () => 'text';
};

/** Stores a number that it reads from a text, and fails where there is none. */
class Numbered extends Type<string, string> {
  override convertToDatabaseValue(value: string): string {
    return BigInt(value).toString(16);
  }
  override getColumnType = () => 'text';
}
/** Converts in SQL, which a literal does not pass. */
class Encrypted extends Type<string, string> {
  override convertToDatabaseValueSQL = (key: string) => `encode(${key}, 'base64')`;
  override getColumnType = () => 'text';
}

interface Case {
  readonly title: string;
  readonly entities: () => Entities;
  readonly options?: Partial<CohortOptions>;
  readonly problems: readonly string[];
}
interface NearMiss {
  readonly title: string;
  readonly entities: () => Entities;
  readonly options?: Partial<CohortOptions>;
}

const one = (input: Model) => () => [model(input)];

// ---- The shape of an entity -------------------------------------------------------------------------------------

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@ExemptFromRetention('reference data')
@Entity({ tableName: 'both' })
class Both {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}

@Retain('notes', 'createdAt')
@Entity({ tableName: 'anonymous' })
class WithoutId {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}

@ExemptFromRetention('reference data')
@Entity({ tableName: 'country' })
class Country {
  @PrimaryKey({ type: 'text' }) code!: string;
}

@Entity({ tableName: 'animal', discriminatorColumn: 'kind', discriminatorValue: 'animal' })
class StiAnimal {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'text' }) kind!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}
@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity({ discriminatorValue: 'cat' })
class StiCat extends StiAnimal {}

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity({ tableName: 'vehicle', discriminatorColumn: 'kind', discriminatorValue: 'vehicle' })
class StiVehicle {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'text' }) kind!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}
@Entity({ discriminatorValue: 'car' })
class StiCar extends StiVehicle {}

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity({ tableName: 'person', inheritance: 'tpt' })
class TptPerson {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}
@Retain('notes', 'createdAt')
@RetentionEntityId(OTHER_ID)
@Entity({ tableName: 'employee' })
class TptEmployee extends TptPerson {
  @Property({ type: 'text' }) badge!: string;
}

@Entity({ abstract: true })
abstract class Base {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @RetentionTenant() @Property({ type: 'text' }) owner!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}
@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity({ tableName: 'letter' })
class Letter extends Base {}
@Retain('notes', 'createdAt')
@RetentionEntityId(OTHER_ID)
@Entity({ tableName: 'registered_letter' })
class RegisteredLetter extends Letter {
  @Property({ type: 'text' }) receipt = '';
}

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Embeddable()
class Address {
  @Property({ type: 'text' }) street!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
}
@Entity({ tableName: 'household' })
class Household {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Embedded(() => Address) address!: Address;
}
@Embeddable()
class Place {
  @Property({ type: 'text' }) street!: string;
}
@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@Entity({ tableName: 'site' })
class Site {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'text' }) tenantId!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
  @Embedded(() => Place) place!: Place;
}

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@RetentionTenantless()
@Entity({ tableName: 'scrubbed' })
class TwiceScrubbed {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true }) anonymisedAt: Date | null = null;
  @Anonymise(AnonymiseMethod.Null)
  @AnonymiseWith(Pseudonym)
  @Property({ type: 'text', nullable: true })
  email: string | null = null;
}

@Retain('notes', 'createdAt')
@RetentionEntityId(ID)
@RetentionTenantless()
@Entity({ tableName: 'scrubbed' })
class Scrubbed {
  @PrimaryKey({ type: 'uuid' }) id!: string;
  @Property({ type: 'Date', columnType: 'timestamptz' }) createdAt!: Date;
  @Property({ type: 'Date', columnType: 'timestamptz', nullable: true }) anonymisedAt: Date | null = null;
  @Anonymise(AnonymiseMethod.Null)
  @Property({ type: 'text', nullable: true })
  phone: string | null = null;
  @AnonymiseWith(Pseudonym)
  @Property({ type: 'text', nullable: true })
  email: string | null = null;
}

const shape: Case[] = [
  // VAL-02, acceptance 97, 450
  {
    title: 'an entity that is both retained and exempt',
    entities: () => [Both],
    problems: ['Both: carries both @Retain and @ExemptFromRetention; keep one.'],
  },
  // VAL-03, acceptance 120
  {
    title: 'a retained entity derived in a single table',
    entities: () => [StiAnimal, StiCat],
    problems: ['StiCat: takes part in an inheritance hierarchy'],
  },
  // VAL-03, acceptance 120
  {
    title: 'a retained base of a single table',
    entities: () => [StiVehicle, StiCar],
    problems: ['StiVehicle: takes part in an inheritance hierarchy'],
  },
  // VAL-03, acceptance 120
  {
    title: 'base and derived of joined tables',
    entities: () => [TptPerson, TptEmployee],
    problems: [
      'TptEmployee: takes part in an inheritance hierarchy',
      'TptPerson: takes part in an inheritance hierarchy',
    ],
  },
  // VAL-04
  {
    title: 'a retained embeddable',
    entities: () => [Household, Address],
    problems: ['Address: is an embeddable; retention works on tables.'],
  },
  // VAL-06
  {
    title: 'a table that another entity maps too, as the schema fallback shows',
    entities: () => [model(), model({ name: 'Memo', table: 'note', retain: null, meta: { schema: 'public' } })],
    problems: ['Note: table public.note is mapped by Memo too'],
  },
  // VAL-08
  {
    title: 'a view',
    entities: one({ meta: { view: true, expression: 'select 1' } }),
    problems: ['Note: has no table of its own.'],
  },
  // VAL-08
  {
    title: 'a query without a table',
    entities: one({ properties: { id: { type: 'uuid' } }, meta: { expression: 'select 1' } }),
    problems: ['Note: has no table of its own.', "Note: record id 'id' is not unique by itself"],
  },
  // VAL-09, acceptance 95
  {
    title: 'a retained entity without an entity id',
    entities: () => [WithoutId],
    problems: ['WithoutId: @Retain needs @RetentionEntityId'],
  },
  // VAL-10, acceptance 96
  {
    title: 'two entities of one entity id, naming the first owner',
    entities: () => [
      model({ name: 'Memo', retain: { entityId: ID } }),
      model({ name: 'Note', retain: { entityId: ID.toUpperCase() } }),
    ],
    problems: [`Note: @RetentionEntityId ${ID} belongs to Memo already`],
  },
];

const shapeNearMisses: NearMiss[] = [
  // VAL-02 near miss, VAL-09 near miss, acceptance 94
  {
    title: 'exempt and un-annotated entities beside a retained one',
    entities: () => [model(), Country, model({ name: 'Plain', retain: null })],
  },
  // VAL-03 near miss
  {
    title: 'an entity with an abstract base, and one that extends another into a table of its own',
    entities: () => [Letter, RegisteredLetter],
  },
  // VAL-04 near miss
  { title: 'an entity that embeds', entities: () => [Site] },
  // VAL-06 near miss, acceptance 121
  {
    title: 'the same table name in another schema',
    entities: () => [model(), model({ name: 'Memo', table: 'note', retain: null, meta: { schema: 'crm' } })],
  },
  // VAL-08 near miss
  {
    title: 'a view that nobody retains beside a retained table',
    entities: () => [
      model(),
      model({
        name: 'Recent',
        retain: null,
        meta: { view: true, expression: 'select id, tenant_id, created_at from note' },
      }),
    ],
  },
  // VAL-10 near miss
  { title: 'two entities of one category', entities: () => [model(), model({ name: 'Memo' })] },
  // META-17
  {
    title: 'a many-to-many between retained entities, whose join table is skipped',
    entities: () => [
      model({ properties: { tags: { kind: 'm:n', entity: () => 'Tag', owner: true } } }),
      model({ name: 'Tag' }),
    ],
  },
];

// ---- Markers ------------------------------------------------------------------------------------------------------

const markers = (
  [
    ['recordId', '@RetentionRecordId', { id: null, a: uuidKey, b: { type: 'uuid', unique: true } }],
    ['tenant', '@RetentionTenant', { tenantId: null, a: text, b: text }],
    ['softDelete', '@RetentionSoftDelete', { a: flag, b: flag }],
    ['deletedAt', '@RetentionDeletedAt', { a: dateOrNull, b: dateOrNull }],
    ['anonymisedAt', '@RetentionAnonymisedAt', { a: dateOrNull, b: dateOrNull }],
  ] as const
).map(([role, marker, properties]) => ({ role, marker, properties }));

/** A property is marked by the decorator, one after the other, as on a class. */
function marked(role: string, properties: Model['properties'], ...names: string[]): EntitySchema {
  const entity = model({ properties, retain: { [role]: names[0] } });
  for (const name of names.slice(1)) {
    retain(
      entity as EntitySchema<object>,
      { category: 'notes', anchor: 'createdAt', entityId: ID, [role]: name } as never,
    );
  }
  return entity;
}

// ---- Anchor, record id, tenant ------------------------------------------------------------------------------------

const timestamps = [
  'timestamptz',
  'timestamptz(3)',
  'TIMESTAMPTZ',
  'timestamp with time zone',
  'timestamp(3) with time zone',
];
const notTimestamps = ['timestamp', 'timestamp(3)', 'timestamp without time zone', 'date', 'time', 'text', 'bigint'];

const columns: Case[] = [
  // VAL-20, acceptance 98
  {
    title: 'an anchor that the entity does not have',
    entities: one({ retain: { anchor: 'bornAt' } }),
    problems: ["Note: anchor 'bornAt' is not a mapped property with one column."],
  },
  // VAL-22, acceptance 98
  {
    title: 'an anchor that is not mapped',
    entities: one({ properties: { createdAt: { ...date, persist: false } } }),
    problems: ["Note: anchor 'createdAt' is not a mapped property with one column."],
  },
  // VAL-30
  {
    title: 'an entity whose key has another name than the convention',
    entities: one({ properties: { id: null, key: uuidKey } }),
    problems: ["Note: has no record id: mark one property with @RetentionRecordId, or name it 'id'."],
  },
  // VAL-31
  {
    title: 'a record id that is not mapped',
    entities: one({ properties: { id: { type: 'uuid', persist: false }, key: uuidKey } }),
    problems: ["Note: 'id' (@RetentionRecordId or its default name) is not mapped to one column of the table."],
  },
  // VAL-32, acceptance 105
  {
    title: 'a record id that may be null',
    entities: one({ properties: { id: { type: 'uuid', unique: true, nullable: true }, key: uuidKey } }),
    problems: ["Note: record id 'id' is nullable"],
  },
  // VAL-33, acceptance 104
  {
    title: 'a record id that is not unique',
    entities: one({ properties: { id: { type: 'uuid' }, key: uuidKey } }),
    problems: ["Note: record id 'id' is not unique by itself"],
  },
  // VAL-33, acceptance 106
  {
    title: 'a record id that is a part of a composite key',
    entities: one({ properties: { id: uuidKey, region: { type: 'text', primary: true } } }),
    problems: ["Note: record id 'id' is not unique by itself"],
  },
  // VAL-33
  {
    title: 'a record id that is unique with another column only',
    entities: one({
      properties: { id: { type: 'uuid' }, key: uuidKey },
      meta: { uniques: [{ properties: ['id', 'tenantId'] }] },
    }),
    problems: ["Note: record id 'id' is not unique by itself"],
  },
  // VAL-34, acceptance 130
  {
    title: 'a record id that is unique among some rows only',
    entities: one({
      properties: { id: { type: 'uuid' }, key: uuidKey },
      meta: { uniques: [{ properties: ['id'], where: 'tenant_id is not null' }] },
    }),
    problems: ["Note: record id 'id' is not unique by itself"],
  },
  // VAL-40, acceptance 111
  {
    title: 'an entity with neither tenant nor marker',
    entities: one({ properties: { tenantId: null } }),
    problems: ["Note: has no tenant: mark a property with @RetentionTenant, name it 'tenantId', or mark the class"],
  },
  // VAL-41, acceptance 125
  {
    title: 'a tenantless entity with a property of the conventional name',
    entities: one({ retain: { tenantless: true } }),
    problems: ["Note: is marked @RetentionTenantless and has the tenant property 'tenantId'; keep one."],
  },
  // VAL-41, acceptance 125
  {
    title: 'a tenantless entity with a marked tenant',
    entities: one({ properties: { tenantId: null, owner: text }, retain: { tenantless: true, tenant: 'owner' } }),
    problems: ["Note: is marked @RetentionTenantless and has the tenant property 'owner'; keep one."],
  },
  // VAL-43, acceptance 103
  {
    title: 'a tenant that may be null',
    entities: one({ properties: { tenantId: textOrNull } }),
    problems: ["Note: tenant 'tenantId' is nullable"],
  },
  // VAL-44, acceptance 102
  {
    title: 'a tenant that is not mapped',
    entities: one({ properties: { tenantId: { ...text, persist: false } } }),
    problems: ["Note: 'tenantId' (@RetentionTenant or its default name) is not mapped to one column of the table."],
  },
  // VAL-44
  {
    title: 'a marked tenant that the entity does not have',
    entities: one({ properties: { tenantId: null }, retain: { tenant: 'owner' } }),
    problems: ["Note: 'owner' (@RetentionTenant or its default name) is not mapped to one column of the table."],
  },
];

const columnNearMisses: NearMiss[] = [
  // VAL-21 near miss
  { title: 'an anchor that may be null', entities: one({ properties: { createdAt: dateOrNull } }) },
  // VAL-20 near miss
  {
    title: 'an anchor of another name that the entity has',
    entities: one({ properties: { createdAt: null, bornAt: date }, retain: { anchor: 'bornAt' } }),
  },
  // VAL-22 near miss
  {
    title: 'an anchor whose column has another name, beside a date that is not mapped',
    entities: one({
      properties: { createdAt: { ...date, fieldName: 'made' }, seenAt: { ...date, persist: false } },
    }),
  },
  // VAL-30 near miss
  { title: 'a marked key', entities: one({ properties: { id: null, key: uuidKey }, retain: { recordId: 'key' } }) },
  // VAL-31 near miss
  {
    title: 'a property of the conventional name that is not mapped, beside a marked key',
    entities: one({
      properties: { id: { type: 'uuid', persist: false }, key: uuidKey },
      retain: { recordId: 'key' },
    }),
  },
  // VAL-32 near miss, VAL-33 near miss, acceptance 107
  {
    title: 'a unique record id beside another key',
    entities: one({ properties: { id: { type: 'uuid', unique: true }, key: uuidKey } }),
  },
  // VAL-33 near miss, acceptance 107
  {
    title: 'a record id with a unique index of its own',
    entities: one({ properties: { id: { type: 'uuid' }, key: uuidKey }, meta: { uniques: [{ properties: ['id'] }] } }),
  },
  // VAL-33 near miss
  {
    title: 'a record id that is unique by itself and part of a composite key',
    entities: one({ properties: { id: { ...uuidKey, unique: true }, region: { type: 'text', primary: true } } }),
  },
  // VAL-34 near miss
  {
    title: 'a record id that is unique among some rows, and among all',
    entities: one({
      properties: { id: { type: 'uuid' }, key: uuidKey },
      meta: {
        uniques: [
          { name: 'half', properties: ['id'], where: 'tenant_id is not null' },
          { name: 'whole', properties: ['id'] },
        ],
      },
    }),
  },
  // VAL-40 near miss, VAL-41 near miss, acceptance 108
  {
    title: 'a tenantless entity',
    entities: one({ properties: { tenantId: null }, retain: { tenantless: true } }),
  },
  // VAL-40 near miss
  {
    title: 'a marked tenant',
    entities: one({ properties: { tenantId: null, owner: text }, retain: { tenant: 'owner' } }),
  },
  // VAL-41 near miss
  {
    title: 'a tenantless entity with a property whose name is almost the conventional one',
    entities: one({ properties: { tenantId: null, tenant: text }, retain: { tenantless: true } }),
  },
  // VAL-43 near miss
  {
    title: 'a property of the conventional name that may be null, beside a marked tenant that may not',
    entities: one({ properties: { tenantId: textOrNull, owner: text }, retain: { tenant: 'owner' } }),
  },
  // VAL-44 near miss
  {
    title: 'a property of the conventional name that is not mapped, beside a marked tenant',
    entities: one({ properties: { tenantId: { ...text, persist: false }, owner: text }, retain: { tenant: 'owner' } }),
  },
  {
    title: 'a reference to the tenant',
    entities: () => [
      model({ name: 'Account', retain: null }),
      model({
        properties: { tenantId: null, account: { kind: 'm:1', entity: () => 'Account' } },
        retain: { tenant: 'account' },
      }),
    ],
  },
];

// ---- Strategies -----------------------------------------------------------------------------------------------------

const strategies: Case[] = [
  // VAL-12, VAL-51
  {
    title: 'a model without rules',
    entities: one({}),
    options: { rules: undefined as never },
    problems: ['rules is undefined; wanted: a RetentionRuleProvider or a table of category to rule.'],
  },
  // VAL-51, acceptance 99
  {
    title: 'a category that the rules do not know',
    entities: one({ retain: { category: 'memos' } }),
    problems: ["Category 'memos' is used by an entity, but the rules know nothing of it"],
  },
  // VAL-54, acceptance 109, 236
  {
    title: 'soft deletion without flag and date',
    entities: one({}),
    options: under('softDelete'),
    problems: ["Note: category 'notes' may soft-delete, but it has neither a soft-delete flag"],
  },
  // VAL-54
  {
    title: 'soft deletion by a date alone that cannot be null',
    entities: one({ properties: { deletedAt: date } }),
    options: under('softDelete'),
    problems: ["Note: category 'notes' may soft-delete, but 'deletedAt' is not nullable"],
  },
  // VAL-55, acceptance 109
  {
    title: 'a soft-delete flag that is no boolean',
    entities: () => [softDeletable({ properties: { isDeleted: { type: 'smallint' } } })],
    options: under('softDelete'),
    problems: ["'isDeleted' is smallint; wanted: boolean"],
  },
  // VAL-55
  {
    title: 'a soft-delete flag that may be null: such a row would never go',
    entities: () => [softDeletable({ properties: { isDeleted: { ...flag, nullable: true } } })],
    options: under('softDelete'),
    problems: ["'isDeleted' is nullable"],
  },
  // VAL-55
  {
    title: 'a soft-delete flag that is not mapped',
    entities: () => [softDeletable({ properties: { isDeleted: { ...flag, persist: false } } })],
    options: under('softDelete'),
    problems: [
      "Note: 'isDeleted' (@RetentionSoftDelete or its default name) is not mapped to one column of the table.",
    ],
  },
  // VAL-56, acceptance 150
  {
    title: 'a soft-delete date that is not mapped, whatever the strategy',
    entities: () => [softDeletable({ properties: { deletedAt: { ...dateOrNull, persist: false } } })],
    options: under('purge'),
    problems: ["Note: 'deletedAt' (@RetentionDeletedAt or its default name) is not mapped to one column of the table."],
  },
  // VAL-57, acceptance 113, 240
  {
    title: 'anonymising without a field to anonymise',
    entities: () => [anonymisable({ retain: { anonymise: {} } })],
    options: under('anonymise'),
    problems: ["Note: category 'notes' may anonymise, but no property is marked with @Anonymise."],
  },
  // VAL-58, VAL-68
  {
    title: 'anonymising without a date that says so',
    entities: () => [anonymisable({ properties: { anonymisedAt: null } })],
    options: under('anonymise'),
    problems: ["Note: category 'notes' may anonymise, but it has no nullable date that says so"],
  },
  // VAL-59
  {
    title: 'an anonymised-at date that cannot be null, whatever the strategy',
    entities: () => [anonymisable({ properties: { anonymisedAt: date } })],
    options: under('purge'),
    problems: ["Note: 'anonymisedAt' must be nullable"],
  },
  // VAL-59
  {
    title: 'an anonymised-at date that is not mapped',
    entities: () => [anonymisable({ properties: { anonymisedAt: { ...dateOrNull, persist: false } } })],
    options: under('purge'),
    problems: [
      "Note: 'anonymisedAt' (@RetentionAnonymisedAt or its default name) is not mapped to one column of the table.",
    ],
  },
  // VAL-60, acceptance 148
  {
    title: 'a field that is anonymised in two ways',
    entities: () => [TwiceScrubbed],
    options: under('anonymise'),
    problems: ["TwiceScrubbed: 'email' is marked for anonymising twice; keep one."],
  },
  // VAL-61
  {
    title: 'an anonymised field that is not mapped',
    entities: () => [anonymisable({ properties: { email: { ...textOrNull, persist: false } } })],
    options: under('anonymise'),
    problems: ["Note: 'email' is marked for anonymising, but not mapped to one column of the table."],
  },
  // VAL-61
  {
    title: 'an anonymised field that the entity does not have',
    entities: () => [anonymisable({ properties: { email: null } })],
    options: under('anonymise'),
    problems: ["Note: 'email' is marked for anonymising, but not mapped to one column of the table."],
  },
  // VAL-63, acceptance 117, 118
  {
    title: 'a field anonymised to NULL that cannot be null',
    entities: () => [anonymisable({ properties: { email: text } })],
    options: under('anonymise'),
    problems: ["Note: 'email' is anonymised to NULL, but not nullable."],
  },
  // VAL-64, acceptance 114
  {
    title: 'a number anonymised to a text',
    entities: () => [
      anonymisable({ properties: { age: { type: 'int' } }, retain: { anonymise: { age: 'emptyString' } } }),
    ],
    options: under('anonymise'),
    problems: ["Note: 'age' is anonymised to a text, but its type is number."],
  },
  // VAL-64, acceptance 114
  {
    title: 'a date anonymised to a literal',
    entities: () => [
      anonymisable({ properties: { bornAt: date }, retain: { anonymise: { bornAt: ['fixedLiteral', 'x'] } } }),
    ],
    options: under('anonymise'),
    problems: ["Note: 'bornAt' is anonymised to a text, but its type is Date."],
  },
  // ANON-08
  {
    title: 'a text for a property whose converter cannot store one',
    entities: () => [
      anonymisable({
        properties: { name: { type: Numbered }, nick: { type: Encrypted }, alias: { type: Numbered, nullable: true } },
        retain: { anonymise: { name: ['fixedLiteral', 'gone'], nick: 'emptyString', alias: 'null' } },
      }),
    ],
    options: under('anonymise'),
    problems: [
      "Note: 'name' has a custom type that does not store 'gone' as a text",
      "Note: 'nick' has a custom type that does not store '' as a text",
    ],
  },
  // VAL-66, acceptance 116
  {
    title: 'a field that a factory anonymises that nobody registered',
    entities: () => [anonymisable({ retain: { anonymise: { email: Unregistered } } })],
    options: under('anonymise'),
    problems: [
      "Note: factory Unregistered of 'email' is not registered; make it a provider of a module, in the default scope.",
    ],
  },
];

const subjects: Case[] = [
  // VAL-70
  {
    title: 'a subject that is not mapped',
    entities: () => [
      model({
        properties: { email: { ...textOrNull, persist: false } },
        retain: { erasureSubjects: { email: 'email' } },
      }),
    ],
    problems: ["Note: 'email' is marked @ErasureSubject, but not mapped to one column of the table."],
  },
  // VAL-72, acceptance 322
  {
    title: 'subjects of one kind in columns of different types',
    entities: () => [
      model({ properties: { owner: text }, retain: { erasureSubjects: { owner: 'person' } } }),
      model({
        name: 'Memo',
        properties: { writer: { type: 'integer' } },
        retain: { erasureSubjects: { writer: 'person' } },
      }),
    ],
    problems: [
      "Columns of erasure subject 'person' differ in type (Memo.writer is int, Note.owner is text); give them one, or kinds of their own.",
    ],
  },
];

const strategyNearMisses: NearMiss[] = [
  // VAL-72 near miss
  {
    title: 'subjects of one kind in columns of one type, whatever their lengths, and of another kind in another',
    entities: () => [
      model({
        properties: { owner: { type: 'string', columnType: 'varchar(40)' }, number: { type: 'integer' } },
        retain: { erasureSubjects: { owner: 'person', number: 'customer' } },
      }),
      model({
        name: 'Memo',
        properties: { writer: { type: 'string', columnType: 'varchar(80)' } },
        retain: { erasureSubjects: { writer: 'person' } },
      }),
    ],
  },
  // VAL-54 near miss
  {
    title: 'soft deletion by a flag alone',
    entities: () => [softDeletable({ properties: { deletedAt: null } })],
    options: under('softDelete'),
  },
  // VAL-54 near miss
  {
    title: 'soft deletion by a nullable date alone',
    entities: () => [softDeletable({ properties: { isDeleted: null } })],
    options: under('softDelete'),
  },
  // VAL-54 near miss
  {
    title: 'soft deletion by a flag, with a date that cannot be null',
    entities: () => [softDeletable({ properties: { deletedAt: date } })],
    options: under('softDelete'),
  },
  // VAL-55 near miss
  {
    title: 'a flag spelled bool',
    entities: () => [softDeletable({ properties: { isDeleted: { ...flag, columnType: 'bool' } } })],
    options: under('softDelete'),
  },
  // VAL-55 near miss
  {
    title: 'an odd flag where nothing soft-deletes',
    entities: () => [softDeletable({ properties: { isDeleted: { type: 'smallint', nullable: true } } })],
    options: under('purge'),
  },
  // VAL-56 near miss
  {
    title: 'a soft-delete date whose column has another name, beside one that is not mapped',
    entities: () => [
      softDeletable({
        properties: { deletedAt: { ...dateOrNull, persist: false }, goneAt: { ...dateOrNull, fieldName: 'gone' } },
        retain: { deletedAt: 'goneAt' },
      }),
    ],
    options: under('softDelete'),
  },
  // VAL-54 near miss
  { title: 'neither flag nor date where nothing soft-deletes', entities: one({}), options: under('purge') },
  // acceptance 112
  {
    title: 'tenantless soft deletion',
    entities: () => [softDeletable({ properties: { tenantId: null }, retain: { tenantless: true } })],
    options: under('softDelete'),
  },
  // acceptance 112
  {
    title: 'tenantless anonymising',
    entities: () => [anonymisable({ properties: { tenantId: null }, retain: { tenantless: true } })],
    options: under('anonymise'),
  },
  // VAL-57 near miss, VAL-58 near miss, VAL-59 near miss, VAL-63 near miss, VAL-64 near miss
  {
    title: 'every method on a field that it fits',
    entities: () => [
      anonymisable({
        properties: { name: text, phone: { type: 'string', length: 20 } },
        retain: { anonymise: { email: 'null', name: 'emptyString', phone: ['fixedLiteral', '-'] } },
      }),
    ],
    options: under('anonymise'),
  },
  // VAL-63 near miss, VAL-64 near miss
  {
    title: 'a number anonymised to NULL',
    entities: () => [
      anonymisable({ properties: { age: { type: 'int', nullable: true } }, retain: { anonymise: { age: 'null' } } }),
    ],
    options: under('anonymise'),
  },
  // VAL-58 near miss, VAL-68 near miss
  {
    title: 'anonymise markers where nothing anonymises',
    entities: () => [anonymisable({ properties: { anonymisedAt: null } })],
    options: under('purge'),
  },
  // VAL-57 near miss
  {
    title: 'no field to anonymise where nothing anonymises',
    entities: () => [anonymisable({ retain: { anonymise: {} } })],
    options: under('purge'),
  },
  // VAL-59 near miss
  {
    title: 'a marked anonymised-at date, beside ones of the conventional name that could not be it',
    entities: () => [
      anonymisable({
        properties: { anonymisedAt: date, scrubbedAt: dateOrNull },
        retain: { anonymisedAt: 'scrubbedAt' },
      }),
    ],
    options: under('anonymise'),
  },
  // VAL-60 near miss, VAL-66 near miss
  { title: 'two fields, each anonymised in a way of its own', entities: () => [Scrubbed], options: under('anonymise') },
  // VAL-61 near miss
  {
    title: 'an anonymised field whose column has another name, beside one that is not mapped',
    entities: () => [
      anonymisable({
        properties: { email: { ...textOrNull, fieldName: 'mail' }, draft: { ...textOrNull, persist: false } },
      }),
    ],
    options: under('anonymise'),
  },
  // VAL-62 near miss
  {
    title: 'an anonymised property of a conventional name that plays no part',
    entities: () => [
      anonymisable({
        properties: { tenantId: textOrNull, owner: text },
        retain: { tenant: 'owner', anonymise: { tenantId: 'null' } },
      }),
    ],
    options: under('anonymise'),
  },
  // VAL-70 near miss
  {
    title: 'a subject whose column has another name, beside a property that is not mapped',
    entities: one({
      properties: { email: { ...text, fieldName: 'mail' }, draft: { ...textOrNull, persist: false } },
      retain: { erasureSubjects: { email: 'email' } },
    }),
  },
  {
    title: 'an exempt category on an entity with nothing but an anchor',
    entities: () => [model()],
    options: under('exempt'),
  },
];

const every = [...shape, ...columns, ...strategies, ...subjects];

describe('start-up refuses', () => {
  test.each(every)('$title', async ({ entities, options, problems }) => {
    expect(await problemsOf(entities(), options)).toEqual(about(...problems));
  });

  // VAL-07, acceptance 124
  test.each(markers)('$marker on two properties, naming them in order', async ({ role, marker, properties }) => {
    const problems = await problemsOf([marked(role, properties, 'b', 'a')]);
    expect(problems).toContainEqual(`Note: ${marker} marks a, b; mark one.`);
  });

  // VAL-21, VAL-23, acceptance 98, 110, 126
  test.each(notTimestamps)('an anchor or a marker date of type %s', async (columnType) => {
    const wrong = { ...dateOrNull, columnType };
    const problems = await problemsOf([
      model({ properties: { createdAt: wrong, deletedAt: wrong, anonymisedAt: wrong } }),
    ]);
    expect(problems).toEqual(
      about(
        `Note: 'anonymisedAt' is ${columnType}; wanted: timestamptz.`,
        `Note: 'createdAt' is ${columnType}; wanted: timestamptz.`,
        `Note: 'deletedAt' is ${columnType}; wanted: timestamptz.`,
      ),
    );
  });

  // VAL-35, acceptance 129
  test.each([
    'timestamp',
    'timestamptz',
    'TIMESTAMPTZ(3)',
    'timestamp with time zone',
    'date',
    'time',
    'timetz',
    'interval',
    'real',
    'float',
    'float4',
    'float8',
    'double precision',
    'money',
    'bytea',
    'date[]',
  ])('a record id of type %s, whose text depends on the session', async (columnType) => {
    const problems = await problemsOf([model({ properties: { id: { ...uuidKey, columnType } } })]);
    expect(problems).toEqual(about(`Note: record id 'id' is ${columnType}, whose text depends on the session`));
  });

  // VAL-62, acceptance 119
  test.each([
    ['the record id', 'id'],
    ['the tenant', 'tenantId'],
    ['the anchor', 'createdAt'],
    ['the soft-delete flag', 'isDeleted'],
    ['the soft-delete date', 'deletedAt'],
    ['the anonymised-at marker', 'anonymisedAt'],
  ])('anonymising of %s', async (role, property) => {
    const properties = {
      id: { type: 'text', primary: true },
      createdAt: dateOrNull,
      isDeleted: flag,
      deletedAt: dateOrNull,
    };
    const problems = await problemsOf([anonymisable({ properties, retain: { anonymise: { [property]: 'null' } } })]);
    expect(problems).toContainEqual(`Note: '${property}' is ${role} and cannot be anonymised.`);
  });

  // VAL-42, acceptance 102
  test.each(['numeric(10,0)', 'boolean', 'jsonb', 'timestamptz', 'uuid[]', 'real'])(
    'a tenant of type %s',
    async (columnType) => {
      const problems = await problemsOf([model({ properties: { tenantId: { type: 'string', columnType } } })]);
      expect(problems).toContainEqual(`Note: tenant 'tenantId' is ${columnType}; wanted: uuid, a text or an integer.`);
    },
  );

  // META-20, acceptance 128
  test.each([
    ['tenant', { tenantId: { type: YesNoType } }, 'tenantId'],
    ['tenant, of a type that is called like one of the ORM', { tenantId: { type: TextType } }, 'tenantId'],
    ['anchor', { createdAt: { type: EpochType } }, 'createdAt'],
    ['soft-delete flag', { isDeleted: { type: YesNoType } }, 'isDeleted'],
    ['soft-delete date', { deletedAt: { type: EpochType, nullable: true } }, 'deletedAt'],
    ['anonymised-at date', { anonymisedAt: { type: EpochType, nullable: true } }, 'anonymisedAt'],
  ])('a converter on the %s', async (_, properties, name) => {
    const problems = await problemsOf([model({ properties: properties as Model['properties'] })]);
    expect(problems).toContainEqual(expect.stringContaining(`Note: '${name}' has a custom type`));
  });

  // acceptance 100, 101
  test('nothing without saying everything: independent problems of options, rules, entities and pool are in one error', async () => {
    const entities = [
      model({ name: 'Note', properties: { createdAt: { ...date, columnType: 'date' } } }),
      model({ name: 'Memo', properties: { tenantId: null, id: { type: 'uuid' }, key: uuidKey } }),
      model({ name: 'Draft', retain: { category: 'unheard-of' } }),
      anonymisable({
        name: 'Contact',
        properties: { email: text },
        retain: { anonymise: { email: 'null', id: 'null' } },
      }),
      softDeletable({
        name: 'Ticket',
        retain: { category: 'tickets' },
        properties: { isDeleted: null, deletedAt: null },
      }),
    ];
    const options = {
      rules: {
        notes: { period: 'P30D', strategy: 'purge' as const },
        tickets: { period: 'P30D', strategy: 'softDelete' as const },
      },
      sweepBatchSize: 0,
      parallelism: 12,
    };
    expect(await problemsOf(entities, options)).toEqual(
      about(
        "Category 'unheard-of' is used by an entity",
        "Contact: 'email' is anonymised to NULL, but not nullable.",
        "Contact: 'id' is anonymised to NULL, but not nullable.",
        "Contact: 'id' is the record id and cannot be anonymised.",
        'Memo: has no tenant',
        "Memo: record id 'id' is not unique by itself",
        "Note: 'createdAt' is date; wanted: timestamptz.",
        'The connection pool holds 10; wanted: at least 14',
        "Ticket: category 'tickets' may soft-delete",
        'sweepBatchSize is 0',
      ),
    );
  });
});

describe('start-up accepts', () => {
  test.each([...shapeNearMisses, ...columnNearMisses, ...strategyNearMisses])(
    '$title',
    async ({ entities, options }) => {
      expect((await accepted(entities(), options)).length).toBeGreaterThan(0);
    },
  );

  // VAL-07 near miss, acceptance 149
  test.each(markers)('$marker on one property', async ({ role, properties }) => {
    const [entry] = await accepted([marked(role, properties, 'a')]);
    const described = { ...entry, softDelete: entry!.softDeleteFlag } as unknown as Record<
      string,
      { property: string }
    >;
    expect(described[role]?.property).toBe('a');
  });

  // VAL-21 near miss, VAL-23 near miss, acceptance 126, 127
  test.each(timestamps)('an anchor and marker dates of type %s', async (columnType) => {
    const right = { ...dateOrNull, columnType };
    const [entry] = await accepted([
      model({ properties: { createdAt: right, deletedAt: right, anonymisedAt: right } }),
    ]);
    expect(new Set([entry?.anchor.type, entry?.deletedAt?.type, entry?.anonymisedAt?.type])).toEqual(
      new Set(['timestamp with time zone']),
    );
  });

  // VAL-35 near miss
  test.each([
    ['uuid', 'uuid'],
    ['int', 'integer'],
    ['bigserial', 'bigint'],
    ['smallint', 'smallint'],
    ['text', 'text'],
    ['varchar(40)', 'character varying'],
    ['char(8)', 'character'],
    ['numeric(20,0)', 'numeric'],
  ])('a record id of type %s', async (columnType, installed) => {
    const [entry] = await accepted([model({ properties: { id: { type: 'string', primary: true, columnType } } })]);
    expect(entry?.recordId.type).toBe(installed);
  });

  // META-20, VAL-42 near miss
  test.each(['uuid', 'bigint', 'int', 'smallint', 'text', 'string', 'character'])(
    'a tenant of the type %s of the ORM',
    async (type) => {
      const [entry] = await accepted([model({ properties: { tenantId: { type } } })]);
      expect(entry?.tenant?.property).toBe('tenantId');
    },
  );
});

describe('a class that inherits from a retained one without a table', () => {
  @Entity()
  class Memo extends Paper {}
  @ExemptFromRetention('kept for ever')
  @Entity()
  class Deed extends Paper {}
  @Retain('notes', 'createdAt')
  @RetentionEntityId(ID)
  @Entity()
  class Letter extends Paper {}

  test('is refused without a marker of its own: nobody would notice that it is kept', async () => {
    expect(await problemsOf([Paper, Memo])).toEqual([
      'Memo: its base Paper carries @Retain, which is not inherited; mark Memo itself, or @ExemptFromRetention.',
    ]);
  });

  test('is accepted with a marker of its own, whichever', async () => {
    expect((await accepted([Paper, Deed, Letter])).map((entry) => entry.entityName)).toEqual(['Letter']);
  });
});

test('an entity that is the pivot of a many-to-many is retained like any other', async () => {
  expect((await accepted([Student, Friendship])).map((entry) => entry.entityName)).toEqual(['Friendship']);
});
