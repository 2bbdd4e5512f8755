import { describe, expect, test } from '@jest/globals';
import { EntitySchema } from '@mikro-orm/core';
import { Entity, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import {
  CohortConfigurationError,
  Retain,
  RetentionCategoryCapabilities,
  RetentionEntityId,
  RetentionRecordId,
  RetentionRule,
  RetentionRuleProvider,
  RetentionTenant,
  type Strategy,
  TENANTLESS,
  cohortEntities,
  retain,
} from 'nestjs-cohort';
import { Readiness } from '../../src/startup/readiness.js';
import { type Host, type HostOptions, openHost } from '../support/host.js';
import { anonymisable, date, model, softDeletable, text, uuidKey } from '../support/models.js';
import { Reversed } from '../support/reversed-type.js';
import { ACME, NOTE_ID, NOW, SessionNote, notesHost } from '../support/notes.js';
import { countRows, holdOn } from '../support/seed.js';
import { OURS, SCHEMA } from '../support/schema.js';

async function open(input: Partial<HostOptions> = {}): Promise<Host> {
  return openHost({ ...notesHost, ...input });
}

/** A host whose database is changed by SQL before anything asks Cohort. */
async function openAfter(statements: string, input: Partial<HostOptions> = {}): Promise<Host> {
  const host = await open(input);
  await host.query(statements);
  return host;
}

async function problemsOf(host: Pick<Host, 'readiness'>): Promise<readonly string[]> {
  const error = await host.readiness.context().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CohortConfigurationError);
  return (error as CohortConfigurationError).problems;
}

const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
const about = (...problems: string[]) => problems.map((problem) => expect.stringContaining(problem));
const entryNames = async (host: Host) => (await host.readiness.context()).registry.entries.map((e) => e.entityName);

/** A provider that declares strategies and answers as a test says. */
class Declared extends RetentionRuleProvider {
  asked = 0;
  constructor(
    public declared: readonly Strategy[] | null,
    public answer: Strategy = 'purge',
  ) {
    super();
  }
  override getCapabilities() {
    this.asked++;
    return this.declared && new RetentionCategoryCapabilities(this.declared);
  }
  override resolve() {
    return new RetentionRule({ period: 'P30D', strategy: this.answer });
  }
}

describe('a right model on a migrated database', () => {
  // READY-10 near miss, acceptance 91, 133, 145, 153, 158, META-18
  test('starts, and knows the retained entities alone', async () => {
    const host = await open({ entities: [...notesHost.entities, model({ name: 'Plain', retain: null })] });
    expect(await entryNames(host)).toEqual(['CaseContact', 'SessionNote', 'Signal', 'Ticket']);
  });

  // READY-11 near miss, acceptance 151, META-18
  test('is described once, and what was described cannot be changed', async () => {
    const host = await open();
    const { registry } = await host.readiness.context();
    expect((await host.readiness.context()).registry).toBe(registry);
    expect(() => (registry.entries as unknown[]).pop()).toThrow(TypeError);
    expect(() => Object.assign(registry.entries[0]!, { table: 'other' })).toThrow(TypeError);
  });

  // VAL-12 near miss, acceptance 93, 134, RULE-11
  test('starts with a provider that only knows at run time what it will answer', async () => {
    const host = await open({
      entities: [
        anonymisable(),
        softDeletable({ name: 'Ticket' }),
        model({ name: 'Signal', properties: { tenantId: null }, retain: { tenantless: true } }),
      ],
      options: { rules: new Declared(['purge', 'exempt']) },
    });
    expect(await entryNames(host)).toHaveLength(3);
  });

  // acceptance 134, 329
  test('starts only if it fits every strategy that a provider declares', async () => {
    const host = await open({
      entities: [anonymisable()],
      options: { rules: new Declared(['purge', 'anonymise', 'softDelete']) },
    });
    expect(await problemsOf(host)).toEqual(about("Note: category 'notes' may soft-delete"));
  });

  // acceptance 211, 212, RULE-03
  test('holds a provider to what it declared at start', async () => {
    const provider = new Declared(['purge']);
    const host = await open({ entities: [softDeletable()], options: { rules: provider } });
    await host.preview.preview(ACME, NOW);
    provider.declared = null;
    expect((await host.preview.preview(ACME, NOW)).counts).toHaveLength(1);
    provider.declared = ['softDelete'];
    provider.answer = 'softDelete';
    await expect(host.preview.preview(ACME, NOW)).rejects.toThrow("its strategy 'softDelete' was not declared");
    expect(provider.asked).toBe(1);
  });
});

