import { describe, expect, test } from '@jest/globals';
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { selectDeadlockTimeout, selectForeignKeys, selectTables } from './catalog.js';
import { castText, selectColumns, selectUniqueIndexes } from './columns.js';
import { discardWork, lockDeadLetters, lockForRequeue, requeueWork, selectDeadLetters } from './dead-letters.js';
import { selectEntityRows } from './entity-rows.js';
import { type ForeignKey, lockPath } from './foreign-keys.js';
import {
  claimWork,
  clearPayloads,
  countUnsettled,
  expireClaims,
  insertSkippedRows,
  lockOldPayloads,
  scrubPayloads,
  selectQueueState,
  settleWork,
} from './handler-queue.js';
import {
  deleteEmptyPasses,
  deleteInactiveHolds,
  deleteRowDetails,
  deleteRuns,
  deleteSummaries,
  lockHandlerWork,
  lockPrunableRuns,
} from './history.js';
import { gateKey, lockKeys, recordKey, setLockTimeout, tryLockKey } from './hold-locks.js';
import {
  canonicalRecordId,
  insertHolds,
  lockTargets,
  releaseHold,
  selectHeld,
  selectHolds,
  selectUnknownScopes,
} from './holds.js';
import { beat, insertPass, lockAbandoned, selectAbandoned } from './lanes.js';
import { selectPassSummaries, selectRowDetails, selectRunSummaries, selectRuns } from './ledger-read.js';
import { appendProgress, deleteUnstartedSummaries, insertRuns, settlePass, writeSummaries } from './ledger.js';
import { type Mutation, mutateLocked, selectOriginals } from './mutate.js';
import {
  claimOccurrence,
  completeOccurrence,
  deleteOldOccurrences,
  insertFirstOccurrence,
  linkPass,
  renewLease,
  selectOutcomes,
  selectRunning,
  takeOverOccurrence,
} from './occurrences.js';
import { selectInstalled, selectOwnTables } from './own-tables.js';
import {
  type LockedRows,
  type Selection,
  countSelection,
  countTooYoung,
  isLocked,
  lockCandidates,
  selectLongestOverdue,
  stillEligible,
} from './selection.js';
import { type Executor, selectNow } from './transaction.js';
import { notifyWaiting } from './wake.js';

const column = (name: string, type: string, nullable = false) => ({
  property: name,
  name,
  type,
  cast: `pg_catalog.${type}`,
  nullable,
});

const NOTE: RetentionEntry = {
  entityClass: class {},
  entityName: 'Note',
  entityId: 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8',
  category: 'notes',
  auditRowDetail: 'inherit',
  schema: 'app',
  table: 'notes',
  partitioned: false,
  recordId: column('id', 'uuid'),
  uniqueAcrossPartitions: false,
  tenant: column('tenant_id', 'uuid'),
  anchor: column('created_at', 'timestamptz', true),
  softDeleteFlag: column('is_deleted', 'boolean'),
  deletedAt: column('deleted_at', 'timestamptz', true),
  anonymisedAt: column('anonymised_at', 'timestamptz', true),
  scrubs: [
    { column: column('email', 'varchar(40)', true), method: 'null', literal: undefined },
    { column: column('initials', 'char(2)'), method: 'fixedLiteral', literal: 'XX' },
  ],
  subjects: [],
};
const TENANTLESS_NOTE: RetentionEntry = { ...NOTE, tenant: null, anchor: column('seen_at', 'timestamptz') };

