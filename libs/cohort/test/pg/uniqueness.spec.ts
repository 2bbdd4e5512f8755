import { describe, expect, test } from '@jest/globals';
import { type AnonymiseFactory, type CohortConfigurationError, Strategy } from 'nestjs-cohort';
import { type Host, openHost } from '../support/host.js';
import { type Model, anonymisable, model, softDeletable, text, textOrNull } from '../support/models.js';
import { ACME, NOW } from '../support/notes.js';
import { countRows } from '../support/seed.js';

class Constant implements AnonymiseFactory {
  create = () => 'someone';
}
class PerRow implements AnonymiseFactory {
  readonly mode = 'perRow';
  #next = 0;
  create = () => `someone ${this.#next++}`;
}
const LITERAL = ['fixedLiteral', '[gone]'] as const;

const GENERATED =
  'alter table note add column key text generated always as (lower(id::text)) stored; create unique index one_key on note (key)';

/** A note that is anonymised, on a table with an index of the test's. */
async function open(how: unknown, ddl: string, more: Model = {}): Promise<Host> {
  const note = anonymisable({
    properties: { email: textOrNull, name: textOrNull, ...more.properties },
    retain: { anonymise: { email: how } },
  });
  const host = await openHost({
    entities: [note],
    options: { rules: { notes: { period: 'P30D', strategy: Strategy.Anonymise } } },
    factories: [new Constant(), new PerRow()],
  });
  await host.query(ddl);
  return host;
}
const problemsOf = (host: Host): Promise<readonly string[]> =>
  host.readiness.context().then(
    () => [],
    (error: CohortConfigurationError) => error.problems,
  );

// field case C27
describe('a value that many rows would get is refused where they must differ', () => {
  test.each<[string, unknown, string]>([
    ['a column', LITERAL, 'create unique index one_email on note (email)'],
    ['an empty text', 'emptyString', 'create unique index one_email on note (email)'],
    ['a static factory', Constant, 'create unique index one_email on note (email)'],
    [
      'a constraint over several columns',
      LITERAL,
      'alter table note add constraint one_email unique (tenant_id, email)',
    ],
    ['an expression', LITERAL, 'create unique index one_email on note (tenant_id, lower(email))'],
    ['some of the rows', LITERAL, `create unique index one_email on note (email) where name is not null`],
    [
      'rows that are anonymised, or others',
      LITERAL,
      `create unique index one_email on note (email) where anonymised_at is null or name is null`,
    ],
    ['rows with an id, which all have', LITERAL, `create unique index one_email on note (email) where id is not null`],
    [
      'rows that are anonymised, said the other way round',
      LITERAL,
      'create unique index one_email on note (email) where (anonymised_at is null) = false',
    ],
    [
      'rows that are anonymised, by a negation',
      LITERAL,
      'create unique index one_email on note (email) where not (anonymised_at is null and name is null)',
    ],
    [
      'a generated column of it',
      LITERAL,
      'alter table note add column key text generated always as (lower(email)) stored; create unique index one_email on note (key)',
    ],
    [
      'one partition alone',
      LITERAL,
      `drop table note; create table note(id uuid primary key, tenant_id text not null, created_at timestamptz not null, email text, name text,
         anonymised_at timestamptz) partition by hash (id);
       create table note_1 partition of note for values with (modulus 1, remainder 0); create unique index one_email on note_1 (email)`,
    ],
    ['rows that a constraint excludes', LITERAL, 'alter table note add constraint one_email exclude (email with =)'],
  ])('by %s', async (_, how, ddl) => {
    const host = await open(how, ddl);
    expect(await problemsOf(host)).toEqual([
      "Note: 'email' would get one value in many rows, which one_email forbids; anonymise it to NULL, with a factory of mode 'perRow', or make that index one WHERE anonymised_at IS NULL.",
    ]);
  });

  test('by an index that was not built to its end, since the database checks new rows by it', async () => {
    const host = await open(LITERAL, 'create unique index one_email on note (email)');
    await host.query(`update pg_index set indisvalid = false where indexrelid = 'one_email'::regclass`);
    expect(await problemsOf(host)).toHaveLength(1);
  });

  test('but not by one that broke off before that', async () => {
    const host = await open(LITERAL, 'select 1');
    await host.query(
      `insert into note(id, tenant_id, created_at, email) select gen_random_uuid(), 'acme', '2020-01-01', 'a' from generate_series(1, 2)`,
    );
    await expect(host.query('create unique index concurrently one_email on note (email)')).rejects.toThrow(
      'could not create',
    );
    await host.query('update note set email = id::text');
    expect(await problemsOf(host)).toEqual([]);
  });

  test('by NULL, where the index takes NULLs for equal', async () => {
    const host = await open('null', 'select 1');
    const [{ version } = { version: 0 }] = await host.query<{ version: number }>(
      `select current_setting('server_version_num')::int as version`,
    );
    if (version < 150_000) return;
    await host.query('create unique index one_email on note (email) nulls not distinct');
    expect(await problemsOf(host)).toHaveLength(1);
  });

  // Each of these is a way out that the refusal names, or never was a collision: all fifty rows go, twice.
  test.each<[string, unknown, string]>([
    ['NULL', 'null', 'create unique index one_email on note (tenant_id, email)'],
    ['a factory for every row', PerRow, 'create unique index one_email on note (tenant_id, email)'],
    [
      'an index without the anonymised',
      LITERAL,
      'create unique index one_email on note (tenant_id, email) where anonymised_at is null',
    ],
    [
      'an index without the anonymised and others',
      LITERAL,
      'create unique index one_email on note (email) where anonymised_at is null and name is null',
    ],
    [
      'an index without the anonymised, and some more',
      LITERAL,
      `create unique index one_email on note (email) where name is null and anonymised_at is null and tenant_id <> ''`,
    ],
    ['an index with the id in it', LITERAL, 'create unique index one_email on note (email, id)'],
    ['an index of other columns', LITERAL, 'create unique index one_name on note (name)'],
    ['an index of a generated column of others', LITERAL, GENERATED],
    ['an index that is not unique', LITERAL, 'create index emails on note (email)'],
  ])('but not by %s', async (_, how, ddl) => {
    const host = await open(how, ddl);
    for (let round = 1; round <= 2; round++) {
      await host.query(
        `insert into note(id, tenant_id, created_at, email, name)
         select gen_random_uuid(), 'acme', '2020-01-01', $1 || i, null from generate_series(1, 50) as i`,
        [`round${round}-`],
      );
      expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded', counts: [{ affected: 50 }] });
    }
    expect(await countRows(host, 'note', 'anonymised_at is not null')).toBe(100);
  });
});