describe('names', () => {
  @Retain('notes', 'writtenOn')
  @RetentionEntityId(NOTE_ID)
  @Entity({ tableName: 'Odd Memos', schema: 'Odd "crm"' })
  class Memo {
    @RetentionRecordId()
    @PrimaryKey({ type: 'uuid', fieldName: 'memo "key"' })
    key!: string;

    @RetentionTenant()
    @Property({ type: 'text', fieldName: 'Owner' })
    owner!: string;

    @Property({ type: 'Date', columnType: 'timestamptz', fieldName: 'written at' })
    writtenOn!: Date;

    /** Named by the convention, and not what plays the part. */
    @Property({ type: 'text', fieldName: 'tenant_id' })
    tenantId = 'nobody';
  }

  // acceptance 121, 146, 155, 231, META-08, META-10, META-11
  test('of schema, table and columns come from the ORM model, and a sweep works by them', async () => {
    const host = await open({ entities: [Memo], options: { rules }, cohortSchema: 'Odd name' });
    const { registry } = await host.readiness.context();
    expect(registry).toMatchObject({ cohortSchema: 'Odd name' });
    expect(registry.entries[0]).toMatchObject({
      entityName: 'Memo',
      schema: 'Odd "crm"',
      table: 'Odd Memos',
      recordId: { property: 'key', name: 'memo "key"' },
      tenant: { property: 'owner', name: 'Owner' },
      anchor: { property: 'writtenOn', name: 'written at' },
    });
    await host.query(`insert into "Odd ""crm"""."Odd Memos" values
      (gen_random_uuid(), 'acme', '2020-01-01', 'nobody'), (gen_random_uuid(), 'globex', '2020-01-01', 'acme'),
      (gen_random_uuid(), 'acme', '2026-06-29', 'nobody')`);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result).toMatchObject({ status: 'succeeded', counts: [{ entity: 'Memo', affected: 1 }] });
    expect(await host.query('select "Owner" as owner from "Odd ""crm"""."Odd Memos" order by 1')).toEqual([
      { owner: 'acme' },
      { owner: 'globex' },
    ]);
  });

  // acceptance 154, 157, META-08
  test('of roles come from the configured conventions where no marker says otherwise', async () => {
    const plain = model({
      properties: {
        id: null,
        tenantId: null,
        key: uuidKey,
        owner: text,
        hidden: { type: 'boolean' },
        hiddenAt: date,
        scrubbedAt: { ...date, nullable: true },
      },
    });
    const conventions = {
      recordIdProperty: 'key',
      tenantProperty: 'owner',
      softDeleteProperty: 'hidden',
      deletedAtProperty: 'hiddenAt',
      anonymisedAtProperty: 'scrubbedAt',
    };
    const host = await open({ entities: [plain, Memo], options: { rules, conventions } });
    const [memo, note] = (await host.readiness.context()).registry.entries;
    expect(note).toMatchObject({
      recordId: { property: 'key' },
      tenant: { property: 'owner' },
      softDeleteFlag: { property: 'hidden' },
      deletedAt: { property: 'hiddenAt' },
      anonymisedAt: { property: 'scrubbedAt' },
    });
    expect(memo).toMatchObject({ recordId: { property: 'key' }, tenant: { property: 'owner' } });
  });

  // acceptance 155, 156, META-08
  test('of roles come from a marker before a convention, and from the default without either', async () => {
    const marked = model({ properties: { owner: text }, retain: { tenant: 'owner' } });
    const byDefault = model({ name: 'Memo', properties: { owner: text } });
    const host = await open({ entities: [marked, byDefault], options: { rules } });
    const [memo, note] = (await host.readiness.context()).registry.entries;
    expect(note?.tenant?.property).toBe('owner');
    expect(memo?.tenant?.property).toBe('tenantId');
  });

  // acceptance 179, META-11
  test('of schemas fall back to that of the ORM configuration', async () => {
    const { url } = await open({
      entities: [model({ meta: { schema: 'crm' } })],
      options: { rules },
      cohortSchema: 'crm',
    });
    const orm = await MikroORM.init({
      clientUrl: url,
      schema: 'crm',
      entities: [model(), ...cohortEntities({ schema: 'crm' })],
      pool: { max: 10 },
    });
    try {
      const { registry } = await readinessOf(orm, { rules }).context();
      expect(registry).toMatchObject({ cohortSchema: 'crm', entries: [{ schema: 'crm', table: 'note' }] });
    } finally {
      await orm.close();
    }
  });
});