const key = (constraint: string, more: Partial<ForeignKey> = {}): ForeignKey => ({
  constraint,
  action: 'noAction',
  updateAction: 'noAction',
  childPlain: true,
  lockable: true,
  childSchema: 'app',
  childTable: 'replies',
  childColumns: ['note_id', 'tenant_id'],
  parentColumns: ['id', 'tenant_id'],
  parentSources: [],
  comparisons: ['operator(pg_catalog.=)', 'collate pg_catalog."C" operator(pg_catalog.=)'],
  readable: true,
  childIndexed: true,
  child: undefined,
  ...more,
});
const EXCLUSIONS = {
  refused: ['7'],
  keyPaths: [
    [key('replies_note_fk')],
    [
      key('notes_parent_fk', {
        childTable: 'notes',
        childColumns: ['parent_id'],
        parentColumns: ['id'],
        child: NOTE,
      }),
    ],
    [
      key('pages_note_fk', {
        action: 'cascade',
        childTable: 'pages',
        childColumns: ['note_id'],
        parentColumns: ['id'],
      }),
      key('links_page_fk', {
        action: 'setNull',
        childColumns: ['page_id'],
        parentColumns: ['id'],
        child: { ...NOTE, table: 'links' },
      }),
    ],
  ],
};
const NONE = { refused: [], keyPaths: [] };
const FENCE = { passId: 'p', lane: 1, token: 't' };
const LOCKED: LockedRows = { count: 1, tids: '{"(0,1)"}', oid: null, oids: '{1}', slices: [0], recordIds: [] };
const NOW = new Date('2026-06-30T00:00:00Z');
const CLAIM = { slot: NOW, dryRun: false, token: 't' };

const selectionOf = (entry: RetentionEntry, strategy: Selection['strategy'], rowDetail = false) => ({
  entry,
  strategy,
  cohortSchema: 'retention',
  slices: [{ tenantId: 'x', sweepId: 's', cutoff: NOW, rowDetail }],
});
const erasureOf = (entry: RetentionEntry, strategy: Selection['strategy']) => ({
  ...selectionOf(entry, strategy),
  subjects: [
    { column: column('email', 'text'), value: 'x', foldCase: false },
    { column: column('owner', 'text'), value: 'x', foldCase: true },
  ],
});
const PAYLOAD_AGES = { payloadRetentionMs: 1000, deadLetterPayloadRetentionMs: 0 };
const SCRUBS: Mutation['scrubs'] = [
  { column: NOTE.scrubs[0]!.column, all: null },
  { column: NOTE.scrubs[1]!.column, all: 'XX' },
];
const mutation = (entry: RetentionEntry, strategy: Selection['strategy'], rowDetail = false): Mutation => ({
  selection: selectionOf(entry, strategy, rowDetail),
  locked: LOCKED,
  scrubs: strategy === 'anonymise' ? SCRUBS : [],
  rows: [],
  exclusions: NONE,
  fence: FENCE,
  knownKeys: { tables: ['1'], keys: ['2'] },
  passId: 'p',
  now: NOW,
});

const HANDLED: Pick<Mutation, 'rows' | 'capture' | 'exclusions'> = {
  rows: [{ tid: '(0,1)', oid: '1' }],
  capture: { at: NOW, payloads: ['{}'], handlers: [{ identity: 'Blobs', phase: 'immediate' }] },
  exclusions: { ...NONE, handled: true },
};

