import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Type } from '@mikro-orm/core';
import {
  type AnonymiseFactory,
  DryRunOnlyError,
  ErasureScope,
  type RetentionErasureResult,
  SoftDeleteErasureError,
  type StaticRules,
  Strategy,
} from 'nestjs-cohort';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { anonymisable, dateOrNull, model, softDeletable, text, textOrNull } from '../support/models.js';
import { ACME, GLOBEX, NOW, daysBefore } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { countRows, holdOn, somebodyWaits } from '../support/seed.js';

const ANN = 'ann@mail.test';
const purged = { period: 'P50Y', strategy: Strategy.Purge };

/** A note that may be purged and names a person by e-mail. */
const note = (more: Parameters<typeof model>[0] = {}) =>
  model({
    ...more,
    properties: { email: textOrNull, createdAt: dateOrNull, ...more.properties },
    retain: { erasureSubjects: { email: 'email' }, ...more.retain },
  });

async function open(input: Partial<HostOptions> & { rules?: StaticRules } = {}): Promise<Host> {
  const { rules = { notes: purged }, ...more } = input;
  return openHost({ entities: [note()], ...more, options: { rules, ...more.options } });
}

interface Row {
  readonly id?: string;
  readonly email?: string | null;
  readonly tenant?: string;
  readonly at?: Date | null;
}

/** Rows of ann's, a day old, where the test does not say otherwise; their ids. */
async function add(host: Host, rows: readonly Row[], table = 'note'): Promise<string[]> {
  const ids = rows.map((row) => row.id ?? randomUUID());
  for (const [index, { email = ANN, tenant = 'acme', at = daysBefore(1) }] of rows.entries()) {
    await host.query(`insert into ${table}(id, tenant_id, created_at, email) values ($1, $2, $3, $4)`, [
      ids[index],
      tenant,
      at?.toISOString() ?? null,
      email,
    ]);
  }
  return ids;
}

const byEmail = (value: unknown = ANN, options: ConstructorParameters<typeof ErasureScope>[1] = {}) =>
  new ErasureScope(value, { kind: 'email', ...options });
const idsIn = async (host: Host, table = 'note') =>
  (await host.query<{ id: string }>(`select id from ${table} order by id`)).map((row) => row.id);
const only = ({ counts }: RetentionErasureResult) => counts[0]!;

