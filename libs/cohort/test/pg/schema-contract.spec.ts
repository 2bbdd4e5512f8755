import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { sql } from 'kysely';
import { CohortConfigurationError } from 'nestjs-cohort';
import { COHORT_TABLES } from '../../src/schema/cohort-entities.js';
import { selectInstalled } from '../../src/sql/own-tables.js';
import { inTransaction } from '../../src/sql/transaction.js';
import { checkContract } from '../../src/startup/schema-contract.js';
import { clerkUrl } from '../support/clerk.js';
import { type Host, openHost, startHost } from '../support/host.js';
import { ACME, NOW, notesHost } from '../support/notes.js';
import { OURS, SCHEMA } from '../support/schema.js';
import { addNotes, countRows } from '../support/seed.js';

/** Broken and mended again, one change at a time. */
let host: Host;
beforeAll(async () => {
  host = await startHost(notesHost);
  await host.query('create schema spare');
});
afterAll(() => host.close());

const problemsOf = async (on: Host): Promise<readonly string[]> => {
  const fresh = await startHost({ ...notesHost, url: on.url, poolSize: 4 });
  try {
    await fresh.readiness.context();
    return [];
  } catch (error) {
    if (!(error instanceof CohortConfigurationError)) throw error;
    return error.problems;
  } finally {
    await fresh.close();
  }
};
/** Problems while `change` is in force, and that there are none before and after. */
async function problemsAfter(change: string, undo: string): Promise<readonly string[]> {
  const on = `set search_path = ${OURS}, public;`;
  await host.query(`${on} ${change}; reset search_path`);
  try {
    return await problemsOf(host);
  } finally {
    await host.query(`${on} ${undo}; reset search_path`);
    expect(await problemsOf(host)).toEqual([]);
  }
}
/** What a transaction that is rolled back would make the contract say: of changes that no statement undoes. */
async function problemsWithin(change: string): Promise<readonly string[]> {
  return inTransaction(
    host.orm,
    { statementTimeoutMs: 0, lockTimeoutMs: 0, idleTimeoutMs: 0 },
    async (tx): Promise<never> => {
      await sql.raw(change).execute(tx);
      const installed = await selectInstalled(tx, SCHEMA, Object.values(COHORT_TABLES));
      throw new Undone(checkContract([...host.orm.getMetadata().getAll().values()], SCHEMA, installed, false).problems);
    },
  ).catch((error: unknown) => {
    if (error instanceof Undone) return error.problems;
    throw error;
  });
}
class Undone extends Error {
  constructor(readonly problems: readonly string[]) {
    super('undone');
  }
}
const at = (table: string, problem: string) => `Table ${OURS}."${table}": ${problem}; apply the pending migrations.`;
const RUN_KEY = 'sweep_run_entity_summary_sweep_id_foreign';
const DROP_HANDLER_UNIQUE = 'alter table sweep_row_handler_status drop constraint sweep_row_handler_status_handler_idx';
const HANDLER_UNIQUE = 'sweep_row_handler_status_handler_idx unique (sweep_id, row_detail_id, handler_type)';
const STATUS_KEY = 'foreign key (sweep_id, row_detail_id) to sweep_run_row_detail (sweep_id, id)';

// READY-05 near miss, READY-10 near miss, acceptance 158
test('as the migrations make it, it is accepted', async () => {
  expect(await problemsOf(host)).toEqual([]);
});

interface Case {
  readonly title: string;
  readonly change: string;
  readonly undo: string;
  readonly problem: string;
}

const dropAndAddCheck = (table: string, name: string, expression: string, suffix = '') => ({
  change: `alter table ${table} drop constraint ${name}${suffix}`,
  undo: `alter table ${table} drop constraint if exists ${name}; alter table ${table} add constraint ${name} check (${expression})`,
});