// field case C33
describe('unique values that soft-deleted rows keep', () => {
  const warningsFor = async (ddl: string, strategy: Strategy = Strategy.SoftDelete) => {
    const host = await openHost({
      entities: [softDeletable({ properties: { email: text } })],
      options: { rules: { notes: { period: 'P30D', strategy } } },
    });
    await host.query(ddl);
    await host.readiness.context();
    return host.logs;
  };

  test('are warned of at start, with the index that would let them go', async () => {
    expect(await warningsFor('create unique index one_email on note (tenant_id, email)')).toEqual([
      'Note: soft-deleted rows keep their values of unique index one_email, so that nobody can use them again; make it one WHERE is_deleted = false.',
    ]);
  });

  test.each<[string, string, Strategy]>([
    ['that index', 'create unique index one_email on note (tenant_id, email) where is_deleted = false', 'softDelete'],
    ['one by the date', 'create unique index one_email on note (email) where deleted_at is null', 'softDelete'],
    ['one with the date in it', 'create unique index one_email on note (email, deleted_at)', 'softDelete'],
    ['the primary key', 'select 1', 'softDelete'],
    ['the id in its key', 'create unique index one_email on note (email, id)', 'softDelete'],
    ['nothing being soft-deleted', 'create unique index one_email on note (email)', 'purge'],
  ])('are not warned of with %s', async (_, ddl, strategy) => {
    expect(await warningsFor(ddl, strategy)).toEqual([]);
  });

  test('where only a date says that a row is deleted, the warning names the date', async () => {
    const host = await openHost({
      entities: [
        model({ properties: { deletedAt: { type: 'Date', columnType: 'timestamptz', nullable: true }, email: text } }),
      ],
      options: { rules: { notes: { period: 'P30D', strategy: Strategy.SoftDelete } } },
    });
    await host.query('create unique index one_email on note (email)');
    await host.readiness.context();
    expect(host.logs).toEqual([expect.stringContaining('make it one WHERE deleted_at IS NULL.')]);
  });
});

test('one value is no collision where another anonymised column of the index keeps the rows apart', async () => {
  const note = anonymisable({
    properties: { email: textOrNull, name: textOrNull },
    retain: { anonymise: { email: LITERAL, name: 'null' } },
  });
  const rules = { notes: { period: 'P30D', strategy: Strategy.Anonymise } };
  const host = await openHost({ entities: [note], options: { rules } });
  await host.query('create unique index one_name on note (email, name)');
  await host.query(
    `insert into note(id, tenant_id, created_at, email, name)
     select gen_random_uuid(), 'acme', '2020-01-01', i::text, i::text from generate_series(1, 5) as i`,
  );
  expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded', counts: [{ affected: 5 }] });
});

test('an index of one partition alone keeps no record id unique', async () => {
  const host = await open('null', 'select 1');
  await host.query(`drop table note; create table note(id uuid not null, tenant_id text not null, created_at timestamptz not null, email text,
      name text, anonymised_at timestamptz) partition by list (tenant_id);
    create table note_1 partition of note for values in ('acme'); create unique index one_id on note_1 (id)`);
  expect(await problemsOf(host)).toEqual([
    expect.stringContaining('nothing in the database keeps record id id unique'),
  ]);
});