describe('annotations of a class and of its EntitySchema', () => {
  class Letter {
    id!: string;
    @RetentionTenant() owner!: string;
    createdAt!: Date;
  }
  const letter = () =>
    new EntitySchema<Letter>({
      class: Letter,
      tableName: 'letter',
      properties: { id: uuidKey, owner: text, createdAt: date } as never,
    });

  test('come together: retain() on the schema is not lost behind a marker of the class', async () => {
    const schema = letter();
    retain(schema, { category: 'notes', anchor: 'createdAt', entityId: NOTE_ID });
    const host = await open({ entities: [schema], options: { rules } });
    const { registry } = await host.readiness.context();
    expect(registry.entries).toMatchObject([{ entityName: 'Letter', tenant: { property: 'owner' } }]);
    expect([registry.find(schema), registry.find(Letter), registry.find(NOTE_ID)]).toEqual(
      Array.from({ length: 3 }, () => registry.entries[0]),
    );
  });
});

describe('a text that replaces a personal value', () => {
  // ANON-08
  test('is stored through the converter of its property', async () => {
    const contact = anonymisable({
      properties: { name: { type: Reversed }, phone: { type: Reversed } },
      retain: { anonymise: { name: ['fixedLiteral', 'gone'], phone: 'emptyString' } },
    });
    const host = await open({
      entities: [contact],
      options: { rules: { notes: { period: 'P30D', strategy: 'anonymise' } } },
    });
    await host.query(`insert into note(id, tenant_id, created_at, email, name, phone)
      values (gen_random_uuid(), 'acme', '2020-01-01', null, 'r:adA', 'r:144')`);
    expect((await host.sweep.sweep(ACME, NOW)).status).toBe('succeeded');
    expect(await host.query('select name, phone from note')).toEqual([{ name: 'r:enog', phone: 'r:' }]);
    const [read] = await host.orm.em.fork().find(contact, {});
    expect(read).toMatchObject({ name: 'gone', phone: '' });
  });
});

