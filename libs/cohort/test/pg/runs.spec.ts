import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { defineEntity, p } from '@mikro-orm/core';
import {
  type RetentionResolutionContext,
  RetentionCategoryCapabilities,
  RetentionRule,
  RetentionRuleProvider,
  Strategy,
  TENANTLESS,
  TENANTLESS_ID,
  TenantContext,
  followAlias,
  retain,
} from 'nestjs-cohort';
import { ENGINE_VERSION } from '../../src/version.js';
import { type Host, type HostOptions, openHost } from '../support/host.js';
import { ACME, CaseContact, GLOBEX, NOTE_ID, NOW, SessionNote, daysBefore, notesHost } from '../support/notes.js';
import { addContacts, addNotes, addTickets, countRows, holdOn } from '../support/seed.js';
import { addRows, retainedTable, rulesFor } from '../support/tables.js';
import { OURS } from '../support/schema.js';

async function open(input: Partial<HostOptions> = {}): Promise<Host> {
  return openHost({ ...notesHost, ...input });
}

/** Rules by tenant and category, with whatever a test wants to happen on the way. */
class Rules extends RetentionRuleProvider {
  readonly asked: RetentionResolutionContext[] = [];

  constructor(
    private readonly answer: (
      context: RetentionResolutionContext,
    ) => RetentionRule | null | Promise<RetentionRule | null>,
  ) {
    super();
  }

  override getCapabilities(): RetentionCategoryCapabilities {
    return new RetentionCategoryCapabilities([Strategy.Purge, Strategy.Exempt]);
  }

  override resolve(context: RetentionResolutionContext) {
    this.asked.push(context);
    return this.answer(context);
  }
}

const purge = (period: string, more: object = {}) => new RetentionRule({ period, strategy: Strategy.Purge, ...more });
const onlyNotes = (rules: RetentionRuleProvider): Partial<HostOptions> => ({
  entities: [SessionNote],
  options: { rules, sweepBatchSize: 10 },
});
const many = (count: number) => Array.from({ length: count }, () => ({}));