const broken: readonly Case[] = [
  {
    title: 'a primary key',
    change: 'alter table retention_holds drop constraint retention_holds_pkey',
    undo: 'alter table retention_holds add primary key (hold_id)',
    problem: at('retention_holds', 'has no primary key (hold_id) that is checked at once'),
  },
  {
    title: 'a primary key in its order',
    change: 'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (lane, pass_id)',
    undo: 'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (pass_id, lane)',
    problem: at('sweep_lane', 'has no primary key (pass_id, lane) that is checked at once'),
  },
  // READY-08
  {
    title: 'a primary key that is not deferrable',
    change:
      'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (pass_id, lane) deferrable initially deferred',
    undo: 'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (pass_id, lane)',
    problem: at('sweep_lane', 'has no primary key (pass_id, lane) that is checked at once'),
  },
  {
    title: 'a unique index',
    change: 'drop index sweep_run_row_detail_handled_idx',
    undo: 'create unique index sweep_run_row_detail_handled_idx on sweep_run_row_detail (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled',
    problem: at(
      'sweep_run_row_detail',
      'has no unique index (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled that is checked at once',
    ),
  },
  {
    title: 'a unique index of the same predicate',
    change:
      'drop index sweep_run_row_detail_handled_idx; create unique index sweep_run_row_detail_handled_idx on sweep_run_row_detail (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where not handled',
    undo: 'drop index sweep_run_row_detail_handled_idx; create unique index sweep_run_row_detail_handled_idx on sweep_run_row_detail (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled',
    problem: at(
      'sweep_run_row_detail',
      'has no unique index (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled that is checked at once',
    ),
  },
  {
    title: 'a unique index that is valid',
    change: `update pg_index set indisvalid = false where indexrelid = 'sweep_run_row_detail_handled_idx'::regclass`,
    undo: `update pg_index set indisvalid = true where indexrelid = 'sweep_run_row_detail_handled_idx'::regclass`,
    problem: at(
      'sweep_run_row_detail',
      'has no unique index (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled that is checked at once',
    ),
  },
  {
    title: 'a unique index that is ready',
    change: `update pg_index set indisready = false where indexrelid = 'sweep_run_row_detail_handled_idx'::regclass`,
    undo: `update pg_index set indisready = true where indexrelid = 'sweep_run_row_detail_handled_idx'::regclass`,
    problem: at(
      'sweep_run_row_detail',
      'has no unique index (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled that is checked at once',
    ),
  },
  // READY-08
  {
    title: 'a unique constraint that is not deferrable',
    change: `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE} deferrable`,
    undo: `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE}`,
    problem: at(
      'sweep_row_handler_status',
      'has no unique index (sweep_id, row_detail_id, handler_type) that is checked at once',
    ),
  },
  // READY-07
  {
    title: 'a unique constraint of just its columns',
    change: `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE.replace('handler_type', 'handler_type, attempt')}`,
    undo: `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE}`,
    problem: at(
      'sweep_row_handler_status',
      'has no unique index (sweep_id, row_detail_id, handler_type) that is checked at once',
    ),
  },
  {
    title: 'a column',
    change: 'alter table sweep_run rename actor to author',
    undo: 'alter table sweep_run rename author to actor',
    problem: at('sweep_run', 'has no column actor'),
  },
  {
    title: 'a type',
    change: 'alter table sweep_run alter total_affected type int',
    undo: 'alter table sweep_run alter total_affected type bigint',
    problem: at('sweep_run', 'column total_affected is integer; wanted: bigint'),
  },
  // READY-06
  {
    title: 'a text without a limit',
    change: 'alter table sweep_run alter error type varchar(200)',
    undo: 'alter table sweep_run alter error type text',
    problem: at('sweep_run', 'column error is character varying(200); wanted: text'),
  },
  {
    title: 'a column that takes NULL',
    change: 'alter table retention_holds alter tenant_id set not null',
    undo: 'alter table retention_holds alter tenant_id drop not null',
    problem: at('retention_holds', 'column tenant_id is NOT NULL; wanted: the opposite'),
  },
  {
    title: 'a column that takes no NULL',
    change: 'alter table retention_holds alter reason drop not null',
    undo: 'alter table retention_holds alter reason set not null',
    problem: at('retention_holds', 'column reason takes NULL; wanted: the opposite'),
  },
  {
    title: 'a numbered id',
    change: 'alter table sweep_progress alter id drop default',
    undo: `alter table sweep_progress alter id set default nextval('sweep_progress_id_seq')`,
    problem: at('sweep_progress', 'column id is not numbered by an identity or a sequence'),
  },
  {
    title: 'an id that is numbered by a sequence',
    change: 'alter table sweep_progress alter id set default 7',
    undo: `alter table sweep_progress alter id set default nextval('sweep_progress_id_seq')`,
    problem: at('sweep_progress', 'column id is not numbered by an identity or a sequence'),
  },
  {
    title: 'a column that can be written',
    change: `alter table sweep_run drop actor, add actor text generated always as ('x') stored`,
    undo: 'alter table sweep_run drop actor, add actor text',
    problem: at('sweep_run', 'column actor is generated and cannot be written'),
  },
  {
    title: 'a check',
    ...dropAndAddCheck('sweep_run', 'sweep_run_total_affected_check', 'total_affected >= 0'),
    problem: at('sweep_run', 'has no check sweep_run_total_affected_check'),
  },
  {
    title: 'a check that holds for all rows',
    ...dropAndAddCheck(
      'sweep_run',
      'sweep_run_total_affected_check',
      'total_affected >= 0',
      '; alter table sweep_run add constraint sweep_run_total_affected_check check (total_affected >= 0) not valid',
    ),
    problem: at('sweep_run', 'check sweep_run_total_affected_check is not validated'),
  },
  {
    title: 'a foreign key',
    change: `alter table sweep_run_entity_summary drop constraint ${RUN_KEY}`,
    undo: `alter table sweep_run_entity_summary add constraint ${RUN_KEY} foreign key (sweep_id) references sweep_run (sweep_id) on delete restrict`,
    problem: at('sweep_run_entity_summary', 'has no foreign key (sweep_id) to sweep_run (sweep_id)'),
  },
  {
    title: 'a foreign key that restricts',
    change: `alter table sweep_run_entity_summary drop constraint ${RUN_KEY}, add constraint ${RUN_KEY} foreign key (sweep_id) references sweep_run (sweep_id) on delete cascade`,
    undo: `alter table sweep_run_entity_summary drop constraint ${RUN_KEY}, add constraint ${RUN_KEY} foreign key (sweep_id) references sweep_run (sweep_id) on delete restrict`,
    problem: at(
      'sweep_run_entity_summary',
      'foreign key (sweep_id) to sweep_run (sweep_id) is ON DELETE CASCADE; wanted: RESTRICT',
    ),
  },
  {
    title: 'the foreign key of a handler',
    change: `alter table sweep_row_handler_status drop constraint sweep_row_handler_status_sweep_id_row_detail_id_foreign`,
    undo: `alter table sweep_row_handler_status add constraint sweep_row_handler_status_sweep_id_row_detail_id_foreign foreign key (sweep_id, row_detail_id) references sweep_run_row_detail (sweep_id, id) on delete cascade`,
    problem: at('sweep_row_handler_status', `has no ${STATUS_KEY}`),
  },
  {
    title: 'a foreign key that cascades',
    change: `alter table sweep_row_handler_status drop constraint sweep_row_handler_status_sweep_id_row_detail_id_foreign, add constraint k foreign key (sweep_id, row_detail_id) references sweep_run_row_detail (sweep_id, id)`,
    undo: `alter table sweep_row_handler_status drop constraint k, add constraint sweep_row_handler_status_sweep_id_row_detail_id_foreign foreign key (sweep_id, row_detail_id) references sweep_run_row_detail (sweep_id, id) on delete cascade`,
    problem: at('sweep_row_handler_status', `${STATUS_KEY} is ON DELETE NO ACTION; wanted: CASCADE`),
  },
  {
    title: 'a foreign key that holds for all rows',
    change: `alter table sweep_run_entity_summary drop constraint ${RUN_KEY}, add constraint ${RUN_KEY} foreign key (sweep_id) references sweep_run (sweep_id) on delete restrict not valid`,
    undo: `alter table sweep_run_entity_summary validate constraint ${RUN_KEY}`,
    problem: at('sweep_run_entity_summary', 'foreign key (sweep_id) to sweep_run (sweep_id) is not validated'),
  },
  {
    title: 'a foreign key to its own table, not to one of that name elsewhere',
    change: `create table spare.sweep_run (like sweep_run including indexes); alter table sweep_run_entity_summary drop constraint ${RUN_KEY}, add constraint ${RUN_KEY} foreign key (sweep_id) references spare.sweep_run (sweep_id) on delete restrict`,
    undo: `alter table sweep_run_entity_summary drop constraint ${RUN_KEY}, add constraint ${RUN_KEY} foreign key (sweep_id) references sweep_run (sweep_id) on delete restrict; drop table spare.sweep_run`,
    problem: at('sweep_run_entity_summary', 'has no foreign key (sweep_id) to sweep_run (sweep_id)'),
  },
  {
    title: 'only columns that our inserts can leave out',
    change: 'alter table sweep_pass add remark text not null',
    undo: 'alter table sweep_pass drop remark',
    problem: at('sweep_pass', "column remark is not Cohort's and NOT NULL without a default"),
  },
];