describe('the installed schema', () => {
  // acceptance 160, READY-10
  test.each(['retention_holds', 'sweep_pass', 'sweep_lane', 'sweep_progress', 'sweep_run', 'walk_cursor'])(
    'without %s is refused by its exact name',
    async (table) => {
      const host = await openAfter(`drop table ${OURS}.${table} cascade`);
      expect(await problemsOf(host)).toEqual([
        `Table ${OURS}."${table}" does not exist; apply the pending migrations.`,
      ]);
    },
  );

  // acceptance 178
  test('is not made whole by a table of the same name in another schema', async () => {
    const host = await openAfter(
      `create table public.sweep_run (like ${OURS}.sweep_run); drop table ${OURS}.sweep_run cascade`,
    );
    expect(await problemsOf(host)).toEqual(about(`Table ${OURS}."sweep_run" does not exist`));
  });

  test('with a view in place of a table is refused', async () => {
    const host = await openAfter(
      `alter table ${OURS}.walk_cursor rename to renamed; create view ${OURS}.walk_cursor as select * from ${OURS}.renamed`,
    );
    expect(await problemsOf(host)).toEqual(about(`Table ${OURS}."walk_cursor" does not exist`));
  });

  // READY-10
  test('without a retained table, with rules and with a cascade is refused for all of it at once', async () => {
    const host = await openAfter(
      `drop table signals; create rule keep as on delete to tickets do instead nothing; drop table ${OURS}.walk_cursor;
       alter table case_contacts add foreign key (id) references session_notes on delete cascade`,
    );
    expect(await problemsOf(host)).toEqual(
      about(
        'SessionNote: a purge would reach CaseContact through ON DELETE CASCADE',
        'Signal: table public.signals does not exist; apply the pending migrations.',
        `Table ${OURS}."walk_cursor" does not exist`,
        'Ticket: table public.tickets has rewrite rules',
      ),
    );
  });

  test('is accepted as soon as the rules are dropped, as the refusal says', async () => {
    const host = await openAfter('create rule keep as on delete to session_notes do also nothing');
    expect(await problemsOf(host)).toEqual(about('has rewrite rules'));
    await host.query('drop rule keep on session_notes');
    expect(await entryNames(host)).toHaveLength(4);
  });

  test('whose own rows would go with a row of the host is refused', async () => {
    const host = await openAfter(
      `create table customer(id text primary key);
       alter table ${OURS}.retention_holds add foreign key (tenant_id) references customer on delete cascade`,
    );
    expect(await problemsOf(host)).toEqual(about('foreign key (tenant_id) to public.customer is ON DELETE CASCADE'));
  });

  test('is understood where the server quotes every name that it prints', async () => {
    const owner = await open();
    await owner.query(
      `do $$ begin execute format('alter database %I set quote_all_identifiers = on', current_database()); end $$`,
    );
    const host = await open({ url: owner.url });
    expect(await host.query('show quote_all_identifiers')).toEqual([{ quote_all_identifiers: 'on' }]);
    expect(await entryNames(host)).toHaveLength(4);
  });

  test('whose holds a crash would empty is refused', async () => {
    const host = await openAfter(`alter table ${OURS}.retention_holds set unlogged`);
    expect(await problemsOf(host)).toEqual(about('is not logged'));
  });

  test('with tables that inherit from a retained one is refused, and with partitions of one it is not', async () => {
    const inherited = await openAfter('create table old_notes () inherits (session_notes)');
    expect(await problemsOf(inherited)).toEqual(about('SessionNote: table public.session_notes has inheriting tables'));
    const partitioned = await openAfter(
      `drop table session_notes; create table session_notes (id uuid primary key, tenant_id text not null,
         created_at timestamptz, body text not null) partition by hash (id);
       create table session_notes_0 partition of session_notes for values with (modulus 1, remainder 0)`,
    );
    await expect(partitioned.readiness.context()).resolves.toBeDefined();
  });

  // acceptance 189, 462, READY-01, READY-02
  test('is checked before every operation of every port, and none writes or makes anything', async () => {
    const host = await openAfter(`drop table ${OURS}.walk_cursor`);
    const before = await snapshot(host);
    for (const [name, call] of operationsOf(host)) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect([name, error]).toEqual([name, expect.any(CohortConfigurationError)]);
    }
    expect(await snapshot(host)).toEqual(before);
  });

  // READY-01 near miss
  test('that is right lets every operation of every port through, though nobody checked it at start', async () => {
    const host = await open();
    for (const [name] of operationsOf(host)) {
      const unchecked = await open({ url: host.url });
      const [, operation] = operationsOf(unchecked).find(([each]) => each === name)!;
      const error = await operation().catch((thrown: unknown) => thrown);
      expect([name, error]).not.toEqual([name, expect.any(CohortConfigurationError)]);
    }
  });

  // acceptance 195, READY-02
  test('is not looked at where an argument is wrong already', async () => {
    const host = await openAfter(`drop table ${OURS}.walk_cursor`);
    await expect(host.sweep.sweep(null as never, NOW)).rejects.toThrow('tenant is null; wanted: ');
    await expect(host.preview.preview(ACME, 'today' as never)).rejects.toThrow("now is 'today'; wanted: ");
    await expect(host.holds.create(null as never)).rejects.toThrow('hold is null; wanted: ');
    await expect(host.ledger.run('run-1')).rejects.toThrow("sweepId is 'run-1'; wanted: ");
  });

  // READY-02, READY-02 near miss
  test('is not looked at where the model is wrong already, and is where it is right', async () => {
    const wrong = model({ properties: { createdAt: { ...date, columnType: 'date' } } });
    const host = await openAfter(`drop table ${OURS}.walk_cursor`, { entities: [wrong], options: { rules } });
    expect(await problemsOf(host)).toEqual(about("Note: 'createdAt' is date; wanted: timestamptz."));
    const right = await openAfter(`drop table ${OURS}.walk_cursor`, { entities: [model()], options: { rules } });
    expect(await problemsOf(right)).toEqual(about(`Table ${OURS}."walk_cursor" does not exist`));
  });

  // READY-12, READY-12 near miss
  test('is seen as it is committed, not as the open transaction of a caller would make it', async () => {
    const host = await openAfter(
      `create table ${OURS}.spare (like ${OURS}.walk_cursor including all); drop table ${OURS}.walk_cursor`,
    );
    await host.orm.em.transactional(async (em) => {
      await em.execute(`alter table ${OURS}.spare rename to walk_cursor`);
      expect(await problemsOf(host)).toEqual(about(`Table ${OURS}."walk_cursor" does not exist`));
    });
    await expect(host.readiness.context()).resolves.toBeDefined();
  });

  // READY-11, READY-11 near miss, acceptance 190
  test('can be mended after a refusal, and a success is remembered', async () => {
    const host = await openAfter(`alter table ${OURS}.walk_cursor rename to mislaid`);
    expect(await problemsOf(host)).toHaveLength(1);
    expect(await problemsOf(host)).toHaveLength(1);
    await host.query(`alter table ${OURS}.mislaid rename to walk_cursor`);
    const ctx = await host.readiness.context();
    await host.query(`drop table ${OURS}.walk_cursor`);
    expect(await host.readiness.context()).toBe(ctx);
  });

  // READY-14, READY-14 near miss, acceptance 132, 193, 194
  test('that was found right in one place says nothing of another database', async () => {
    const right = await open();
    await right.readiness.context();
    const empty = await openAfter(`drop schema ${OURS} cascade`);
    expect(await problemsOf(empty)).toHaveLength(10);
  });
});