describe('a sweep', () => {
  // acceptance 221, 239, 288, 449, 457; SWP-04, SWP-36, SWP-38
  test('reaches the tenant’s due rows alone, each strategy in its own way', async () => {
    const host = await open();
    await addNotes(host, [{ days: 31 }, { days: 29 }, { days: null }, { tenant: 'globex' }]);
    await addContacts(host, [{ days: 366 }, { days: 300 }, { tenant: 'globex' }]);
    const [, deleted] = await addTickets(host, [{ days: 91 }, { days: 91 }, { days: 89 }]);
    await host.query('update tickets set is_deleted = true, deleted_at = $1 where id = $2', [daysBefore(50), deleted]);
    await host.query('insert into signals(seen_at) values ($1)', [daysBefore(90)]);
    const result = await host.sweep.sweep(ACME, NOW, { actor: 'operator-7' });
    expect(
      result.counts.map(({ entity, strategy, affected, held, skipped, nullAnchor }) => [
        entity,
        strategy,
        affected,
        held,
        skipped,
        nullAnchor,
      ]),
    ).toEqual([
      ['CaseContact', 'anonymise', 1, 0, 0, 0],
      ['SessionNote', 'purge', 1, 0, 0, 1],
      ['Ticket', 'softDelete', 1, 0, 0, 0],
    ]);
    expect(await countRows(host, 'session_notes')).toBe(3);
    expect(
      await host.query(`select email, full_name, phone, country from case_contacts where anonymised_at is not null`),
    ).toEqual([{ email: null, full_name: '', phone: '[redacted]', country: 'UK' }]);
    expect(await countRows(host, 'case_contacts', 'email is not null')).toBe(2);
    expect(await countRows(host, 'tickets', 'is_deleted')).toBe(2);
    expect(await countRows(host, 'tickets', 'deleted_at = $1', [daysBefore(50)])).toBe(1);
    expect(await countRows(host, 'signals')).toBe(1);
    expect((await host.sweep.sweep(TENANTLESS, NOW)).counts).toMatchObject([
      { entity: 'Signal', affected: 1, tenantId: TENANTLESS_ID },
    ]);
  });

  // acceptance 288-290, 67; AUD-01 to AUD-06, design 4.5
  test('leaves a run that can be explained years later', async () => {
    const rules = new Rules(() =>
      purge('P30D', {
        legalMin: 'P2M',
        auditRowDetail: 'perRow',
        provenance: { source: 'policy 12', reason: 'tax law' },
      }),
    );
    const host = await open(onlyNotes(rules));
    const ids = await addNotes(host, [...many(12), { days: 40 }]);
    const result = await host.sweep.sweep(ACME, NOW, { actor: 'operator-7' });
    const run = await host.ledger.run(result.sweepId);
    expect(run).toMatchObject({
      trigger: 'manual',
      tenantId: 'acme',
      status: 'succeeded',
      dryRun: false,
      totalAffected: 12,
      logicalNow: NOW,
      actor: 'operator-7',
      engineVersion: ENGINE_VERSION,
      error: null,
      durationMs: expect.any(Number),
    });
    expect(run!.summaries).toMatchObject([
      {
        entity: 'SessionNote',
        entityId: NOTE_ID,
        category: 'session-notes',
        strategy: 'purge',
        affected: 12,
        cutoff: new Date('2026-04-30T12:00:00.000Z'),
        resolvedPeriod: 'P2M',
        period: 'P30D',
        legalMin: 'P2M',
        ruleSource: 'policy 12',
        ruleReason: 'tax law',
      },
    ]);
    const first = await host.ledger.rowDetails(result.sweepId, { limit: 7 });
    const second = await host.ledger.rowDetails(result.sweepId, { limit: 7, cursor: first.next! });
    expect(second.next).toBeNull();
    expect([...first.items, ...second.items].map((detail) => detail.recordId).sort()).toEqual(ids.slice(0, 12).sort());
    expect(first.items[0]).toMatchObject({
      entity: 'SessionNote',
      entityId: NOTE_ID,
      strategy: 'purge',
      tenantId: 'acme',
      category: 'session-notes',
    });
  });

  // acceptance 66, 223, 224, 454; RULE-02, RULE-06, RULE-10, RULE-11
  test('asks the rules before it locks a row, with tenant and now, and an exempt answer leaves zeros', async () => {
    const rules: Rules = new Rules(async ({ tenant }) => {
      expect(
        await countRows(host, 'pg_stat_activity', `datname = current_database() and state like 'idle in transaction%'`),
      ).toBe(0);
      return tenant.id === 'acme'
        ? new RetentionRule({ period: 'P30D', strategy: Strategy.Exempt })
        : purge(tenant.jurisdiction === 'DE' ? 'P10Y' : 'P30D');
    });
    const host = await open(onlyNotes(rules));
    await addNotes(host, [{}, { tenant: 'globex' }, { tenant: 'initech' }]);
    const tenants = [
      ACME,
      new TenantContext('globex', { jurisdiction: 'DE', tags: { tier: 'gold' } }),
      new TenantContext('initech'),
    ];
    const results = await Array.fromAsync(host.sweep.sweepMany(tenants, NOW));
    expect(results.map((result) => result.counts[0])).toMatchObject([
      { tenantId: 'acme', strategy: 'exempt', affected: 0 },
      { tenantId: 'globex', strategy: 'purge', affected: 0 },
      { tenantId: 'initech', strategy: 'purge', affected: 1 },
    ]);
    expect(rules.asked[1]).toMatchObject({
      category: 'session-notes',
      tenant: { jurisdiction: 'DE', tags: { tier: 'gold' } },
      now: NOW,
      aliasPath: [],
    });
  });

  // acceptance 210, 213, 292; RULE-04, RULE-05, RULE-08
  test.each([
    ['throws', () => Promise.reject(new Error('policy of Ada Example is broken')), 'type=Error;code=none'],
    ['answers null', () => null, 'code=rule-resolution'],
    [
      'answers a strategy it never declared',
      () => new RetentionRule({ period: 'P1D', strategy: Strategy.Anonymise }),
      'code=rule-resolution',
    ],
  ])('fails an entity whose provider %s, for its tenant alone, and preview throws it', async (_, broken, expected) => {
    const rules = new Rules(({ tenant }) => (tenant.id === 'acme' ? broken() : purge('P30D')));
    const host = await open(onlyNotes(rules));
    await addNotes(host, [{}, { tenant: 'globex' }]);
    const [acme, globex] = await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW));
    expect(acme).toMatchObject({ status: 'partiallyFailed', counts: [] });
    expect(acme!.entityFailures[0]!.error).toContain(expected);
    expect(acme!.entityFailures[0]!.error).not.toContain('Ada');
    expect(globex).toMatchObject({ status: 'succeeded', counts: [{ affected: 1 }] });
    await expect(host.preview.preview(ACME, NOW)).rejects.toThrow();
  });

  // acceptance 209; rule aliases of a provider of the host's
  test('fails an entity whose provider runs in a circle of aliases, and preview throws the error itself', async () => {
    const aliases: Record<string, string> = { 'session-notes': 'notes', notes: 'drafts', drafts: 'notes' };
    const thrown: unknown[] = [];
    const rules: Rules = new Rules((context) => {
      try {
        return rules.resolve(followAlias(context, aliases[context.category]!));
      } catch (error) {
        thrown.push(error);
        throw error;
      }
    });
    const host = await open(onlyNotes(rules));
    await addNotes(host, [{}]);
    const error: unknown = await host.preview.preview(ACME, NOW).catch((caught: unknown) => caught);
    expect(error).toBe(thrown[0]);
    expect(error).toMatchObject({ code: 'alias-cycle', path: ['notes', 'drafts', 'notes'] });
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.entityFailures[0]!.error).toContain('type=AliasCycleError;code=alias-cycle');
    expect(await countRows(host, 'session_notes')).toBe(1);
  });

  // acceptance 228
  test('under dryRun: true is refused before a run is written, while a dry run goes on', async () => {
    const host = await open({ options: { ...notesHost.options, dryRun: true } });
    await addNotes(host, [{}]);
    await expect(host.sweep.sweep(ACME, NOW)).rejects.toMatchObject({ code: 'dry-run-only' });
    expect(await countRows(host, `${OURS}.sweep_run`)).toBe(0);
    expect(
      (await host.sweep.sweep(ACME, NOW, { dryRun: true })).counts.find((each) => each.entity === 'SessionNote'),
    ).toMatchObject({ affected: 1 });
    expect(await host.ledger.runs()).toMatchObject({
      items: [{ dryRun: true, totalAffected: 1, status: 'succeeded' }],
    });
    expect(await countRows(host, 'session_notes')).toBe(1);
  });
});