const STATEMENTS: Readonly<Record<string, (tx: Executor) => Promise<unknown>>> = {
  'lock candidates, tenant by tenant': (tx) =>
    lockCandidates(tx, selectionOf(NOTE, 'purge'), {
      limit: 5000,
      exclusions: EXCLUSIONS,
      waits: false,
      tenantByTenant: true,
      withIds: true,
    }),
  'lock candidates, across tenants': (tx) =>
    lockCandidates(tx, selectionOf(NOTE, 'anonymise'), {
      limit: 5000,
      exclusions: NONE,
      waits: false,
      tenantByTenant: false,
      withIds: false,
    }),
  'lock one candidate, tenantless': (tx) =>
    lockCandidates(tx, selectionOf(TENANTLESS_NOTE, 'softDelete'), {
      limit: 1,
      exclusions: NONE,
      waits: false,
      tenantByTenant: true,
      withIds: true,
    }),
  'lock candidates of an erasure': (tx) =>
    lockCandidates(tx, erasureOf(NOTE, 'purge'), {
      limit: 5000,
      exclusions: NONE,
      waits: true,
      tenantByTenant: true,
      withIds: false,
    }),
  'count what an erasure means': (tx) => countSelection(tx, erasureOf(NOTE, 'purge'), NONE),
  'count what is too young for an erasure': (tx) => countTooYoung(tx, erasureOf(NOTE, 'purge')),
  'lock what a purge would set to null': (tx) => lockPath(tx, EXCLUSIONS.keyPaths[2]!.slice(1), NOTE, isLocked(LOCKED)),
  'still eligible': (tx) => stillEligible(tx, selectionOf(NOTE, 'purge'), ['7'], NONE),
  'count, foreseen': (tx) => countSelection(tx, selectionOf(NOTE, 'softDelete'), NONE),
  'count, left over': (tx) => countSelection(tx, selectionOf(NOTE, 'purge'), EXCLUSIONS),
  purge: (tx) => mutateLocked(tx, mutation(NOTE, 'purge')),
  'purge, without partitions': (tx) =>
    mutateLocked(tx, { ...mutation(NOTE, 'purge'), locked: { ...LOCKED, oid: '1', oids: null } }),
  'purge with row details, tenantless': (tx) => mutateLocked(tx, mutation(TENANTLESS_NOTE, 'purge', true)),
  'soft delete': (tx) => mutateLocked(tx, mutation(NOTE, 'softDelete')),
  anonymise: (tx) => mutateLocked(tx, mutation(NOTE, 'anonymise')),
  'anonymise, values of tenants and rows': (tx) =>
    mutateLocked(tx, {
      ...mutation(NOTE, 'anonymise'),
      scrubs: [
        { column: SCRUBS[0]!.column, perSlice: ['someone'] },
        { column: SCRUBS[1]!.column, perRow: ['AB'] },
      ],
      rows: [{ tid: '(0,1)', oid: '1' }],
    }),
  'purge with handlers': (tx) => mutateLocked(tx, { ...mutation(NOTE, 'purge'), ...HANDLED }),
  'anonymise with handlers, told to observers': (tx) =>
    mutateLocked(tx, { ...mutation(NOTE, 'anonymise', true), ...HANDLED, report: true }),
  'purge, told to observers': (tx) => mutateLocked(tx, { ...mutation(NOTE, 'purge'), report: true }),
  'lock candidates that no handler has seen': (tx) =>
    lockCandidates(tx, selectionOf(NOTE, 'purge'), {
      limit: 500,
      exclusions: HANDLED.exclusions,
      waits: false,
      tenantByTenant: true,
      withIds: false,
    }),
  'count, left over by handlers': (tx) =>
    countSelection(tx, selectionOf(NOTE, 'purge'), { ...EXCLUSIONS, handled: true }),
  'select entity rows': (tx) =>
    selectEntityRows(tx, selectionOf(NOTE, 'purge'), LOCKED, HANDLED.exclusions, [
      { name: 'id', expression: undefined },
      { name: 'xmin', expression: undefined },
    ]),
  'insert skipped rows': (tx) =>
    insertSkippedRows(tx, 'retention', { entry: NOTE, strategy: 'purge', at: NOW }, [
      { sweepId: 's', tenantId: 'x', recordId: '7', handlerType: 'Blobs', phase: 'immediate', error: 'type=Error' },
    ]),
  'claim work': (tx) => claimWork(tx, 'retention', { limit: 50, token: 't', ignoreBackoff: false }),
  'claim work at once': (tx) => claimWork(tx, 'retention', { limit: 50, token: 't', ignoreBackoff: true }),
  'settle work': (tx) => settleWork(tx, 'retention', []),
  'expire claims': (tx) => expireClaims(tx, 'retention', { claimTimeoutMs: 300_000, maxAttempts: 10 }),
  'clear payloads': (tx) => clearPayloads(tx, 'retention', [{ sweepId: 's', rowDetailId: '1' }], false),
  'lock old payloads': (tx) => lockOldPayloads(tx, 'retention', PAYLOAD_AGES, 9),
  'scrub payloads': (tx) => scrubPayloads(tx, 'retention', PAYLOAD_AGES, [{ sweepId: 's', rowDetailId: '1' }]),
  'select queue state': (tx) => selectQueueState(tx, 'retention'),
  'longest overdue': (tx) => selectLongestOverdue(tx, selectionOf(NOTE, 'purge')),
  'count unsettled work': (tx) => countUnsettled(tx, 'retention'),
  'select dead letters': (tx) => selectDeadLetters(tx, 'retention', '0', 100),
  'lock for requeue': (tx) => lockForRequeue(tx, 'retention', ['1']),
  'lock dead letters': (tx) => lockDeadLetters(tx, 'retention', ['1']),
  'requeue dead letters': (tx) => requeueWork(tx, 'retention', ['1'], 'skipped'),
  'discard dead letters': (tx) => discardWork(tx, 'retention', ['1'], 'seen'),
  'say that work waits': (tx) => notifyWaiting(tx, 'retention'),
  'lock prunable runs': (tx) =>
    lockPrunableRuns(tx, 'retention', { succeededRuns: NOW, failedRuns: null, inactiveHolds: null }, 100),
  'lock handler work': (tx) => lockHandlerWork(tx, 'retention', ['s']),
  'delete row details': (tx) => deleteRowDetails(tx, 'retention', ['s']),
  'delete summaries': (tx) => deleteSummaries(tx, 'retention', ['s']),
  'delete runs': (tx) => deleteRuns(tx, 'retention', ['s']),
  'delete empty passes': (tx) => deleteEmptyPasses(tx, 'retention', NOW, 9),
  'delete inactive holds': (tx) => deleteInactiveHolds(tx, 'retention', NOW, 100),
  'select originals': (tx) => selectOriginals(tx, selectionOf(NOTE, 'anonymise'), LOCKED, [SCRUBS[0]!.column]),
  'lock hold targets': (tx) => lockTargets(tx, NOTE, ['x'], 'share'),
  'lock deletion targets': (tx) => lockTargets(tx, NOTE, ['x'], 'update'),
  'select held': (tx) => selectHeld(tx, 'retention', [{ entityId: 'e', recordId: 'x' }]),
  'select now': (tx) => selectNow(tx),
  'append progress': (tx) => appendProgress(tx, 'retention', FENCE, []),
  'lock keys': (tx) => lockKeys(tx, [recordKey('e', 'x', null), gateKey('retention', 'e')]),
  'try lock key': (tx) => tryLockKey(tx, 'x'),
  'set lock timeout': (tx) => setLockTimeout(tx, '2s'),
  'insert holds': (tx) =>
    insertHolds(tx, 'retention', [
      { holdId: 'h', entityId: 'e', recordId: 'x', tenantId: null, reason: 'r', createdAt: null, expiresAt: null },
    ]),
  'release hold': (tx) => releaseHold(tx, 'retention', 'h', null),
  'select holds as of': (tx) => selectHolds(tx, 'retention', { asOf: NOW, entityId: 'e', tenantId: 'x' }),
  'select holds in force': (tx) => selectHolds(tx, 'retention', { asOf: null, entityId: 'e', recordId: 'x' }),
  'canonical record id': (tx) => canonicalRecordId(tx, NOTE, 'x'),
  'select unknown scopes': (tx) => selectUnknownScopes(tx, 'retention'),
  'cast text': (tx) => castText(tx, column('email', 'citext'), 'x'),
  'insert pass': (tx) =>
    insertPass(tx, 'retention', { passId: 'p', trigger: 'manual', dryRun: false, tokens: ['t'], slot: NOW }),
  'insert runs': (tx) =>
    insertRuns(
      tx,
      'retention',
      { passId: 'p', trigger: 'manual', dryRun: false, now: NOW, actor: null, engineVersion: '1', subjectKind: null },
      [{ sweepId: 's', tenantId: 'x' }],
    ),
  beat: (tx) => beat(tx, 'retention', 'p'),
  'select abandoned': (tx) => selectAbandoned(tx, 'retention', 1000),
  'lock abandoned': (tx) => lockAbandoned(tx, 'retention', 'p', 1000),
  'write summaries': (tx) => writeSummaries(tx, 'retention', FENCE, NOTE, []),
  'delete unstarted summaries': (tx) => deleteUnstartedSummaries(tx, 'retention', [{ sweepId: 's', entityId: 'e' }]),
  'settle pass': (tx) =>
    settlePass(tx, 'retention', { passId: 'p', tokens: ['t'], as: 'settled' }, [], { status: 'failed', error: null }),
  'select runs': (tx) =>
    selectRuns(tx, 'retention', { tenantId: 'x', after: { startedAt: NOW, sweepId: 's' }, sweepId: 's', limit: 1 }),
  'select summaries of a run': (tx) => selectRunSummaries(tx, 'retention', 's'),
  'select summaries of a pass': (tx) => selectPassSummaries(tx, 'retention', 'p'),
  'select row details': (tx) => selectRowDetails(tx, 'retention', 's', '0', 10),
  'claim occurrence': (tx) => claimOccurrence(tx, 'retention', CLAIM, 30_000),
  'take over occurrence': (tx) => takeOverOccurrence(tx, 'retention', CLAIM, 30_000),
  'link pass': (tx) => linkPass(tx, 'retention', CLAIM, 'p'),
  'renew lease': (tx) => renewLease(tx, 'retention', CLAIM, 30_000),
  'complete occurrence': (tx) => completeOccurrence(tx, 'retention', CLAIM),
  'insert first occurrence': (tx) => insertFirstOccurrence(tx, 'retention', NOW, false),
  'delete old occurrences': (tx) => deleteOldOccurrences(tx, 'retention', false),
  'select outcomes': (tx) => selectOutcomes(tx, 'retention', false, 3),
  'select running occurrence': (tx) => selectRunning(tx, 'retention', false),
  'select tables': (tx) => selectTables(tx, [NOTE, TENANTLESS_NOTE]),
  'select foreign keys': (tx) => selectForeignKeys(tx, ['1']),
  'select deadlock timeout': (tx) => selectDeadlockTimeout(tx),
  'select own tables': (tx) => selectOwnTables(tx, 'retention', ['sweep_run']),
  'select installed tables': (tx) => selectInstalled(tx, 'retention', ['sweep_run']),
  'select columns': (tx) => selectColumns(tx, [{ schema: 'app', table: 'notes', column: 'id' }]),
  'select unique indexes': (tx) => selectUniqueIndexes(tx, [NOTE]),
};