describe('a marker column of a soft deletion', () => {
  const softRules = { notes: { period: 'P30D', strategy: 'softDelete' as const } };

  test.each([
    ['a flag that takes NULL', {}, 'alter table note alter is_deleted drop not null', 'column is_deleted takes NULL'],
    [
      'a date, alone, that does not',
      { properties: { isDeleted: null } },
      `alter table note alter deleted_at set default 'infinity', alter deleted_at set not null`,
      'column deleted_at is NOT NULL',
    ],
  ])('is refused in the database: %s', async (_, input, ddl, problem) => {
    const host = await openAfter(ddl, { entities: [softDeletable(input)], options: { rules: softRules } });
    expect(await problemsOf(host)).toEqual(about(problem));
  });

  test('is accepted as a date that is NOT NULL beside a flag', async () => {
    const ddl = `alter table note alter deleted_at set default 'infinity', alter deleted_at set not null`;
    const host = await openAfter(ddl, { entities: [softDeletable()], options: { rules: softRules } });
    expect(await entryNames(host)).toEqual(['Note']);
  });
});

describe('a value that a type does not take is refused for anonymising', () => {
  const anonymised = { notes: { period: 'P30D', strategy: 'anonymise' as const } };
  const literal = { retain: { anonymise: { email: ['fixedLiteral', 'gone'] } } };

  test.each([
    ['NULL in a domain without it', {}, 'create domain mail as text not null', 'is NOT NULL in the database'],
    [
      'a literal in an enumeration',
      literal,
      `create type mail as enum ('a')`,
      `anonymised to 'gone', which is no value`,
    ],
    ['a literal in a domain', literal, `create domain mail as text check (value like '%@%')`, `which is no value`],
  ])('%s', async (_, input, type, problem) => {
    const host = await openAfter(`${type}; alter table note alter email type mail using null`, {
      entities: [anonymisable(input)],
      options: { rules: anonymised },
    });
    expect(await problemsOf(host)).toEqual(about(problem));
  });

  test('and accepted where it does', async () => {
    const host = await openAfter(
      `create type mail as enum ('gone'); alter table note alter email type mail using null`,
      {
        entities: [anonymisable(literal)],
        options: { rules: anonymised },
      },
    );
    expect(await entryNames(host)).toEqual(['Note']);
  });
});