describe('an entity', () => {
  // acceptance 290; META-02, RULE-12
  test('decides for itself whether the ledger keeps its rows, before its rule does', async () => {
    const Memo = defineEntity({
      name: 'Memo',
      tableName: 'memos',
      properties: { id: p.integer().primary(), tenantId: p.text(), at: p.datetime() },
    });
    const Draft = defineEntity({
      name: 'Draft',
      tableName: 'drafts',
      properties: { id: p.integer().primary(), tenantId: p.text(), at: p.datetime() },
    });
    retain(Memo, {
      category: 'memo',
      anchor: 'at',
      entityId: '5f0c2a3e-0000-4000-8000-000000000001',
      auditRowDetail: 'perRow',
    });
    retain(Draft, {
      category: 'draft',
      anchor: 'at',
      entityId: '5f0c2a3e-0000-4000-8000-000000000002',
      auditRowDetail: 'summaryOnly',
    });
    const host = await open({
      entities: [Memo, Draft],
      options: {
        rules: {
          memo: { period: 'P30D', strategy: 'purge' },
          draft: { period: 'P30D', strategy: 'purge', auditRowDetail: 'perRow' },
        },
      },
    });
    await host.query(`insert into memos(tenant_id, at) values ('acme', '2020-01-01')`);
    await host.query(`insert into drafts(tenant_id, at) values ('acme', '2020-01-01')`);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.counts.map((each) => each.affected)).toEqual([1, 1]);
    expect((await host.ledger.rowDetails(result.sweepId)).items.map((detail) => detail.entity)).toEqual(['Memo']);
  });

  // acceptance 146, 231; META-10, META-11
  test('is found under its mapped names, in its own schema, holds included', async () => {
    const File = defineEntity({
      name: 'File',
      tableName: 'Odd Files',
      schema: 'archive',
      properties: {
        key: p.text().primary().name('File Key'),
        owner: p.text().name('the "owner"'),
        at: p.datetime().name('order'),
      },
    });
    retain(File, {
      category: 'file',
      anchor: 'at',
      recordId: 'key',
      tenant: 'owner',
      entityId: '5f0c2a3e-0000-4000-8000-000000000003',
    });
    const host = await open({ entities: [File], options: { rules: { file: { period: 'P30D', strategy: 'purge' } } } });
    const names = ["it's", 'a,b', '{}', 'NULL', 'back\\slash', '"quoted"', 'späße'];
    await host.query(
      `insert into archive."Odd Files" select name, 'acme', '2020-01-01' from unnest($1::text[]) as name`,
      [names],
    );
    await host.holds.create(names.slice(0, 6).map((name) => holdOn(File, name)));
    expect((await host.sweep.sweep(ACME, NOW)).counts).toMatchObject([{ affected: 1, held: 6 }]);
    expect(await countRows(host, 'archive."Odd Files"')).toBe(6);
  });

  // acceptance 217, 222; SWP-38
  test('keeps rows without a tenant: they belong to no pass', async () => {
    const host = await open();
    await host.query('alter table session_notes alter tenant_id drop not null');
    await addNotes(host, [{}]);
    await host.query(
      `insert into session_notes(id, tenant_id, created_at, body) values (gen_random_uuid(), null, '2020-01-01', '')`,
    );
    expect((await host.preview.preview(ACME, NOW)).counts.find((each) => each.entity === 'SessionNote')).toMatchObject({
      affected: 1,
    });
    await host.sweep.sweep(ACME, NOW);
    await host.sweep.sweep(TENANTLESS, NOW);
    expect(await countRows(host, 'session_notes', 'tenant_id is null')).toBe(1);
  });

  // acceptance 298; SWP-33
  test('that fails after its batches keeps what they did in its summary and in the total', async () => {
    const host = await open(onlyNotes(new Rules(() => purge('P30D'))));
    await addNotes(host, [...many(25), { days: null }]);
    await host.query(`create function no_counts() returns trigger language plpgsql as
      $$ begin if new.null_anchor_count > 0 then raise exception 'no'; end if; return new; end $$`);
    await host.query(
      `create trigger no_counts before insert or update on ${OURS}.sweep_run_entity_summary for each row execute function no_counts()`,
    );
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result).toMatchObject({ status: 'partiallyFailed', counts: [{ affected: 25, held: 0, nullAnchor: 0 }] });
    expect(await host.ledger.run(result.sweepId)).toMatchObject({ totalAffected: 25, status: 'partiallyFailed' });
  });

  // acceptance 294; DRY-02
  test('that fails in a dry run leaves the summaries of the others', async () => {
    const host = await open();
    await host.readiness.context();
    await host.query('alter table case_contacts rename column created_at to made_at');
    await addNotes(host, many(3));
    const result = await host.sweep.sweep(ACME, NOW, { dryRun: true });
    expect(result.status).toBe('partiallyFailed');
    expect(result.counts.map((each) => [each.entity, each.affected])).toEqual([
      ['SessionNote', 3],
      ['Ticket', 0],
    ]);
    expect(result.entityFailures.map((failure) => failure.entity)).toEqual(['CaseContact']);
  });
});

