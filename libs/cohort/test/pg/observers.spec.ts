import { describe, expect, test } from '@jest/globals';
import { ErasureScope, type SweepEvent } from 'nestjs-cohort';
import { handlerOf } from '../support/handlers.js';
import { type Host, type HostOptions, openHost } from '../support/host.js';
import { dateOrNull, model, textOrNull } from '../support/models.js';
import { ACME, CaseContact, GLOBEX, NOW, SessionNote, daysBefore, notesHost } from '../support/notes.js';
import { type RecordingObserver, observerOf } from '../support/observers.js';
import { OURS } from '../support/schema.js';
import { addContacts, addNotes, countRows, holdOn } from '../support/seed.js';

const perRow = {
  ...notesHost.options,
  rules: {
    ...notesHost.options.rules,
    'session-notes': { period: 'P30D', strategy: 'purge' as const, auditRowDetail: 'perRow' as const },
  },
};

const open = (observers: readonly object[], more: Partial<HostOptions> = {}) =>
  openHost({ ...notesHost, options: perRow, providers: observers, ...more });

const typesOf = ({ events }: RecordingObserver) => events.map((event) => event.type);
const ofNotes = ({ events }: RecordingObserver) =>
  events.filter((event) => !('entity' in event) || event.entity === 'SessionNote');
const NOTES_IN_ORDER = ['started', 'rowDetail', 'rowDetail', 'entityProgress', 'rowDetail', 'entityProgress'];