describe('a table that the application finds by the search_path', () => {
  async function openIn(note: EntitySchema) {
    const owner = await open({ entities: [model()], options: { rules } });
    await owner.query('create schema app; create table app.note (like note including all)');
    await owner.query(
      `do $$ begin execute format('alter database %I set search_path = app, public', current_database()); end $$`,
    );
    return open({ entities: [note], options: { rules }, url: owner.url });
  }

  test('and that is another one than Cohort would sweep is refused', async () => {
    expect(await problemsOf(await openIn(model()))).toEqual(
      about("the application's own statements find table app.note by the search_path"),
    );
  });

  test('is swept where the entity names its schema', async () => {
    expect(await entryNames(await openIn(model({ meta: { schema: 'app' } })))).toEqual(['Note']);
  });
});

describe('a record id', () => {
  test.each([
    ['text[]', 'is an array'],
    ['regclass', 'whose text depends on the session'],
  ])('of type %s is refused', async (type, problem) => {
    const host = await openAfter(`alter table note alter id type ${type} using null`, {
      entities: [model()],
      options: { rules },
    });
    expect(await problemsOf(host)).toEqual(about(problem));
  });
});

describe('concurrent first callers', () => {
  // READY-13 near miss, acceptance 192
  test('share one check', async () => {
    const provider = new Declared(['purge']);
    const host = await open({ entities: [model()], options: { rules: provider } });
    const contexts = await Promise.all(Array.from({ length: 5 }, () => host.readiness.context()));
    expect(new Set(contexts).size).toBe(1);
    expect(provider.asked).toBe(1);
  });

  // READY-13
  test('share one refusal, and the next caller tries again', async () => {
    const provider = new Declared(['purge']);
    const host = await openAfter('alter table note rename to mislaid', {
      entities: [model()],
      options: { rules: provider },
    });
    const refusals = await Promise.allSettled(Array.from({ length: 5 }, () => host.readiness.context()));
    expect(refusals.map((each) => each.status)).toEqual(Array.from({ length: 5 }, () => 'rejected'));
    expect(provider.asked).toBe(1);
    await host.query('alter table mislaid rename to note');
    await expect(host.readiness.context()).resolves.toBeDefined();
    expect(provider.asked).toBe(2);
  });
});