describe('a run', () => {
  const cancelAt = (point: string, batches: number, controller: AbortController): HostOptions['probe'] => {
    let left = batches;
    return (at) => {
      if (at === point && left-- === 0) controller.abort(new Error('enough'));
    };
  };

  // acceptance 293, 296, 300; SWP-08, SWP-09, SWP-32
  test.each([
    { point: 'committed', batches: 1, affected: 20 },
    { point: 'mutated', batches: 2, affected: 20 },
    { point: 'locked', batches: 0, affected: 0 },
  ])(
    'cancelled when a batch is $point keeps the batches before, settles as cancelled and throws',
    async ({ point, batches, affected }) => {
      const controller = new AbortController();
      const host = await open({
        ...onlyNotes(new Rules(() => purge('P30D'))),
        probe: cancelAt(point, batches, controller),
      });
      await addNotes(host, many(50));
      await expect(host.sweep.sweep(ACME, NOW, { signal: controller.signal })).rejects.toThrow('enough');
      expect(await host.ledger.runs()).toMatchObject({
        items: [{ status: 'cancelled', totalAffected: affected, error: null }],
      });
      expect(await countRows(host, 'session_notes')).toBe(50 - affected);
      expect(await countRows(host, `${OURS}.sweep_progress`)).toBe(0);
    },
  );

  // SWP-01
  test('is written even for a caller who has cancelled already, and changes nothing', async () => {
    const host = await open(onlyNotes(new Rules(() => purge('P30D'))));
    await addNotes(host, many(3));
    await expect(host.sweep.sweep(ACME, NOW, { signal: AbortSignal.abort(new Error('too late')) })).rejects.toThrow(
      'too late',
    );
    expect((await host.ledger.runs()).items.map((run) => run.status)).toEqual(['cancelled']);
    expect(await countRows(host, 'session_notes')).toBe(3);
  });

  // acceptance 299; SWP-08
  test('that fails outside an entity is settled as failed, sanitised, and throws the original error', async () => {
    const host = await open({
      entities: [retainedTable('Album'), retainedTable('Track')],
      options: { rules: rulesFor(Strategy.Purge, 'Album', 'Track') },
    });
    await host.readiness.context();
    await host.query('alter table track add foreign key (parent_id) references album (id)');
    await host.query('alter table album add foreign key (parent_id) references track (id)');
    await addRows(host, 'album', [{ id: 1 }]);
    await expect(host.sweep.sweep(ACME, NOW)).rejects.toThrow(/cycle/);
    const error = expect.stringMatching(/^type=CohortConfigurationError;code=configuration;diagnosticId=[0-9a-f]{32}$/);
    expect(await host.ledger.runs()).toMatchObject({ items: [{ status: 'failed', totalAffected: 0, error }] });
    expect(await countRows(host, 'album')).toBe(1);
  });

  test('that cannot be settled throws what went wrong, and is recovered later with all that it did', async () => {
    const controller = new AbortController();
    const host = await open({
      ...onlyNotes(new Rules(() => purge('P30D'))),
      probe: async (at) => {
        if (at !== 'committed' || controller.signal.aborted) return;
        await host.query(`alter table ${OURS}.sweep_run rename to elsewhere`);
        controller.abort(new Error('stop here'));
      },
    });
    await addNotes(host, many(15));
    await expect(host.sweep.sweep(ACME, NOW, { signal: controller.signal })).rejects.toThrow('stop here');
    await host.query(`alter table ${OURS}.elsewhere rename to sweep_run`);
    expect(await host.ledger.runs()).toMatchObject({ items: [{ status: 'started', totalAffected: 10 }] });
    await host.query(`update ${OURS}.sweep_lane set heartbeat_at = heartbeat_at - interval '2 hours'`);
    expect((await host.sweep.sweep(ACME, NOW)).counts).toMatchObject([{ affected: 5 }]);
    expect((await host.ledger.runs()).items.map((run) => [run.status, run.totalAffected])).toEqual([
      ['succeeded', 5],
      ['failed', 10],
    ]);
  });

  // acceptance 293, 297; DRY-03, DRY-04
  test('that is dry and cancelled changes nothing; one that cannot be settled keeps its total for the recovery', async () => {
    const controller = new AbortController();
    const rules: Rules = new Rules(async () => {
      controller.abort(new Error('cancelled'));
      return purge('P30D');
    });
    const host = await open(onlyNotes(rules));
    await addNotes(host, many(15));
    await expect(host.sweep.sweep(ACME, NOW, { dryRun: true, signal: controller.signal })).rejects.toThrow('cancelled');
    expect(await host.ledger.runs()).toMatchObject({
      items: [{ status: 'cancelled', dryRun: true, totalAffected: 0 }],
    });

    await host.query(
      `create function no_end() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`,
    );
    await host.query(`create trigger no_end before update on ${OURS}.sweep_run for each row execute function no_end()`);
    await expect(host.sweep.sweep(ACME, NOW, { dryRun: true })).rejects.toMatchObject({ code: 'P0001' });
    await host.query(`drop trigger no_end on ${OURS}.sweep_run`);
    await host.query(`update ${OURS}.sweep_lane set heartbeat_at = heartbeat_at - interval '2 hours'`);
    await host.sweep.sweep(ACME, NOW, { dryRun: true });
    expect((await host.ledger.runs()).items.map((run) => [run.status, run.totalAffected])).toEqual([
      ['succeeded', 15],
      ['failed', 15],
      ['cancelled', 0],
    ]);
    expect(await countRows(host, 'session_notes')).toBe(15);
  });

  // acceptance 279; AUD-06
  test.each([
    `update ${OURS}.sweep_run set status = 'started'`,
    `update ${OURS}.sweep_run set status = 'done'`,
    `update ${OURS}.sweep_run set settled_at = null`,
    `update ${OURS}.sweep_run set total_affected = -1`,
    `update ${OURS}.sweep_run set duration_ms = -1`,
    `update ${OURS}.sweep_run set erasure_subject_kind = 'customer'`,
    `update ${OURS}.sweep_run_entity_summary set held_count = -1`,
    `update ${OURS}.sweep_run_entity_summary set strategy = 'shred'`,
  ])('cannot be brought into a state that makes no sense: %s', async (statement) => {
    const host = await open();
    await host.sweep.sweep(ACME, NOW);
    await expect(host.query(statement)).rejects.toMatchObject({ code: '23514' });
  });

  test('is listed newest first, page by page, by tenant if asked', async () => {
    const host = await open();
    const swept: string[] = [];
    for (const tenant of [ACME, GLOBEX, ACME, ACME, GLOBEX])
      swept.unshift((await host.sweep.sweep(tenant, NOW, { dryRun: true })).sweepId);
    const pages: string[][] = [];
    for (let cursor: string | undefined; ;) {
      const page = await host.ledger.runs({ limit: 2, ...(cursor ? { cursor } : {}) });
      pages.push(page.items.map((run) => run.sweepId));
      if (page.next === null) break;
      cursor = page.next;
    }
    expect(pages.flat()).toEqual(swept);
    expect((await host.ledger.runs({ tenantId: 'globex' })).items).toHaveLength(2);
    expect(await host.ledger.run('11111111-1111-4111-8111-111111111111')).toBeNull();
  });
});