describe('an erasure', () => {
  // acceptance 308, 313, 319, 449, 456, 459; ERA-01, ERA-03, ERA-06
  test('takes the rows of the person in the tenant, of any age, and no others', async () => {
    const host = await open();
    const [, , , other, foreign, nobody] = await add(host, [
      {},
      { at: daysBefore(900) },
      { at: null },
      { email: 'bob@mail.test' },
      { tenant: 'globex' },
      { email: null },
    ]);
    const result = await host.erasure.erase(ACME, byEmail(), NOW, { actor: 'desk-4' });
    expect(result).toMatchObject({ status: 'succeeded', dryRun: false, subjectKinds: ['email'], entityFailures: [] });
    expect(only(result)).toMatchObject({ affected: 3, held: 0, skipped: 0, nullAnchor: 0 });
    expect(await idsIn(host)).toEqual([other, foreign, nobody].sort());
  });

  // acceptance 328; ERA-12, ERA-18
  test('stands in the ledger as one, with its kinds and never with the subject', async () => {
    const host = await open({ rules: { notes: { ...purged, legalMin: 'P6Y' } } });
    await add(host, [{ at: daysBefore(3000) }]);
    const { sweepId } = await host.erasure.erase(ACME, byEmail(), NOW, { actor: 'desk-4' });
    const run = await host.ledger.run(sweepId);
    expect(run).toMatchObject({
      trigger: 'erasure',
      actor: 'desk-4',
      erasureSubjectKind: 'email',
      totalAffected: 1,
      summaries: [{ affected: 1, period: 'P50Y', legalMin: 'P6Y', resolvedPeriod: 'P6Y' }],
    });
    for (const table of ['sweep_pass', 'sweep_run', 'sweep_run_entity_summary', 'sweep_run_row_detail'])
      expect(await host.query(`select * from ${OURS}.${table} as t where t::text ilike '%ann@%'`)).toEqual([]);
  });

  // acceptance 330
  test('goes on past one batch', async () => {
    const host = await open({ options: { rules: { notes: purged }, sweepBatchSize: 4 } });
    await add(
      host,
      Array.from({ length: 11 }, () => ({})),
    );
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ affected: 11 });
  });

  // acceptance 307; ERA-01
  test('leaves entities without a tenant alone, and writes nothing of them', async () => {
    const signal = model({
      name: 'Signal',
      properties: { tenantId: null, email: textOrNull },
      retain: { tenantless: true, erasureSubjects: { email: 'email' } },
    });
    const host = await open({ entities: [note(), signal] });
    await host.query(`insert into signal(id, created_at, email) values (gen_random_uuid(), '2020-01-01', $1)`, [ANN]);
    const result = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(result.counts.map((count) => count.entity)).toEqual(['Note']);
    expect(await countRows(host, 'signal')).toBe(1);
  });

  // acceptance 332; ERA-02
  test('visits the entities that have columns of the kinds asked for', async () => {
    const letter = note({ name: 'Letter', retain: { category: 'letters', erasureSubjects: { email: 'address' } } });
    const host = await open({ entities: [note(), letter], rules: { notes: purged, letters: purged } });
    await add(host, [{}]);
    await add(host, [{}], 'letter');
    const result = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(result.counts.map((count) => [count.entity, count.affected])).toEqual([['Note', 1]]);
    expect(await countRows(host, 'letter')).toBe(1);
  });

  // ERA-10
  test('visits exempt entities, and leaves them as they are', async () => {
    const host = await open({ rules: { notes: { period: 'P0D', strategy: Strategy.Exempt } } });
    await add(host, [{}]);
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ strategy: 'exempt', affected: 0 });
    expect(await countRows(host, 'note')).toBe(1);
  });

  // ERA-21
  test.each([Strategy.Anonymise, Strategy.SoftDelete])('does not do %s twice to a row', async (strategy) => {
    const schema = strategy === Strategy.Anonymise ? anonymisable : softDeletable;
    const entity = schema({
      properties: { email: textOrNull, owner: textOrNull },
      retain: { erasureSubjects: { owner: 'email' } },
    });
    const host = await open({ entities: [entity], rules: { notes: { period: 'P50Y', strategy } } });
    await host.query(
      `insert into note(id, tenant_id, created_at, email, owner${strategy === 'softDelete' ? ', is_deleted' : ''})
       values (gen_random_uuid(), 'acme', '2020-01-01', 'x', $1${strategy === 'softDelete' ? ', false' : ''})`,
      [ANN],
    );
    const scope = byEmail(ANN, { allowSoftDeleteAsErasure: true });
    expect(only(await host.erasure.erase(ACME, scope, NOW))).toMatchObject({ affected: 1 });
    expect(only(await host.erasure.erase(ACME, scope, NOW))).toMatchObject({ affected: 0, skipped: 0 });
  });

  // acceptance 253, 327
  test('anonymises by literals and factories, those that ask for the original value too', async () => {
    class Initial implements AnonymiseFactory {
      readonly mode = 'perRowWithOriginalValue';
      create = ({ originalValue }: { originalValue: unknown }) => (originalValue as string).slice(0, 1);
    }
    class Someone implements AnonymiseFactory {
      create = () => 'someone';
    }
    const entity = anonymisable({
      properties: { owner: text, name: text, alias: text },
      retain: {
        erasureSubjects: { owner: 'email' },
        anonymise: { email: 'null', name: Initial, alias: Someone },
      },
    });
    const host = await open({
      entities: [entity],
      rules: { notes: { period: 'P50Y', strategy: Strategy.Anonymise } },
      factories: [new Initial(), new Someone()],
    });
    await host.query(
      `insert into note(id, tenant_id, created_at, email, owner, name, alias) values (gen_random_uuid(), 'acme', now(), 'x', $1, 'Ann', 'Annie')`,
      [ANN],
    );
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ affected: 1 });
    expect(await host.query('select email, name, alias from note')).toEqual([
      { email: null, name: 'A', alias: 'someone' },
    ]);
  });

  // acceptance 318; ERA-14
  test('of which one rule cannot be resolved erases the rest', async () => {
    const letter = note({ name: 'Letter', retain: { category: 'letters' } });
    const host = await open({ entities: [note(), letter], rules: { notes: purged, letters: { ...purged } } });
    await add(host, [{}]);
    const ctx = await host.readiness.context();
    const resolve = ctx.rules.resolve.bind(ctx.rules);
    Object.assign(ctx.rules, {
      resolve: (question: { category: string }) => {
        if (question.category === 'letters') throw new Error(`no rule for ${ANN}`);
        return resolve(question as never);
      },
    });
    const result = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(result).toMatchObject({ status: 'partiallyFailed', entityFailures: [{ entity: 'Letter' }] });
    expect(JSON.stringify(result)).not.toContain('ann@');
    expect(await countRows(host, 'note')).toBe(0);
  });
});