describe('without what it needs it is refused, by name:', () => {
  // READY-05, acceptance 159, 161, 164-169, 171, 172
  test.each(broken.map((each) => [each.title, each] as const))('%s', async (_, { change, undo, problem }) => {
    expect(await problemsAfter(change, undo)).toEqual([problem]);
  });

  // acceptance 160, READY-10
  test('all that is missing is in one error', async () => {
    expect(
      await problemsAfter(
        'alter table sweep_run rename actor to author; alter table retention_holds alter reason drop not null; alter table walk_cursor rename to walked',
        'alter table sweep_run rename author to actor; alter table retention_holds alter reason set not null; alter table walked rename to walk_cursor',
      ),
    ).toEqual([
      at('retention_holds', 'column reason takes NULL; wanted: the opposite'),
      at('sweep_run', 'has no column actor'),
      `Table ${OURS}."walk_cursor" does not exist; apply the pending migrations.`,
    ]);
  });

  test.each<[string, (table: string, column: string) => string, (column: string) => string]>([
    [
      'renamed',
      (table, column) => `alter table ${table} rename ${column} to gone`,
      (column) => `has no column ${column};`,
    ],
    [
      'dropped',
      (table, column) => `alter table ${table} drop ${column} cascade`,
      (column) => `has no column ${column};`,
    ],
    [
      'made anew of another type',
      (table, column) => `alter table ${table} drop ${column} cascade; alter table ${table} add ${column} point`,
      (column) => `column ${column} is point; wanted: `,
    ],
  ])('any column of any table, %s', async (_, change, problem) => {
    const columns = await host.query<{ table: string; name: string }>(
      `select c.table_name as "table", c.column_name as name from information_schema.columns as c
       where c.table_schema = '${SCHEMA}' order by 1, c.ordinal_position`,
    );
    expect(columns.length).toBeGreaterThan(80);
    for (const { table, name } of columns) {
      expect(await problemsWithin(change(`${OURS}.${table}`, name))).toContainEqual(
        expect.stringContaining(`Table ${OURS}."${table}": ${problem(name)}`),
      );
    }
    expect(await problemsWithin('select 1')).toEqual([]);
  });
});