// field case C44
test('the ledger outlives the tenant and whoever acted: no key of it points at the host’s tables', async () => {
  const Tenant = defineEntity({ name: 'Tenant', tableName: 'tenants', properties: { id: p.text().primary() } });
  const host = await open({ ...notesHost, entities: [...notesHost.entities, Tenant] });
  await host.query(`insert into tenants values ('acme')`);
  await host.query('alter table session_notes add foreign key (tenant_id) references tenants (id) on delete cascade');
  const [held] = await addNotes(host, [{}, {}]);
  await host.holds.create(holdOn(SessionNote, held!));
  const result = await host.sweep.sweep(ACME, NOW, { actor: 'user-41' });
  await host.query(`delete from tenants where id = 'acme'`);
  expect(await countRows(host, 'session_notes')).toBe(0);
  expect(await host.ledger.run(result.sweepId)).toMatchObject({ tenantId: 'acme', actor: 'user-41', totalAffected: 1 });
  expect(await host.holds.list({ activeAsOf: new Date(Date.now() + 60_000) })).toHaveLength(1);
  const outgoing = await host.query(
    `select conname from pg_constraint where contype = 'f' and connamespace = '${OURS}'::regnamespace
     and (select relnamespace from pg_class where oid = confrelid) <> '${OURS}'::regnamespace`,
  );
  expect(outgoing).toEqual([]);
});