describe('what keeps a row of the person', () => {
  // acceptance 314, 320; ERA-06, ERA-07
  test('is a positive legal minimum, with the first day on which it ends', async () => {
    const host = await open({ rules: { notes: { ...purged, legalMin: 'P30D' } } });
    const boundary = daysBefore(30);
    const [, atCutoff, young, future, ageless] = await add(host, [
      { at: daysBefore(31) },
      { at: boundary },
      { at: daysBefore(2) },
      { at: daysBefore(-2) },
      { at: null },
    ]);
    const result = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(only(result)).toMatchObject({
      affected: 1,
      nullAnchor: 1,
      blockedBy: { hold: 0, legalMinimum: 3, legalMinimumEnds: new Date(NOW.getTime() + 1) },
    });
    expect(await idsIn(host)).toEqual([atCutoff, young, future, ageless].sort());
    // On the instant that was named, one more goes.
    const ends = only(result).blockedBy.legalMinimumEnds!;
    expect(only(await host.erasure.erase(ACME, byEmail(), ends))).toMatchObject({ affected: 1 });
  });

  // acceptance 320
  test('is no legal minimum of zero', async () => {
    const host = await open({ rules: { notes: { ...purged, legalMin: 'P0D' } } });
    await add(host, [{ at: daysBefore(-2) }, { at: null }]);
    const result = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(only(result)).toMatchObject({ affected: 2, nullAnchor: 0, blockedBy: { legalMinimum: 0 } });
  });

  // acceptance 316; ERA-20; field case C01
  test('is a hold: counted by a dry run and by the erasure, and without it the row goes', async () => {
    const entity = note();
    const host = await open({ entities: [entity] });
    const [held, free] = await add(host, [{}, {}]);
    const hold = holdOn(entity, held!);
    await host.holds.create(hold);
    const dry = await host.erasure.erase(ACME, byEmail(ANN, { dryRun: true }), NOW);
    expect(only(dry)).toMatchObject({ affected: 1, held: 1, blockedBy: { hold: 1 } });
    expect(await idsIn(host)).toEqual([held, free].sort());
    const live = await host.erasure.erase(ACME, byEmail(), NOW);
    expect(only(live)).toMatchObject({ affected: 1, held: 1, blockedBy: { hold: 1 } });
    expect(await idsIn(host)).toEqual([held]);
    await host.holds.release(hold.holdId);
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ affected: 1, held: 0 });
  });

  test('is a row that points at it', async () => {
    const host = await open();
    const [kept] = await add(host, [{}, {}]);
    await host.query('create table reply(note_id uuid references note(id))');
    await host.query('insert into reply values ($1)', [kept]);
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({
      affected: 1,
      skipped: 1,
      skippedByCause: { 'referenced:public.reply.reply_note_id_fkey': 1 },
    });
  });
});