// acceptance 170, 173
describe('what is not needed is not asked for:', () => {
  test.each([
    // READY-06 near miss
    [
      'a varchar without a limit',
      'alter table sweep_run alter error type varchar',
      'alter table sweep_run alter error type text',
    ],
    [
      'an identity in place of a sequence',
      'alter table sweep_progress alter id drop default; alter table sweep_progress alter id add generated always as identity',
      `alter table sweep_progress alter id drop identity; alter table sweep_progress alter id set default nextval('sweep_progress_id_seq')`,
    ],
    // READY-07 near miss
    [
      'more columns in an index',
      'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (pass_id, lane) include (status)',
      'alter table sweep_lane drop constraint sweep_lane_pkey, add primary key (pass_id, lane)',
    ],
    // READY-07 near miss
    [
      'more columns in a unique constraint',
      `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE} include (state)`,
      `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE}`,
    ],
    // READY-08 near miss
    [
      'a unique index in place of a constraint, beside a deferrable one',
      `${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE} deferrable; create unique index at_once on sweep_row_handler_status (sweep_id, row_detail_id, handler_type)`,
      `drop index at_once; ${DROP_HANDLER_UNIQUE}, add constraint ${HANDLER_UNIQUE}`,
    ],
    [
      'a column of the host that may be left out',
      `alter table sweep_run add remark text, add origin text not null default 'here'`,
      'alter table sweep_run drop remark, drop origin',
    ],
    [
      'a check of the same name in other words',
      'alter table sweep_run drop constraint sweep_run_total_affected_check; alter table sweep_run add constraint sweep_run_total_affected_check check (not total_affected < 0)',
      'alter table sweep_run drop constraint sweep_run_total_affected_check; alter table sweep_run add constraint sweep_run_total_affected_check check (total_affected >= 0)',
    ],
    [
      'an index that only makes it fast',
      'drop index retention_holds_record_idx',
      'create index retention_holds_record_idx on retention_holds (retention_entity_id, record_id)',
    ],
    [
      'the usual style of intervals',
      `do $$ begin execute format('alter database %I set intervalstyle = iso_8601', current_database()); end $$`,
      `do $$ begin execute format('alter database %I reset intervalstyle', current_database()); end $$`,
    ],
  ])('%s', async (_, change, undo) => {
    expect(await problemsAfter(change, undo)).toEqual([]);
  });

  // READY-09, READY-09 near miss
  test('an index that only makes it fast is missed in the log, unless another one leads with its columns', async () => {
    await host.query(`drop index ${OURS}.retention_holds_record_idx`);
    const slow = await openHost({ ...notesHost, url: host.url });
    await slow.readiness.context();
    expect(slow.logs).toContain(
      `Table ${OURS}."retention_holds" has no index that leads with (retention_entity_id, record_id); it is slow without.`,
    );
    await host.query(
      `create index some_holds on ${OURS}.retention_holds (retention_entity_id, record_id) where removed_at is not null`,
    );
    const partly = await openHost({ ...notesHost, url: host.url });
    await partly.readiness.context();
    expect(partly.logs).toContainEqual(expect.stringContaining('retention_holds" has no index'));
    await host.query(
      `create unique index retention_holds_record_idx on ${OURS}.retention_holds (retention_entity_id, record_id, hold_id)`,
    );
    const fast = await openHost({ ...notesHost, url: host.url });
    await fast.readiness.context();
    expect(fast.logs.filter((line) => line.includes('retention_holds'))).toEqual([]);
  });
});