describe('an observer', () => {
  // acceptance 287, 288; OBS-01, OBS-06
  test('is told the start, the rows and progress of every batch, the summaries and the end, with the numbers of the ledger', async () => {
    const observer = observerOf('Auditor');
    const host = await open([observer], { options: { ...perRow, sweepBatchSize: 2 } });
    const ids = await addNotes(host, [{ days: 300 }, { days: 200 }, { days: 100 }, { days: 400 }]);
    await host.holds.create(holdOn(SessionNote, ids[3]!));
    const { sweepId, passId } = await host.sweep.sweep(ACME, NOW);
    const events = ofNotes(observer);
    expect(events.map((event) => event.type)).toEqual([...NOTES_IN_ORDER, 'entitySummary', 'completed']);
    const ofRun = { sweepId, passId, tenantId: 'acme', at: expect.any(Date) };
    const ofEntity = { ...ofRun, entity: 'SessionNote', category: 'session-notes', strategy: 'purge' };
    expect(events).toMatchObject([
      { ...ofRun, trigger: 'manual', dryRun: false, subjectKind: null },
      { ...ofEntity, recordId: ids[0] },
      { ...ofEntity, recordId: ids[1] },
      { ...ofEntity, affected: 2, skipped: 0 },
      { ...ofEntity, recordId: ids[2] },
      { ...ofEntity, affected: 1, skipped: 0 },
      { ...ofEntity, affected: 3, held: 1, skipped: 0, nullAnchor: 0, skippedByCause: {}, resolvedPeriod: 'P30D' },
      { ...ofRun, totalAffected: 3, durationMs: expect.any(Number) },
    ]);
    const summaries = observer.events.filter((event) => event.type === 'entitySummary');
    const run = await host.ledger.run(sweepId);
    for (const summary of summaries) {
      expect(run!.summaries.find((each) => each.entity === summary.entity)).toMatchObject({
        affected: summary.affected,
        held: summary.held,
        skipped: summary.skipped,
        nullAnchor: summary.nullAnchor,
      });
    }
    expect(summaries.map((summary) => summary.entity).sort()).toEqual(['CaseContact', 'SessionNote', 'Ticket']);
    expect(observer.events.every((event) => Object.isFrozen(event))).toBe(true);
  });

  // acceptance 302; OBS-01, AUD-02
  test('is told of a row when everybody can see that it is gone', async () => {
    const seen: number[] = [];
    const observer = observerOf('Auditor', async (event) => {
      if (event.type !== 'rowDetail') return;
      seen.push(await countRows(host, 'session_notes', 'id = $1', [event.recordId]));
      seen.push(await countRows(host, `${OURS}.sweep_run_row_detail`, 'record_id = $1', [event.recordId]));
    });
    const host: Host = await open([observer]);
    await addNotes(host, [{}, {}]);
    await host.sweep.sweep(ACME, NOW);
    expect(seen).toEqual([0, 1, 0, 1]);
  });

  // acceptance 304
  test('is told nothing of a batch that was rolled back', async () => {
    const observer = observerOf('Auditor');
    let left = 1;
    const host = await open([observer], {
      probe: (at, entity) => {
        if (at === 'mutated' && entity === 'SessionNote' && left-- > 0)
          throw Object.assign(new Error('deadlock'), { code: '40P01' });
      },
    });
    await addNotes(host, [{}, {}]);
    await host.sweep.sweep(ACME, NOW);
    expect(ofNotes(observer).map((event) => event.type)).toEqual([
      ...['started', 'rowDetail', 'rowDetail', 'entityProgress', 'entitySummary', 'completed'],
    ]);
  });

  // acceptance 303; OBS-02
  test('hears each event before the next one is told to anybody', async () => {
    const heard: string[] = [];
    const of = (name: string) =>
      observerOf(name, async ({ type }) => {
        await Promise.resolve();
        heard.push(`${name} ${type}`);
      });
    const observers = [of('First'), of('Second')];
    const host = await open(observers);
    await addNotes(host, [{}]);
    await host.sweep.sweep(ACME, NOW);
    expect(heard).toEqual(typesOf(observers[0]!).flatMap((type) => [`First ${type}`, `Second ${type}`]));
  });

  test('hears of every tenant of a pass, each by its own run', async () => {
    const observer = observerOf('Auditor');
    const host = await open([observer]);
    await addNotes(host, [{}, { tenant: 'globex' }, { tenant: 'globex' }]);
    const results = [];
    for await (const result of host.sweep.sweepMany([ACME, GLOBEX], NOW)) results.push(result);
    const progress = observer.events.filter((event) => event.type === 'entityProgress');
    expect(progress.map(({ sweepId, tenantId, affected }) => ({ sweepId, tenantId, affected }))).toEqual(
      results.map(({ sweepId, tenantId }) => ({ sweepId, tenantId, affected: tenantId === 'acme' ? 1 : 2 })),
    );
    expect(observer.events.filter((event) => event.type === 'completed').map((event) => event.totalAffected)).toEqual([
      1, 2,
    ]);
  });

  test('hears what a handler kept, and how a run failed or was cancelled', async () => {
    const observer = observerOf('Auditor');
    const failing = handlerOf(SessionNote, 'Failing', {
      before: () => {
        throw new Error('ada@mail.test');
      },
    });
    const stop = new AbortController();
    const host = await open([observer, failing], {
      probe: (at, entity) => {
        if (at === 'committed' && entity === 'CaseContact') stop.abort(new Error('enough'));
      },
    });
    await addNotes(host, [{}]);
    await addContacts(host, [{}]);
    await expect(host.sweep.sweep(ACME, NOW, { signal: stop.signal })).rejects.toThrow('enough');
    const progress = observer.events.filter((event) => event.type === 'entityProgress');
    expect(progress).toContainEqual(expect.objectContaining({ entity: 'CaseContact', affected: 1, skipped: 0 }));
    expect(observer.events.at(-1)).toMatchObject({ type: 'cancelled', totalAffected: expect.any(Number) });

    observer.events.length = 0;
    const result = await host.sweep.sweep(ACME, NOW);
    expect(observer.events.filter((event) => event.type === 'entityProgress')).toMatchObject([
      { entity: 'SessionNote', affected: 0, skipped: 1 },
    ]);
    expect(observer.events.at(-1)).toMatchObject({ type: 'completed', sweepId: result.sweepId });
    expect(JSON.stringify(observer.events)).not.toContain('ada@mail');
  });
});