describe('an erasure that would only hide rows', () => {
  const hidden = softDeletable({ properties: { email: textOrNull }, retain: { erasureSubjects: { email: 'email' } } });
  const rules = { notes: { period: 'P50Y', strategy: Strategy.SoftDelete }, letters: purged };
  const openBoth = async () => {
    const letter = note({ name: 'Letter', retain: { category: 'letters' } });
    const host = await open({ entities: [hidden, letter], rules });
    await add(host, [{}], 'letter');
    return host;
  };

  // acceptance 309; ERA-08
  test('is refused as a whole before a run exists', async () => {
    const host = await openBoth();
    const refused = host.erasure.erase(ACME, byEmail(), NOW);
    await expect(refused).rejects.toThrow(SoftDeleteErasureError);
    await expect(refused).rejects.toMatchObject({ entities: ['Note'] });
    expect(await countRows(host, `${OURS}.sweep_run`)).toBe(0);
    expect(await countRows(host, 'letter')).toBe(1);
  });

  test('is done where that is accepted', async () => {
    const host = await openBoth();
    const result = await host.erasure.erase(ACME, byEmail(ANN, { allowSoftDeleteAsErasure: true }), NOW);
    expect(result.counts.map((count) => [count.entity, count.affected])).toEqual([
      ['Letter', 1],
      ['Note', 0],
    ]);
  });
});

describe('a dry run of an erasure', () => {
  // acceptance 310-312, 254, 315; ERA-15, ERA-16
  test('counts what the erasure would do, locks nothing, and says in the ledger what it was', async () => {
    const host = await open({ rules: { notes: { ...purged, legalMin: 'P30D' } } });
    const [old] = await add(host, [{ at: daysBefore(40) }, { at: daysBefore(3) }, { at: null }]);
    const dry = await host.orm.em.fork().transactional(async (em) => {
      await em
        .getConnection()
        .execute('select 1 from note where id = ? for update', [old], 'all', em.getTransactionContext());
      return host.erasure.erase(ACME, byEmail(ANN, { dryRun: true }), NOW);
    });
    expect(only(dry)).toMatchObject({ affected: 1, nullAnchor: 1, blockedBy: { legalMinimum: 1 } });
    expect(await host.ledger.run(dry.sweepId)).toMatchObject({ dryRun: true, trigger: 'erasure', totalAffected: 1 });
    const live = await host.erasure.erase(ACME, byEmail(), NOW);
    expect({ ...only(live) }).toEqual(only(dry));
  });

  test('is all that a host in dry run allows', async () => {
    const host = await open({ options: { rules: { notes: purged }, dryRun: true } });
    await add(host, [{}]);
    await expect(host.erasure.erase(ACME, byEmail(), NOW)).rejects.toThrow(DryRunOnlyError);
    expect(only(await host.erasure.erase(ACME, byEmail(ANN, { dryRun: true }), NOW))).toMatchObject({ affected: 1 });
    expect(await countRows(host, 'note')).toBe(1);
  });
});