describe('foreign keys', () => {
  const tables = (statements: string, strategy: Strategy = 'purge') =>
    openAfter(statements, {
      entities: [
        model({ name: 'Parent' }),
        model({ name: 'Child', properties: { parent_id: { type: 'uuid', nullable: true } } }),
      ],
      options: { rules: { notes: { period: 'P30D', strategy } } },
    });

  // acceptance 122, VAL-52
  test('that cascade from one retained entity into another are refused, with the path', async () => {
    const host = await tables('alter table child add foreign key (parent_id) references parent on delete cascade');
    expect(await problemsOf(host)).toEqual(
      about(
        'Parent: a purge would reach Child through ON DELETE CASCADE (public.child.child_parent_id_fkey), past its rules and holds',
      ),
    );
  });

  // acceptance 122, VAL-52
  test('that cascade through tables nobody retains are refused, with the path', async () => {
    const host = await tables(
      `create table link (id uuid primary key, parent_id uuid references parent on delete cascade);
       create table hop (id uuid primary key, link_id uuid references link on delete cascade);
       alter table child add foreign key (parent_id) references hop on delete cascade`,
    );
    expect(await problemsOf(host)).toEqual([
      expect.stringMatching(
        /^Parent: a purge would reach Child through .*child_parent_id_fkey.*hop_link_id_fkey.*link_parent_id_fkey/,
      ),
    ]);
  });

  // acceptance 131, VAL-53
  test.each([
    [
      'to the table itself',
      'alter table child add foreign key (parent_id) references child on delete cascade',
      /\(public\.child\.child_parent_id_fkey\)/,
    ],
    [
      'back to the table through another',
      `create table link (id uuid primary key, child_id uuid references child on delete cascade);
       alter table child add foreign key (parent_id) references link on delete cascade`,
      /child_parent_id_fkey.*link_child_id_fkey/,
    ],
  ])('that cascade %s are refused', async (_, statements, path) => {
    const host = await tables(statements);
    const problems = await problemsOf(host);
    expect(problems).toEqual(about('Child: a purge would reach Child through ON DELETE CASCADE'));
    expect(problems[0]).toMatch(path);
  });

  // VAL-52 near miss, acceptance 123
  test.each(['no action', 'restrict', 'set null', 'set default'])(
    'that %s between retained entities are accepted',
    async (action) => {
      const host = await tables(`alter table child add foreign key (parent_id) references parent on delete ${action}`);
      expect(await entryNames(host)).toEqual(['Child', 'Parent']);
    },
  );

  // VAL-52 near miss, VAL-53 near miss
  test.each([
    [
      'end in a table that nobody retains',
      `create table link (id uuid primary key, parent_id uuid references parent on delete cascade)`,
    ],
    [
      'stop at a restricting key',
      `create table link (id uuid primary key, parent_id uuid references parent on delete cascade);
       alter table child add foreign key (parent_id) references link on delete restrict`,
    ],
    ['only follow updates', 'alter table child add foreign key (parent_id) references parent on update cascade'],
  ])('whose cascades %s are accepted', async (_, statements) => {
    expect(await entryNames(await tables(statements))).toHaveLength(2);
  });

  // VAL-52 near miss: it is purging that a cascade follows
  test('that cascade are accepted where no category may purge', async () => {
    const statement = 'alter table child add foreign key (parent_id) references parent on delete cascade';
    expect(await entryNames(await tables(statement, 'exempt'))).toHaveLength(2);
  });

  // acceptance 260, VAL-11
  test('in a circle are refused, with what else is wrong', async () => {
    const host = await tables(
      `alter table child add foreign key (parent_id) references parent;
       alter table parent add child_id uuid references child; drop table ${OURS}.walk_cursor`,
    );
    expect(await problemsOf(host)).toEqual(
      about(
        'Retained entities form a cycle of foreign keys (Child < Parent < Child)',
        `Table ${OURS}."walk_cursor" does not exist`,
      ),
    );
  });

  // VAL-11 near miss
  test('from a table to itself are no circle', async () => {
    const host = await tables('alter table child add foreign key (parent_id) references child');
    expect(await entryNames(host)).toHaveLength(2);
  });

  // READY-09, READY-09 near miss
  test('without an index are accepted with a warning, and with one in silence', async () => {
    const statement = 'alter table child add constraint child_fk foreign key (parent_id) references parent';
    const bare = await tables(statement);
    await bare.readiness.context();
    expect(bare.logs).toEqual([expect.stringContaining('public.child.child_fk has no index')]);
    const indexed = await tables(`${statement}; create index on child (parent_id)`);
    await indexed.readiness.context();
    expect(indexed.logs).toEqual([]);
  });
});