describe('a role', () => {
  const FOREIGN_SEQUENCE = `create schema spare; create sequence spare.numbers;
    alter table ${OURS}.sweep_progress alter id set default nextval('spare.numbers')`;
  const asClerk = async (revoke: string) => {
    const owner = await openHost(notesHost);
    const url = await clerkUrl(owner, 'session_notes', 'case_contacts', 'tickets', 'signals');
    await owner.query(revoke.replaceAll('CLERK', new URL(url).username));
    return problemsOf({ ...owner, url });
  };

  test('that may do what Cohort does is enough', async () => {
    expect(await asClerk('select 1')).toEqual([]);
  });

  test('that may do it column by column is enough, and a sweep needs no more', async () => {
    const owner = await openHost(notesHost);
    const url = await clerkUrl(owner, 'session_notes', 'case_contacts', 'tickets', 'signals');
    const clerk = new URL(url).username;
    for (const table of Object.values(COHORT_TABLES)) {
      const [{ columns } = { columns: '' }] = await owner.query<{ columns: string }>(
        `select string_agg(quote_ident(attname), ', ') as columns from pg_attribute where attrelid = '${OURS}.${table}'::regclass and attnum > 0`,
      );
      await owner.query(`revoke select, insert, update on ${OURS}.${table} from ${clerk};
        grant select (${columns}), insert (${columns}), update (${columns}) on ${OURS}.${table} to ${clerk}`);
    }
    const host = await openHost({ ...notesHost, url });
    await addNotes(owner, [{}]);
    expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded' });
    expect(await countRows(owner, 'session_notes')).toBe(0);
  });

  test('that may draw from the sequence of an id, but does not own it, is enough', async () => {
    expect(await asClerk(`${FOREIGN_SEQUENCE}; grant usage on spare.numbers to CLERK`)).toEqual([]);
    expect(await asClerk(`${FOREIGN_SEQUENCE}; grant update on spare.numbers to CLERK`)).toEqual([]);
  });

  test('needs no grant on a sequence that an identity draws from, or that no default names', async () => {
    const numbers = `${OURS}.sweep_progress_id_seq`;
    expect(
      await asClerk(
        `alter table ${OURS}.sweep_progress alter id drop default; alter table ${OURS}.sweep_progress alter id add generated always as identity (sequence name ${OURS}.own);
         revoke all on ${OURS}.own, ${numbers} from CLERK`,
      ),
    ).toEqual([]);
    expect(
      await asClerk(`${FOREIGN_SEQUENCE}; grant usage on spare.numbers to CLERK; revoke all on ${numbers} from CLERK`),
    ).toEqual([]);
  });

  test.each([
    [
      'read holds',
      `revoke select on ${OURS}.retention_holds from CLERK`,
      `Table ${OURS}."retention_holds": this role may not select; grant it.`,
    ],
    [
      'read every column of holds',
      `revoke select on ${OURS}.retention_holds from CLERK; grant select (hold_id, record_id) on ${OURS}.retention_holds to CLERK`,
      `Table ${OURS}."retention_holds": this role may not select; grant it.`,
    ],
    [
      'fold progress',
      `revoke insert, delete on ${OURS}.sweep_progress from CLERK`,
      `Table ${OURS}."sweep_progress": this role may not insert, delete; grant it.`,
    ],
    [
      'number progress',
      `revoke all on ${OURS}.sweep_progress_id_seq from CLERK`,
      `Table ${OURS}."sweep_progress": this role may not use the sequence of id; grant it USAGE.`,
    ],
    [
      'number progress by a sequence that no column owns',
      FOREIGN_SEQUENCE,
      `Table ${OURS}."sweep_progress": this role may not use the sequence of id; grant it USAGE.`,
    ],
  ])('that may not %s is refused', async (_, revoke, problem) => {
    expect(await asClerk(revoke)).toEqual([problem]);
  });
});