describe('a person', () => {
  // acceptance 321, 325, 326; ERA-03
  test('may be named in several columns of an entity', async () => {
    const entity = note({
      properties: { copyTo: textOrNull },
      retain: { erasureSubjects: { email: 'email', copyTo: 'email' } },
    });
    const host = await open({ entities: [entity] });
    const [first, second, both, none] = await add(host, [{}, { email: 'x' }, {}, { email: 'x' }]);
    await host.query('update note set copy_to = $1 where id = any($2)', [ANN, [second, both]]);
    await host.holds.create(holdOn(entity, second!));
    expect(only(await host.erasure.erase(ACME, byEmail(ANN, { dryRun: true }), NOW))).toMatchObject({
      affected: 2,
      held: 1,
    });
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ affected: 2, held: 1 });
    expect(first).toBeDefined();
    expect(await idsIn(host)).toEqual([second, none].sort());
  });

  test('may have several identifiers, any of which a row may carry', async () => {
    const entity = note({
      properties: { customer: { type: 'integer', nullable: true } },
      retain: { erasureSubjects: { email: 'email', customer: 'customer' } },
    });
    const host = await open({ entities: [entity] });
    const [, byNumber, other] = await add(host, [{}, { email: null }, { email: 'x' }]);
    await host.query('update note set customer = case id when $1 then 7 else 8 end', [byNumber]);
    const scope = new ErasureScope([
      { kind: 'email', value: ANN },
      { kind: 'customer', value: 7 },
    ]);
    const result = await host.erasure.erase(ACME, scope, NOW);
    expect(result).toMatchObject({ subjectKinds: ['customer', 'email'], counts: [{ affected: 2 }] });
    expect(await host.ledger.run(result.sweepId)).toMatchObject({ erasureSubjectKind: 'customer,email' });
    expect(await idsIn(host)).toEqual([other]);
  });

  // acceptance 323, 324; ERA-04
  test('is compared as the property stores it', async () => {
    class Reversing extends Type<string, string> {
      override convertToDatabaseValue = (value: string) => [...value].reverse().join('');
      override convertToJSValue = (value: string) => [...value].reverse().join('');
      override getColumnType = () => 'text';
    }
    const entity = model({
      properties: { mail: { type: new Reversing(), nullable: true } },
      retain: { erasureSubjects: { mail: 'email' } },
    });
    const host = await open({ entities: [entity] });
    await host.query(
      `insert into note(id, tenant_id, created_at, mail) values (gen_random_uuid(), 'acme', now(), 'nna')`,
    );
    expect(only(await host.erasure.erase(ACME, byEmail('nna'), NOW))).toMatchObject({ affected: 0 });
    expect(only(await host.erasure.erase(ACME, byEmail('ann'), NOW))).toMatchObject({ affected: 1 });
  });

  // acceptance 333, 334; ERA-05
  test.each([
    ['citext', 'ANN@mail.test', 1],
    ['text', 'ANN@mail.test', 0],
    ['varchar(13)', `${ANN}.example`, 0],
    ['varchar(13)', ANN, 1],
  ])('is compared as a column of type %s compares: %s', async (type, value, affected) => {
    const host = await open();
    await host.query('create extension if not exists citext');
    await host.query(`alter table note alter email type ${type}`);
    await add(host, [{}]);
    expect(only(await host.erasure.erase(ACME, byEmail(value), NOW))).toMatchObject({ affected });
  });

  test('is found in any case where the property says so', async () => {
    const entity = note({ retain: { erasureSubjects: { email: { kind: 'email', normalise: 'lowercase' } } } });
    const host = await open({ entities: [entity] });
    const [, , other] = await add(host, [{ email: 'Ann@Mail.test' }, {}, { email: 'bob@mail.test' }]);
    expect(only(await host.erasure.erase(ACME, byEmail('ANN@mail.TEST'), NOW))).toMatchObject({ affected: 2 });
    expect(await idsIn(host)).toEqual([other]);
  });
});

describe('a whole tenant', () => {
  test('loses everything that is retained and not exempt, whoever it is about, but what is held or legally kept', async () => {
    const entity = note();
    const plain = model({ name: 'Draft', retain: { category: 'drafts' } });
    const kept = model({ name: 'Deed', retain: { category: 'deeds' } });
    const rules = { notes: purged, drafts: purged, deeds: { ...purged, legalMin: 'P10Y' } };
    const host = await open({ entities: [entity, plain, kept], rules });
    const [held, , foreign] = await add(host, [{}, { email: null }, { tenant: 'globex' }]);
    for (const table of ['draft', 'deed'])
      await host.query(`insert into ${table}(id, tenant_id, created_at) values (gen_random_uuid(), 'acme', now())`);
    await host.holds.create(holdOn(entity, held!));
    const result = await host.erasure.erase(ACME, ErasureScope.tenant(), NOW);
    expect(result).toMatchObject({ status: 'succeeded', subjectKinds: [] });
    expect(
      result.counts.map(({ entity: name, affected, blockedBy }) => [
        name,
        affected,
        blockedBy.hold,
        blockedBy.legalMinimum,
      ]),
    ).toEqual([
      ['Deed', 0, 0, 1],
      ['Draft', 1, 0, 0],
      ['Note', 1, 1, 0],
    ]);
    expect(await idsIn(host)).toEqual([held, foreign].sort());
    expect(await host.ledger.run(result.sweepId)).toMatchObject({ trigger: 'erasure', erasureSubjectKind: null });
  });
});