/** The text of a statement, as it would go to the server. What its function makes of no rows does not matter here. */
async function textOf(statement: (tx: Executor) => Promise<unknown>): Promise<string> {
  const texts: string[] = [];
  const db = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (each) => new PostgresIntrospector(each),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: (event) => void texts.push(event.query.sql),
  });
  await statement(db).catch((error: unknown) => {
    if (!(error instanceof TypeError)) throw error;
  });
  expect(texts).toHaveLength(1);
  return texts[0]!;
}

/** Keywords of SQL that look like calls. */
const KEYWORDS = new Set(
  'all and any array as by case coalesce conflict exists extract filter from greatest in join least lateral not on operator or over select set then using values when where with'.split(
    ' ',
  ),
);

/** What a statement calls, casts to and reads from without naming a schema. Keywords and its own CTEs have none. */
function unqualifiedIn(statement: string): string[] {
  const text = statement.replace(/--.*$/gm, '').replace(/'[^']*'/g, "''");
  const found = (pattern: RegExp) => [...text.matchAll(pattern)].map((match) => match[1]!);
  const aliases = new Set([...found(/\bas ([a-z_]+)\s*\(/g), ...found(/([a-z_]+)\([a-z_, ]*\) as \(/g)]);
  const ctes = new Set(found(/\b([a-z_]+)(?:\s*\([a-z_, ]*\))? as (?:not )?(?:materialized )?\(/g));
  const calls = found(/(?<![\w."])("?\w+"?)\s*\(/g).filter(
    (name) => !KEYWORDS.has(name.toLowerCase()) && !aliases.has(name),
  );
  const casts = found(/::\s*([\w."]+)/g);
  // The types of a record's columns: as j(id pg_catalog.uuid, ...)
  const columns = found(/\bas [a-z_]+\s*\(((?:[a-z_]+ [\w."[\]]+[,\s]*)+)\)/g).flatMap((list) =>
    list.split(',').map((each) => each.trim().split(' ')[1]!),
  );
  const relations = found(
    /(?<!\bdistinct |\bepoch |\bkey |\bno key |\bfor |\bdo )\b(?:from|join|update|into|using)\s+(?:only\s+)?(?!only\b|lateral\b|rows\b)("?\w+"?)(?![\w."])/g,
  ).filter((name) => !ctes.has(name));
  return [
    ...calls,
    ...[...casts, ...columns].filter((type) => !type.startsWith('pg_catalog.')),
    ...relations,
    ...operatorsIn(text),
  ];
}

/** Operators, and constructs that look one up, without a schema. Assignments, `*` for all columns and row counts are none. */
function operatorsIn(text: string): string[] {
  const rest = text
    .replace(/"[^"]*"/g, 'x')
    .replace(/\boperator\(pg_catalog\.[^)\s]+\)/g, '')
    .replace(/(\bset|,)\s+\w+ = /g, '$1 ')
    .replace(/::/g, ' ')
    .replace(/\(\*\)|\bselect \*|\.\*/g, '');
  return [
    ...rest.matchAll(
      /[-+*/<>=~!@#%^&|`?]+|\b(?:not )?in \(|\bis (?:not )?distinct from\b|\bnullif\b|\busing \(|\b(?:i?like|between|similar)\b/g,
    ),
  ].map((match) => match[0]);
}

// acceptance 185
test.each([
  ['select count(*) from "app"."notes" as t', ['count']],
  ['select "count"(*) from "app"."notes" as t', ['"count"']],
  ['select coalesce($1, now())', ['now']],
  ['select $1::uuid', ['uuid']],
  ['select $1::public.text[]', ['public.text']],
  ['select j.id from pg_catalog.jsonb_to_recordset($1) as j(id uuid, at pg_catalog.timestamptz)', ['uuid']],
  ['select 1 from only notes as t', ['notes']],
  ['select 1 from "app"."notes" as t join "replies" as r on true', ['"replies"']],
  ['insert into sweep_run (id) values ($1)', ['sweep_run', 'sweep_run']],
  ['update notes as t set id = $1', ['notes']],
  ['select 1 from app.notes as t where t.id = $1', ['=']],
  ['select 1 from app.notes as t where t.id operator(pg_catalog.=) $1 and t.seen_at<$2', ['<']],
  ['select 1 from app.notes as t where t.id operator(public.=) $1', ['=']],
  ['select 1 from app.notes as t where t.id in ($1)', ['in (']],
  ['select 1 from app.notes as t where t.id is not distinct from $1', ['is not distinct from']],
  ['select 1 from app.notes as t join app.replies as r using (id)', ['using (']],
  ['select pg_catalog.count(*) + 1, t.* from (select * from app.notes) as t', ['+']],
  ['update app.notes as t set id = $1, at = $2 where t.id operator(pg_catalog.=) $3', []],
  ['with due as (select 1) select pg_catalog.count(*) from due for update of due', []],
])('what has no schema is seen in: %s', (text, unqualified) => {
  expect(unqualifiedIn(text)).toEqual(unqualified);
});

describe.each(Object.entries(STATEMENTS))('%s', (_, statement) => {
  test('reads as committed', async () => {
    expect(await textOf(statement)).toMatchSnapshot();
  });

  // acceptance 185; 5.6 trap 73
  test('calls nothing and names no table without its schema', async () => {
    expect(unqualifiedIn(await textOf(statement))).toEqual([]);
  });
});