// READY-11, READY-11 near miss, READY-13, READY-13 near miss, acceptance 92, 190, 192
test('concurrent first callers share one check, its failure is forgotten, and its success is not', async () => {
  const repaired = await openHost({ ...notesHost, url: host.url });
  await host.query(`alter table ${OURS}.sweep_run rename actor to author`);
  const failures = await Promise.allSettled([1, 2, 3].map(() => repaired.preview.preview(ACME, NOW)));
  expect(new Set(failures.map((each) => (each as PromiseRejectedResult).reason as unknown)).size).toBe(1);
  await host.query(`alter table ${OURS}.sweep_run rename author to actor`);
  const contexts = await Promise.all([repaired.readiness.context(), repaired.readiness.context()]);
  expect(contexts[0]).toBe(contexts[1]);
  await host.query(`alter table ${OURS}.sweep_run rename actor to author`);
  await expect(repaired.preview.preview(ACME, NOW)).resolves.toBeDefined();
  await host.query(`alter table ${OURS}.sweep_run rename author to actor`);
});

// READY-14, READY-14 near miss, acceptance 193, 194
test('the success of one host, or of one database, says nothing of another', async () => {
  await host.readiness.context();
  const other = await openHost(notesHost);
  await other.query(`alter table ${OURS}.sweep_run rename actor to author`);
  expect(await problemsOf(other)).toEqual([at('sweep_run', 'has no column actor')]);
  expect(await problemsOf(host)).toEqual([]);
});

// design 4.1
test('advisory locks are proved by many that start at once', async () => {
  const hosts = await Promise.all(Array.from({ length: 6 }, () => openHost({ ...notesHost, url: host.url })));
  await expect(Promise.all(hosts.map((each) => each.readiness.context()))).resolves.toHaveLength(6);
});
