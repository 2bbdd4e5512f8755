import { describe, expect, test } from '@jest/globals';
import { Entity, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import {
  type AnonymiseFactory,
  AnonymiseWith,
  Retain,
  RetentionEntityId,
  type RetentionSweepResult,
  TenantContext,
} from 'nestjs-cohort';
import { type RecordingHandler, handlerOf, statusesOf } from '../support/handlers.js';
import { type HostOptions, latch, openHost } from '../support/host.js';
import { ACME, CaseContact, GLOBEX, NOW, SessionNote, Signal, Ticket, notesHost } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { addContacts, addNotes, addTickets, countRows, holdOn, until } from '../support/seed.js';

const open = (providers: readonly object[], more: Partial<HostOptions> = {}) =>
  openHost({ ...notesHost, providers, ...more });

const manyNotes = (n: number, days = 500) => Array.from({ length: n }, (_, index) => ({ days: days + n - index }));
const withBatches = (sweepBatchSize: number) => ({ options: { ...notesHost.options, sweepBatchSize } });

interface Note {
  readonly id: string;
}
/** Fails for the rows given. */
const failingFor = (ids: readonly string[], name = 'Failing', message = 'ada@mail.test') =>
  handlerOf(SessionNote, name, {
    before: ({ id }: Note) => {
      if (ids.includes(id)) throw new TypeError(message);
    },
  });

const countOf = (result: RetentionSweepResult, entity = 'SessionNote') =>
  result.counts.find((each) => each.entity === entity);

describe('a handled sweep', () => {
  // acceptance 72, 74, 381, 383, 385, 411; HDL-01, HDL-02, HDL-03, HDL-05
  test('shows each row to its handlers, by priority, oldest row first, and queues them in that order', async () => {
    const order: string[] = [];
    const handlers = [
      handlerOf(SessionNote, 'Unspecified', { before: ({ id }: Note) => void order.push(`unspecified ${id}`) }),
      handlerOf(SessionNote, 'Second', { priority: 2, before: ({ id }: Note) => void order.push(`second ${id}`) }),
      handlerOf(SessionNote, 'First', {
        priority: -1,
        phase: 'afterSweepSettled',
        before: (note: SessionNote, context) => {
          order.push(`first ${note.id}`);
          context.snapshot['body'] = note.body;
          context.snapshot['at'] = note.createdAt;
        },
      }),
      handlerOf(SessionNote, 'Alphabetical'),
    ];
    const host = await open(handlers);
    const [younger, older] = await addNotes(host, [{ days: 100 }, { days: 200 }]);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(countOf(result)).toMatchObject({ affected: 2, skipped: 0 });
    expect(order).toEqual(
      [older, younger].flatMap((id) => ['first', 'second', 'unspecified'].map((name) => `${name} ${id}`)),
    );
    const [first] = [handlers[2]!];
    expect(first.rows[0]).toBeInstanceOf(SessionNote);
    expect(first.rows[0]).toMatchObject({ id: older, tenantId: 'acme', createdAt: expect.any(Date), body: 'body' });
    expect(first.befores[0]).toMatchObject({
      sweepId: result.sweepId,
      entity: 'SessionNote',
      recordId: older,
      category: 'session-notes',
      strategy: 'purge',
      tenantId: 'acme',
      at: expect.any(Date),
    });
    expect(await statusesOf(host)).toMatchObject(
      [older, younger].flatMap((recordId) =>
        ['First', 'Second', 'Alphabetical', 'Unspecified'].map((handler) => ({
          handler,
          recordId,
          phase: handler === 'First' ? 'afterSweepSettled' : 'immediate',
          state: 'pending',
          attempt: 0,
          outcome: 'affected',
          payload: expect.stringContaining('"body":"body"'),
        })),
      ),
    );
    const equalTimes = `queued_at = next_attempt_at and queued_at = date_trunc('milliseconds', queued_at)`;
    expect(await countRows(host, `${OURS}.sweep_row_handler_status`, equalTimes)).toBe(8);
  });

  // acceptance 270, 392, 255, 399
  test('soft-deletes and anonymises under handlers, and factories get what the application would', async () => {
    const seen: unknown[] = [];
    class FirstLetter implements AnonymiseFactory {
      readonly mode = 'perRowWithOriginalValue';
      create = ({ originalValue }: { originalValue: unknown }) => {
        seen.push(originalValue);
        return new Date(0);
      };
    }
    @Retain('case-contacts', 'createdAt')
    @RetentionEntityId('5eed0001-7db5-46ad-aea7-f65c4b430f73')
    @Entity({ tableName: 'people' })
    class Person {
      @PrimaryKey({ type: 'int', autoincrement: false })
      id!: number;
      @Property({ type: 'text' })
      tenantId!: string;
      @Property({ type: 'Date', columnType: 'timestamptz' })
      createdAt!: Date;
      @Property({ type: 'Date', columnType: 'timestamptz', nullable: true })
      anonymisedAt: Date | null = null;
      @AnonymiseWith(FirstLetter)
      @Property({ type: 'Date', columnType: 'timestamptz' })
      born!: Date;
    }
    const people = handlerOf(Person, 'People', {
      before: (row: Person) => {
        if (row.id === 2) throw new Error('kept');
      },
    });
    const tickets = handlerOf(Ticket, 'Tickets');
    const host = await openHost({
      ...notesHost,
      entities: [...notesHost.entities, Person],
      providers: [people, tickets],
      factories: [new FirstLetter()],
    });
    await host.query(
      `insert into people select i, 'acme', '2020-01-01'::timestamptz + i * interval '1 s', null, '1984-05-06' from generate_series(1, 3) as i`,
    );
    const [ticket] = await addTickets(host, [{}]);
    await host.sweep.sweep(ACME, NOW);
    expect(await host.query('select id, extract(year from born)::int as born from people order by id')).toEqual([
      { id: 1, born: 1970 },
      { id: 2, born: 1984 },
      { id: 3, born: 1970 },
    ]);
    expect(seen).toEqual([new Date('1984-05-06'), new Date('1984-05-06')].map((date) => expect.objectContaining(date)));
    expect((people.rows[0] as Person).born).toBeInstanceOf(Date);
    expect(await countRows(host, 'tickets', `is_deleted and deleted_at = '${NOW.toISOString()}'`)).toBe(1);
    expect((await statusesOf(host)).filter((status) => status.handler === 'Tickets')).toMatchObject([
      { recordId: ticket, state: 'pending' },
    ]);
  });

  // acceptance 393, HDL-04
  test('leaves entities without a handler on the bulk path, with nothing in the queue', async () => {
    const host = await open([handlerOf(Signal, 'Signals')]);
    await addNotes(host, [{}]);
    await addContacts(host, [{}]);
    await addTickets(host, [{}]);
    expect((await host.sweep.sweep(ACME, NOW)).counts.map((each) => each.affected)).toEqual([1, 1, 1]);
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(0);
  });

  test('books every row to the run of its own tenant', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler]);
    const ids = await addNotes(host, [{ tenant: 'acme' }, { tenant: 'globex' }, { tenant: 'acme' }]);
    const results = await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW));
    const runOf = new Map(results.map((result) => [result.tenantId, result.sweepId]));
    const details = await host.query<{ record_id: string; sweep_id: string }>(
      `select record_id, sweep_id from ${OURS}.sweep_run_row_detail`,
    );
    expect(new Map(details.map((each) => [each.record_id, each.sweep_id]))).toEqual(
      new Map(ids.map((id, index) => [id, runOf.get(index === 1 ? 'globex' : 'acme')])),
    );
    expect(new Set(handler.befores.map((each) => `${each.tenantId} ${each.sweepId}`)).size).toBe(2);
  });

  // acceptance 391; HDL-10
  test('keeps each row once where per-row detail is on as well', async () => {
    const options = {
      ...notesHost.options,
      rules: {
        ...notesHost.options.rules,
        'session-notes': { period: 'P30D', strategy: 'purge' as const, auditRowDetail: 'perRow' as const },
      },
    };
    const host = await open([handlerOf(SessionNote, 'Notes')], { options });
    await addNotes(host, [{}, {}]);
    const { sweepId } = await host.sweep.sweep(ACME, NOW);
    expect((await host.ledger.rowDetails(sweepId)).items).toHaveLength(2);
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`)).toBe(2);
  });

  // acceptance 401 (sweep), DRY-01
  test('calls nobody in a dry run or preview', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler]);
    await addNotes(host, [{}]);
    await host.preview.preview(ACME, NOW);
    await host.sweep.sweep(ACME, NOW, { dryRun: true });
    expect(handler.rows).toEqual([]);
    expect(await statusesOf(host)).toEqual([]);
  });

  // acceptance 402, 316
  test('shows a handler no row that is not due or held', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler]);
    const [due, , held] = await addNotes(host, [{}, { days: 1 }, {}, { tenant: 'globex' }]);
    await host.holds.create(holdOn(SessionNote, held!));
    expect(countOf(await host.sweep.sweep(ACME, NOW))).toMatchObject({ affected: 1, held: 1, skipped: 0 });
    expect((handler.rows as Note[]).map((row) => row.id)).toEqual([due]);
  });

  // acceptance 272, 273
  test('by two engines at once handles and reports each row once', async () => {
    const first = handlerOf(SessionNote, 'Notes');
    const second = handlerOf(SessionNote, 'Notes');
    const host = await open([first], withBatches(20));
    await addNotes(host, manyNotes(300));
    const other = await open([second], { url: host.url, ...withBatches(20) });
    const results = await Promise.all([host, other].map((each) => each.sweep.sweep(ACME, NOW)));
    expect(results.reduce((sum, each) => sum + countOf(each)!.affected, 0)).toBe(300);
    expect(await countRows(host, `${OURS}.sweep_row_handler_status`)).toBe(300);
    expect(await countRows(host, `(select distinct record_id from ${OURS}.sweep_run_row_detail) as d`)).toBe(300);
  });
});

describe('a handler whose onBefore fails', () => {
  // acceptance 394, 399, 460; HDL-06, HDL-07
  test('keeps its row, alone, with a dead letter of its own, and the next run shows it again', async () => {
    const ids = ['00000000-0000-4000-8000-000000000001'];
    const failing = failingFor(ids);
    const other = handlerOf(SessionNote, 'Other');
    const host = await open([failing, other]);
    await addNotes(host, [{ id: ids[0]! }, {}, {}]);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result).toMatchObject({ status: 'succeeded', entityFailures: [] });
    expect(countOf(result)).toMatchObject({ affected: 2, skipped: 1, skippedByCause: { handlerFailed: 1 } });
    expect(await countRows(host, 'session_notes')).toBe(1);
    const kept = (await statusesOf(host)).filter((status) => status.recordId === ids[0]);
    expect(kept).toMatchObject([
      { handler: 'Failing', state: 'deadLettered', attempt: 1, outcome: 'skipped', payload: null },
    ]);
    expect(kept[0]!.error).toMatch(/^type=TypeError;code=none;diagnosticId=[0-9a-f]{32}$/);
    expect(other.rows).toHaveLength(2);
    ids.length = 0;
    expect(countOf(await host.sweep.sweep(ACME, NOW))).toMatchObject({ affected: 1, skipped: 0 });
    expect(failing.rows).toHaveLength(4);
  });

  // acceptance 368, 395, 396, 397, 247, 21; HDL-13
  test('starves nobody: whole batches of failing rows in front, healthy ones behind', async () => {
    const host = await open([failingFor([], 'Placeholder')]);
    const ids = await addNotes(host, manyNotes(252));
    const failing = failingFor(ids.slice(0, 240));
    const other = await open([failing], { url: host.url, ...withBatches(25) });
    const result = await other.sweep.sweep(ACME, NOW);
    expect(countOf(result)).toMatchObject({ affected: 12, skipped: 240, skippedByCause: { handlerFailed: 240 } });
    expect(failing.rows).toHaveLength(252);
    expect(await countRows(host, `${OURS}.sweep_row_handler_status`, `state = 'deadLettered'`)).toBe(240);
  });

  // acceptance 415; PAY-03
  test('by putting in what cannot be kept is the one that failed', async () => {
    const host = await open([
      handlerOf(SessionNote, 'Proper', { priority: 1, before: (_, { snapshot }) => void (snapshot['a'] = 1n) }),
      handlerOf(SessionNote, 'Sloppy', { priority: 2, before: (_, { snapshot }) => void (snapshot['b'] = new Map()) }),
      handlerOf(SessionNote, 'Later', { priority: 3 }),
    ]);
    await addNotes(host, [{}]);
    expect(countOf(await host.sweep.sweep(ACME, NOW))).toMatchObject({ affected: 0, skipped: 1 });
    expect(await statusesOf(host)).toMatchObject([
      { handler: 'Sloppy', error: expect.stringContaining('type=SnapshotValueError') },
    ]);
    expect(host.logs.join()).toContain('snapshot.b is an object of Map');
  });

  // HDL-08
  test('because the sweep was cancelled is no failure of its own: the batch is rolled back', async () => {
    const cancel = new AbortController();
    const handler = handlerOf(SessionNote, 'Cancelled', {
      before: async (_, { signal }) => {
        cancel.abort(new Error('enough'));
        signal.throwIfAborted();
      },
    });
    const host = await open([handler]);
    await addNotes(host, [{}, {}]);
    await expect(host.sweep.sweep(ACME, NOW, { signal: cancel.signal })).rejects.toThrow('enough');
    expect(await countRows(host, 'session_notes')).toBe(2);
    expect(await statusesOf(host)).toEqual([]);
    expect((await host.ledger.runs()).items).toMatchObject([{ status: 'cancelled' }]);
  });

  test.each([
    ['a promise', new Promise<void>(() => {})],
    ['a query builder', { then: () => undefined }],
  ])('to come back in time costs its own row, and no other: %s', async (_, never) => {
    let hangs = '';
    const handler = handlerOf(SessionNote, 'Hanging', {
      before: ({ id }: Note) => (id === hangs ? (never as Promise<void>) : undefined),
    });
    const host = await open([handler], { options: { ...notesHost.options, idleInTransactionTimeout: 1000 } });
    const ids = await addNotes(host, manyNotes(3));
    hangs = ids[1]!;
    const result = await host.sweep.sweep(ACME, NOW);
    expect(countOf(result)).toMatchObject({ affected: 2, skipped: 1 });
    expect(await statusesOf(host)).toMatchObject([
      { recordId: ids[0] },
      { recordId: hangs, error: expect.stringContaining('type=CaptureTimeoutError') },
      { recordId: ids[2] },
    ]);
  });
});

// HDL-09
test('onBefore finds a connection in the smallest pool, however many passes there are at once', async () => {
  const tenants = [ACME, GLOBEX, new TenantContext('initech')];
  const options = { ...notesHost.options, idleInTransactionTimeout: 'PT2S' };
  const goOn = latch();
  let inside = 0;
  const reading = handlerOf(SessionNote, 'Reading', {
    before: async ({ id }: Note, { snapshot }) => {
      inside++;
      await goOn.opened;
      const note = await host.orm.em.fork().findOneOrFail(SessionNote, { id });
      snapshot['body'] = note.body;
    },
  });
  const watching = await open([]);
  const host = await open([reading], { options, poolSize: 3, url: watching.url });
  await addNotes(
    watching,
    tenants.map((tenant) => ({ tenant: tenant.id })),
  );
  const sweeps = Promise.all(tenants.map((tenant) => host.sweep.sweep(tenant, NOW)));
  await until(async () => inside - 1);
  const opened = `entity_type = 'SessionNote'`;
  await until(async () => (await countRows(watching, `${OURS}.sweep_run_entity_summary`, opened)) - 2);
  // The third pass is at its batch, or waits for its turn. As many round trips as it could need to get there.
  for (let trip = 0; trip < 100 && inside < 3; trip++) await countRows(watching, 'session_notes');
  goOn.open();
  expect((await sweeps).map((result) => countOf(result))).toMatchObject(
    tenants.map(() => ({ affected: 1, skipped: 0 })),
  );
  expect(await statusesOf(watching)).toMatchObject(tenants.map(() => ({ state: 'pending', outcome: 'affected' })));
});

test('a hold that lands just before the lock keeps its row, and nothing is queued', async () => {
  const handler: RecordingHandler = handlerOf(SessionNote, 'Notes');
  let place: (() => Promise<unknown>) | undefined;
  const host = await open([handler], {
    probe: async (at, entity) => {
      if (at === 'before-lock' && entity === 'SessionNote') await place?.();
    },
  });
  const [held] = await addNotes(host, [{}, {}]);
  place = async () => {
    place = undefined;
    await host.holds.create(holdOn(SessionNote, held!));
  };
  expect(countOf(await host.sweep.sweep(ACME, NOW))).toMatchObject({ affected: 1, held: 1 });
  expect(await countRows(host, 'session_notes', 'id = $1', [held])).toBe(1);
  expect(await countRows(host, `${OURS}.sweep_row_handler_status`)).toBe(1);
});

// acceptance 261
test('an entity that a handler was shown is tracked by nobody', async () => {
  const handler = handlerOf(SessionNote, 'Notes', { before: (row: SessionNote) => void (row.body = 'changed') });
  const host = await open([handler]);
  await addNotes(host, [{}]);
  const em = host.orm.em.fork();
  await host.sweep.sweep(ACME, NOW);
  await em.flush();
  expect(em.getUnitOfWork().getIdentityMap().values()).toEqual([]);
  expect(await countRows(host, 'session_notes')).toBe(0);
});

// acceptance 4, 5, 141; HREG-03
describe('start-up', () => {
  const problemsOf = async (...providers: object[]) => {
    const host = await open(providers);
    return host.readiness.context().then(
      () => [],
      (error: { problems: string[] }) => error.problems,
    );
  };
  const identity = 'b7316df4-7db5-46ad-aea7-f65c4b430f73';
  class Stranger {}

  test('refuses two handlers of one entity with one identity, and takes it on two entities', async () => {
    expect(
      await problemsOf(handlerOf(SessionNote, 'A', { identity }), handlerOf(SessionNote, 'B', { identity })),
    ).toEqual([expect.stringContaining(`row handlers A and B share the identity ${identity}`)]);
    expect(await problemsOf(handlerOf(SessionNote, 'A', { identity }), handlerOf(Ticket, 'B', { identity }))).toEqual(
      [],
    );
    expect(await problemsOf(handlerOf(SessionNote, 'A'), handlerOf(SessionNote, 'A'))).toEqual([
      expect.stringContaining('row handlers A and A share the identity A'),
    ]);
  });

  test('refuses a handler of what is not retained, of no method, without a name', async () => {
    const idle = handlerOf(CaseContact, 'Idle');
    const mute = Object.assign(Object.create(Object.getPrototypeOf(idle) as object), {
      onBefore: undefined,
      onAfter: undefined,
    }) as object;
    expect(await problemsOf(handlerOf(Stranger, 'Lost'), mute, handlerOf(SessionNote, ''))).toEqual([
      'A row handler of SessionNote has no name; give it an identity.',
      'Row handler Idle has neither onBefore nor onAfter; wanted: a RetentionRowHandler.',
      'Row handler Lost names Stranger, which is not a retained entity of this model.',
    ]);
  });
});