describe('the host', () => {
  // design 4.1
  test.each([
    [1, 2, 3],
    [4, 5, 6],
  ])('of parallelism %i needs more than %i connections: %i will do', async (parallelism, tooFew, enough) => {
    const options = { ...notesHost.options, parallelism };
    const small = await open({ options, poolSize: tooFew });
    expect(await problemsOf(small)).toEqual(about(`The connection pool holds ${tooFew}; wanted: at least ${enough}`));
    const large = await open({ options, poolSize: enough, url: small.url });
    await expect(large.readiness.context()).resolves.toBeDefined();
  });

  // acceptance 176
  test('without cohortEntities in its model is told to add them', async () => {
    const { url } = await open();
    const orm = await MikroORM.init({ clientUrl: url, entities: [SessionNote], pool: { max: 10 } });
    try {
      expect(await problemsOf({ readiness: readinessOf(orm, notesHost.options) })).toEqual(
        about("Cohort's tables are not in the ORM model as a whole (0 of 10, schemas: none)"),
      );
    } finally {
      await orm.close();
    }
  });

  // READY-03 near miss
  test('on a driver of its own that extends the one of PostgreSQL is accepted', async () => {
    class TracedDriver extends PostgreSqlDriver {}
    const { url } = await open();
    const orm = await MikroORM.init({
      clientUrl: url,
      driver: TracedDriver,
      entities: [...notesHost.entities, ...cohortEntities({ schema: SCHEMA })],
      pool: { max: 10 },
    });
    try {
      await expect(readinessOf(orm, notesHost.options).context()).resolves.toBeDefined();
    } finally {
      await orm.close();
    }
  });

  // READY-02, READY-03, acceptance 188
  test('on another database is refused, naming the driver', async () => {
    class SqliteDriver {}
    const orm = { driver: new SqliteDriver() } as unknown as MikroORM;
    expect(await problemsOf({ readiness: readinessOf(orm, { rules: null as never }) })).toEqual(
      about('The MikroORM driver is SqliteDriver; Cohort works on PostgreSQL'),
    );
  });

  // VAL-12
  test.each([null, undefined, {}, 'rules'])('with %p for options is refused with every problem', async (options) => {
    const host = await open({ options: options as never });
    expect(await problemsOf(host)).toContainEqual(
      'rules is undefined; wanted: a RetentionRuleProvider or a table of category to rule.',
    );
  });
});

/** Every operation of every port, by its name. */
function operationsOf(host: Host): [name: string, call: () => Promise<unknown>][] {
  const id = NOTE_ID;
  return Object.entries({
    preview: () => host.preview.preview(ACME, NOW),
    sweep: () => host.sweep.sweep(ACME, NOW),
    dryRun: () => host.sweep.sweep(ACME, NOW, { dryRun: true }),
    sweepMany: () => host.sweep.sweepMany([ACME, TENANTLESS], NOW).next(),
    create: () => host.holds.create(holdOn(SessionNote, id)),
    createMany: () => host.holds.create([holdOn(SessionNote, id)]),
    release: () => host.holds.release(id),
    list: () => host.holds.list({ activeAsOf: NOW }),
    hasActive: () => host.holds.hasActive({ entity: SessionNote, recordId: id, tenant: ACME }),
    runs: () => host.ledger.runs(),
    run: () => host.ledger.run(id),
    rowDetails: () => host.ledger.rowDetails(id),
  });
}

function readinessOf(orm: MikroORM, options: HostOptions['options']): Readiness {
  const logger = { warn: () => undefined, error: () => undefined };
  return new Readiness({ orm, options, logger, newId: () => NOTE_ID, findInstances: () => [] });
}

/** Every table of the database with its columns and the number of its rows. */
async function snapshot(host: Host): Promise<unknown> {
  const tables = await host.query<{ name: string; columns: string }>(
    `select format('%I.%I', table_schema, table_name) as name, string_agg(column_name, ',' order by column_name) as columns
     from information_schema.columns where table_schema not in ('pg_catalog', 'information_schema') group by 1 order by 1`,
  );
  return Promise.all(tables.map(async (table) => ({ ...table, rows: await countRows(host, table.name) })));
}