describe('an observer that misbehaves', () => {
  const silent = (ms: number) => ({ options: { ...perRow, auditObservers: { timeout: ms } } });

  // acceptance 305; OBS-03
  test('by throwing is heard of in the log, and changes nothing for anybody', async () => {
    const throwing = observerOf('Throwing', () => {
      throw new Error('no disk');
    });
    const rejecting = observerOf('Rejecting', () => Promise.reject(new Error('no network')));
    const good = observerOf('Good');
    const host = await open([throwing, rejecting, good]);
    await addNotes(host, [{}]);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.status).toBe('succeeded');
    expect(await countRows(host, 'session_notes')).toBe(0);
    for (const observer of [throwing, rejecting]) expect(typesOf(observer)).toEqual(typesOf(good));
    expect(host.logs).toContain(`Audit observer Throwing failed on event started of run ${result.sweepId}: no disk`);
    expect(host.logs).toContain(
      `Audit observer Rejecting failed on event completed of run ${result.sweepId}: no network`,
    );
  });

  // acceptance 305, 306; OBS-04
  test('by taking too long is asked to stop and hears no more of the pass, but of the next one', async () => {
    const signals: AbortSignal[] = [];
    const deaf = observerOf('Deaf', (_, signal) => {
      signals.push(signal);
      return new Promise(() => undefined);
    });
    const good = observerOf('Good');
    const host = await open([deaf, good], silent(20));
    await addNotes(host, [{}]);
    const { passId } = await host.sweep.sweep(ACME, NOW);
    expect(typesOf(deaf)).toEqual(['started']);
    expect(signals[0]!.aborted).toBe(true);
    expect(typesOf(good).at(-1)).toBe('completed');
    expect(host.logs.filter((line) => line.includes('Deaf'))).toEqual([expect.stringContaining(passId)]);
    await host.sweep.sweep(ACME, NOW);
    expect(typesOf(deaf)).toEqual(['started', 'started']);
  });

  // OBS-05
  test('by failing after its time is over is nobody’s unhandled rejection', async () => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      let fail!: (error: Error) => void;
      const late = observerOf('Late', () => new Promise((_, reject) => (fail = reject)));
      const host = await open([late], silent(10));
      await host.sweep.sweep(ACME, NOW);
      fail(new Error('too late'));
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });
});