describe('a request that cannot be meant', () => {
  // acceptance 332; ERA-19
  test.each<[string, () => ErasureScope, string]>([
    [
      'a kind that nobody declares',
      () => new ErasureScope(ANN, { kind: 'phone' }),
      "scope.kind is 'phone'; wanted: a kind of @ErasureSubject: email, number",
    ],
    ['the default kind, where nobody declares it', () => new ErasureScope(ANN), "scope.kind is 'default'"],
    ['a number for a text', () => byEmail(7), 'wanted: a value of Note.email, which is text'],
    [
      'a text for a number',
      () => new ErasureScope(ANN, { kind: 'number' }),
      'wanted: a value of Note.number, which is integer',
    ],
    ['a number out of range', () => new ErasureScope(2 ** 40, { kind: 'number' }), 'wanted: a value of Note.number'],
    ['an object', () => byEmail({ email: ANN }), 'wanted: a value of Note.email'],
  ])('is refused before a run exists: %s', async (_, scope, message) => {
    const entity = note({
      properties: { number: { type: 'integer', nullable: true } },
      retain: { erasureSubjects: { email: 'email', number: 'number' } },
    });
    const host = await open({ entities: [entity] });
    await add(host, [{}]);
    const refused = await host.erasure.erase(ACME, scope(), NOW).catch((error: Error) => error);
    expect((refused as Error).message).toContain(message);
    expect((refused as Error).message).not.toContain('ann@');
    expect(await countRows(host, `${OURS}.sweep_run`)).toBe(0);
    expect(await countRows(host, 'note')).toBe(1);
  });
});

describe('rows that others have locked', () => {
  async function whileLocked(change: string, values: (id: string) => unknown[], more: Partial<HostOptions> = {}) {
    const entity = note();
    const host = await open({ entities: [entity], rules: { notes: { ...purged, legalMin: 'P30D' } }, ...more });
    const [locked, other] = await add(host, [{ at: daysBefore(60) }, { at: daysBefore(50) }]);
    let erasing!: Promise<RetentionErasureResult>;
    await host.orm.em.fork().transactional(async (em) => {
      const execute = (statement: string, params: unknown[]) =>
        em.getConnection().execute(statement, params, 'run', em.getTransactionContext());
      await execute('select 1 from note where id = ? for update', [locked]);
      erasing = host.erasure.erase(ACME, byEmail(), NOW);
      await somebodyWaits(host);
      if (change !== '') await execute(change, values(locked!));
    });
    return { host, result: await erasing, locked: locked!, other: other! };
  }

  // acceptance 248; ERA-11
  test('are waited for, and go', async () => {
    const { host, result } = await whileLocked('', () => []);
    expect(only(result)).toMatchObject({ affected: 2, skipped: 0 });
    expect(await idsIn(host)).toEqual([]);
  });

  // acceptance 249, 317, 331; ERA-11, ERA-13
  test.each([
    ['another person', `update note set email = 'bob@mail.test' where id = ?`, (id: string) => [id]],
    ['another tenant', `update note set tenant_id = 'globex' where id = ?`, (id: string) => [id]],
    ['too young', `update note set created_at = ? where id = ?`, (id: string) => [daysBefore(1), id]],
    [
      'held',
      `insert into ${OURS}.retention_holds(hold_id, scope_kind, retention_entity_id, record_id, tenant_id, reason, created_at)
       select gen_random_uuid(), 'record', $$ENTITY$$, n.id::text, n.tenant_id, 'x', now() from note as n where n.id = ?`,
      (id: string) => [id],
    ],
  ])('are judged by what they have become: %s', async (_, change, values) => {
    const entityId = randomUUID();
    const entity = note({ retain: { entityId } });
    const { host, result, locked } = await whileLocked(change.replace('$$ENTITY$$', `'${entityId}'`), values, {
      entities: [entity],
    });
    expect(only(result)).toMatchObject({ affected: 1 });
    expect(await idsIn(host)).toEqual([locked]);
  });

  test('fail their entity when they stay locked for as long as a batch may take', async () => {
    const host = await open({ options: { rules: { notes: purged }, batchTimeout: 'PT2S' } });
    const [locked, other] = await add(host, [{ at: daysBefore(60) }, { at: daysBefore(50) }]);
    const result = await host.orm.em.fork().transactional(async (em) => {
      await em
        .getConnection()
        .execute('select 1 from note where id = ? for update', [locked], 'run', em.getTransactionContext());
      return host.erasure.erase(ACME, byEmail(), NOW);
    });
    expect(result.status).toBe('partiallyFailed');
    expect(result.entityFailures[0]!.error).toMatch(/code=sqlstate:55P03;locked;/);
    expect(await idsIn(host)).toEqual([locked, other].sort());
    expect(only(await host.erasure.erase(ACME, byEmail(), NOW))).toMatchObject({ affected: 2 });
  });
});