// field case C46
test('sweep after sweep from a background context, while requests hold the same entities: nothing returns, nothing leaks', async () => {
  const host = await open({ options: { ...notesHost.options, sweepBatchSize: 500 } });
  let heapAfterWarmUp = 0;
  for (let round = 0; round < 60; round++) {
    if (round === 20) heapAfterWarmUp = usedHeap();
    const [gone] = await addNotes(host, many(1000));
    const [contact] = await addContacts(host, [{}]);
    const request = host.orm.em.fork();
    const note = await request.findOneOrFail(SessionNote, { id: gone! });
    const loaded = await request.findOneOrFail(CaseContact, { id: contact! });
    const { counts } = await host.sweep.sweep(ACME, NOW);
    expect(counts.map((each) => each.affected)).toEqual([1, 1000, 0]);
    note.body = 'edited';
    loaded.country = 'FR';
    await request.flush();
    expect(await countRows(host, 'session_notes')).toBe(0);
    expect(await countRows(host, 'case_contacts', 'email is not null')).toBe(0);
    expect(host.orm.em.getUnitOfWork().getIdentityMap().keys()).toHaveLength(0);
  }
  expect(usedHeap() - heapAfterWarmUp).toBeLessThan(8 * 1024 * 1024);
  const pool = await host.orm.em.getDriver().getConnection().getNativeClient();
  expect([pool.waitingCount, pool.totalCount - pool.idleCount]).toEqual([0, 0]);
});

function usedHeap(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}