describe('of an erasure', () => {
  const ANN = 'ann@mail.test';
  const person = model({
    properties: { email: textOrNull, createdAt: dateOrNull },
    retain: { erasureSubjects: { email: 'email' } },
  });
  const openPerson = async (providers: readonly object[], sweepBatchSize = 5000) => {
    const host = await openHost({
      entities: [person],
      providers,
      options: { sweepBatchSize, rules: { notes: { period: 'P50Y', strategy: 'purge', legalMin: 'P1D' } } },
    });
    const rows = [ANN, ANN, ANN, 'bob@mail.test'];
    for (const [index, email] of rows.entries())
      await host.query(
        `insert into note(id, tenant_id, created_at, email) values (gen_random_uuid(), 'acme', $1, $2)`,
        [daysBefore(9 - index).toISOString(), email],
      );
    return host;
  };
  const scope = (dryRun = false) => new ErasureScope(ANN, { kind: 'email', dryRun });

  // acceptance 291; ERA-12, ERA-18
  test('observers hear every batch, the kind of the subject, and never the subject', async () => {
    const observer = observerOf('Auditor');
    const host = await openPerson([observer], 2);
    await host.erasure.erase(ACME, scope(), NOW);
    expect(typesOf(observer)).toEqual(['started', 'entityProgress', 'entityProgress', 'entitySummary', 'completed']);
    expect(observer.events[0]).toMatchObject({ trigger: 'erasure', dryRun: false, subjectKind: 'email' });
    expect(JSON.stringify(observer.events)).not.toContain('ann@mail');
  });

  // acceptance 295
  test('an observer that fails in a dry run changes nothing', async () => {
    const failing = observerOf('Failing', () => Promise.reject(new Error('no disk')));
    const host = await openPerson([failing]);
    const result = await host.erasure.erase(ACME, scope(true), NOW);
    expect(result).toMatchObject({ status: 'succeeded', counts: [{ affected: 3 }] });
    expect(typesOf(failing)).toEqual(['started', 'entitySummary', 'completed']);
    expect(await countRows(host, 'note')).toBe(4);
  });

  // acceptance 398, 400, 403; ERA-17
  test('handlers see the rows that go, not those of others, held or legally kept; their work is done as after a sweep', async () => {
    const handler = handlerOf(person, 'Files', {
      before: (row: { email: string }, { snapshot }) => void (snapshot['email'] = row.email),
    });
    const host = await openPerson([handler]);
    const [held] = await host.query<{ id: string }>(`select id from note where email = $1 order by created_at`, [ANN]);
    await host.holds.create(holdOn(person, held!.id));
    await host.query(
      `insert into note(id, tenant_id, created_at, email) values (gen_random_uuid(), 'acme', $1, $2), (gen_random_uuid(), 'globex', null, $2)`,
      [NOW.toISOString(), ANN],
    );
    const result = await host.erasure.erase(ACME, scope(), NOW);
    expect(result.counts).toMatchObject([{ affected: 2, held: 1, blockedBy: { hold: 1, legalMinimum: 1 } }]);
    expect(handler.befores).toHaveLength(2);
    expect(await host.dispatcher.flush()).toMatchObject({ settled: true });
    expect(handler.afters.map(({ sweepId, snapshot }) => ({ sweepId, snapshot }))).toEqual([
      { sweepId: result.sweepId, snapshot: { email: ANN } },
      { sweepId: result.sweepId, snapshot: { email: ANN } },
    ]);
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`, 'captured_payload is not null')).toBe(0);
  });

  // acceptance 398
  test('a row whose onBefore fails stays and is skipped; the others go, and the next erasure shows it again', async () => {
    let fails = true;
    const handler = handlerOf(person, 'Files', {
      before: (row: { createdAt: Date }) => {
        if (fails && row.createdAt.getTime() === daysBefore(8).getTime()) throw new Error(ANN);
      },
    });
    const host = await openPerson([handler]);
    const first = await host.erasure.erase(ACME, scope(), NOW);
    expect(first.counts).toMatchObject([{ affected: 2, skipped: 1 }]);
    expect(await countRows(host, 'note', 'email = $1', [ANN])).toBe(1);
    fails = false;
    const second = await host.erasure.erase(ACME, scope(), NOW);
    expect(second.counts).toMatchObject([{ affected: 1, skipped: 0 }]);
    const { items } = await host.dispatcher.deadLetters();
    expect(items).toMatchObject([{ outcome: 'skipped', error: expect.not.stringContaining('ann@') }]);
  });
});

test('an observer and a handler in one host are told of the same rows', async () => {
  const observer = observerOf('Auditor');
  const handler = handlerOf(CaseContact, 'Contacts');
  const host = await open([observer, handler]);
  const ids = await addContacts(host, [{}, {}]);
  await host.sweep.sweep(ACME, NOW);
  // Details are kept for the handlers, and told to nobody: the rule says summaries only (HDL-10).
  expect(observer.events.filter((event): event is SweepEvent => event.type === 'rowDetail')).toEqual([]);
  expect(observer.events.filter((event) => event.type === 'entityProgress')).toMatchObject([
    { entity: 'CaseContact', affected: 2 },
  ]);
  expect(handler.befores.map((context) => context.recordId).sort()).toEqual([...ids].sort());
});