// acceptance 338; HOLD-20
test.each(['locked', 'before-lock'] as const)('a hold that is placed at %s keeps its row whole', async (point) => {
  const reached = latch();
  const resume = latch();
  const entity = note();
  const host = await open({
    entities: [entity],
    probe: async (at) => {
      if (at !== point) return;
      reached.open();
      await resume.opened;
    },
  });
  const [id] = await add(host, [{}]);
  const erasing = host.erasure.erase(ACME, byEmail(), NOW);
  await reached.opened;
  const placing = host.holds.create(holdOn(entity, id!)).then(
    () => 'placed',
    (error: { code: string }) => error.code,
  );
  if (point === 'locked') await somebodyWaits(host);
  else await placing;
  resume.open();
  const outcome = await placing;
  await erasing;
  expect([outcome, await countRows(host, 'note')]).toEqual(
    point === 'locked' ? ['hold-record-missing', 0] : ['placed', 1],
  );
});

test('an erasure stops where its signal says so, and what was committed stays', async () => {
  const cancel = new AbortController();
  const host = await open({
    options: { rules: { notes: purged }, sweepBatchSize: 1 },
    probe: (at) => {
      if (at === 'committed') cancel.abort(new Error('enough'));
    },
  });
  await add(host, [{}, {}]);
  await expect(host.erasure.erase(ACME, byEmail(), NOW, { signal: cancel.signal })).rejects.toThrow('enough');
  expect(await countRows(host, 'note')).toBe(1);
  expect((await host.ledger.runs()).items[0]).toMatchObject({
    status: 'cancelled',
    totalAffected: 1,
    trigger: 'erasure',
  });
});

test('two people are erased at the same time, each once', async () => {
  const host = await open({ options: { rules: { notes: purged }, sweepBatchSize: 3 } });
  await add(
    host,
    [...Array(8).keys()].map((index) => ({ email: index % 2 ? 'bob@mail.test' : ANN })),
  );
  await add(host, [{ tenant: 'globex' }]);
  const results = await Promise.all([
    host.erasure.erase(ACME, byEmail(), NOW),
    host.erasure.erase(ACME, byEmail('bob@mail.test'), NOW),
    host.erasure.erase(ACME, byEmail(), NOW),
    host.erasure.erase(GLOBEX, byEmail(), NOW),
  ]);
  const affected = results.map((result) => only(result).affected);
  expect([affected[0]! + affected[2]!, affected[1], affected[3]]).toEqual([4, 4, 1]);
  expect(await countRows(host, 'note')).toBe(0);
});
