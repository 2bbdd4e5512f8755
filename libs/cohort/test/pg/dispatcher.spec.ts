import { once } from 'node:events';
import { mkdtemp, rm, writeFile, access } from 'node:fs/promises';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { RetentionAfterContext } from 'nestjs-cohort';
import { scrubOld } from '../../src/dispatch/upkeep.js';
import { findHandler } from '../../src/domain/row-handler.js';
import { inLedger } from '../../src/engine/context.js';
import { discardWork, lockDeadLetters, lockForRequeue, requeueWork } from '../../src/sql/dead-letters.js';
import { clearPayloads, lockOldPayloads, scrubPayloads } from '../../src/sql/handler-queue.js';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { handlerOf, letLeasesAge, statusesOf } from '../support/handlers.js';
import { ACME, NOW, SessionNote, Ticket, notesHost } from '../support/notes.js';
import { OURS, SCHEMA } from '../support/schema.js';
import { addNotes, addTickets, countRows, somebodyWaits, until } from '../support/seed.js';

type Dispatch = NonNullable<HostOptions['options']['rowHandlerDispatch']>;
const open = (providers: readonly object[], dispatch: Dispatch = {}, more: Partial<HostOptions> = {}) =>
  openHost({
    ...notesHost,
    options: { ...notesHost.options, rowHandlerDispatch: dispatch, ...more.options },
    providers,
    ...omit(more),
  });
const omit = ({ options: _, ...more }: Partial<HostOptions>) => more;
const DONE = { inFlightRemaining: 0, pendingRemaining: 0, settled: true };

async function queued(host: Host, rows = 1): Promise<string[]> {
  const ids = await addNotes(
    host,
    Array.from({ length: rows }, (_, index) => ({ days: 600 - index * 0.01 })),
  );
  await host.sweep.sweep(ACME, NOW);
  return ids;
}

/** The queue as another process left it. */
const set = (host: Host, change: string, where = 'true') =>
  host.query(`update ${OURS}.sweep_row_handler_status set ${change} where ${where}`);
const CLAIMED = `state = 'inFlight', claimed_at = now(), claim_token = gen_random_uuid()`;

/** Fails the first `times` calls. */
function failing(times: number, name = 'Failing', entity: object = SessionNote) {
  let left = times;
  return handlerOf(entity, name, {
    after: () => {
      if (left-- > 0) throw new RangeError('ada@mail.test');
    },
  });
}

describe('flush', () => {
  // acceptance 381, 382, 409, 417, 142; HDL-03, DSP-10, DSP-16
  test('gives onAfter what onBefore put aside, with its types, and clears it when all is done', async () => {
    const kept = { path: 'notes/7.pdf', size: 2n ** 60n, at: new Date(0), hash: Buffer.from('x'), tags: [null, 'a'] };
    const handler = handlerOf(SessionNote, 'Blobs', {
      before: (_, { snapshot }) => void Object.assign(snapshot, kept),
    });
    const host = await open([handler]);
    const [id] = await queued(host);
    const [run] = (await host.ledger.runs()).items;
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(handler.afters).toEqual([
      {
        sweepId: run!.sweepId,
        entity: 'SessionNote',
        entityId: expect.any(String),
        recordId: id,
        category: 'session-notes',
        strategy: 'purge',
        tenantId: 'acme',
        at: handler.befores[0]!.at,
        attempt: 1,
        snapshot: kept,
        signal: expect.any(AbortSignal),
      },
    ]);
    expect(Object.isFrozen(handler.afters[0])).toBe(true);
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded', attempt: 1, error: null, payload: null }]);
    expect(
      await countRows(host, `${OURS}.sweep_row_handler_status`, 'completed_at is not null and claim_token is null'),
    ).toBe(1);
  });

  // acceptance 71, 384; HDL-11
  test('is done at once with a handler that only captures', async () => {
    const handler = handlerOf(SessionNote, 'Capture');
    Object.defineProperty(handler, 'onAfter', { value: undefined });
    const host = await open([handler]);
    await queued(host);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded', payload: null }]);
  });

  // acceptance 408, 411; DSP-11, DSP-22, DIAG-05
  test('tries again at once what fails, until it succeeds', async () => {
    const handler = failing(3);
    const host = await open([handler], { baseBackoff: 'P1D' });
    await queued(host);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(handler.afters.map((each) => each.attempt)).toEqual([1, 2, 3, 4]);
    expect(host.logs.filter((line) => line.includes('ada@mail.test'))).toHaveLength(3);
  });

  // acceptance 412, 414, 460; DSP-12
  test('makes a dead letter of what fails too often, and of the later handlers of its row, which are not called', async () => {
    const [first, second, third] = [
      handlerOf(SessionNote, 'First', { priority: 1, before: (_, { snapshot }) => void (snapshot['name'] = 'Ada') }),
      failing(99, 'Second'),
      handlerOf(SessionNote, 'Third'),
    ];
    const host = await open([first, second, third], { maxAttempts: 3 });
    await queued(host, 2);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect([first, second, third].map((each) => each.afters.length)).toEqual([2, 6, 0]);
    const envelope = expect.stringMatching(/^type=RangeError;code=none;diagnosticId=[0-9a-f]{32}$/);
    const ofRow = [
      { handler: 'First', state: 'succeeded', attempt: 1, payload: null },
      { handler: 'Second', state: 'deadLettered', attempt: 3, error: envelope },
      { handler: 'Third', state: 'deadLettered', attempt: 0, error: expect.stringContaining('not called') },
    ];
    expect(await statusesOf(host)).toMatchObject([...ofRow, ...ofRow]);
  });

  // acceptance 385, 386; DSP-05, trap 64
  test('calls the handlers of a row one after the other, whatever the parallelism', async () => {
    const busy = new Map<string, string>();
    const order = new Map<string, string[]>();
    let atOnce = 0;
    const after = (name: string) => async (context: RetentionAfterContext) => {
      expect(busy.get(context.recordId)).toBeUndefined();
      busy.set(context.recordId, name);
      atOnce = Math.max(atOnce, busy.size);
      await new Promise(setImmediate);
      order.set(context.recordId, [...(order.get(context.recordId) ?? []), name]);
      busy.delete(context.recordId);
    };
    const handlers = ['A', 'B', 'C'].map((name, priority) =>
      handlerOf(SessionNote, name, { priority, after: after(name) }),
    );
    const host = await open(handlers, { maxParallelism: 8, batchSize: 16 });
    await queued(host, 40);
    const other = await open(handlers, { maxParallelism: 8, batchSize: 16 }, { url: host.url });
    await Promise.all([host.dispatcher.flush(), other.dispatcher.flush()]);
    expect([...order.values()]).toEqual(Array.from({ length: 40 }, () => ['A', 'B', 'C']));
    expect(atOnce).toBeGreaterThan(1);
  });

  // acceptance 404, 410; DSP-23
  test('by several at once claims everything once, over many batches', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler], { batchSize: 7 });
    await queued(host, 300);
    const others = await Promise.all([1, 2].map(() => open([handler], { batchSize: 7 }, { url: host.url })));
    await Promise.all([host, host, ...others].map((each) => each.dispatcher.flush()));
    expect(handler.afters).toHaveLength(300);
    expect(await countRows(host, `${OURS}.sweep_row_handler_status`, `state = 'succeeded' and attempt = 1`)).toBe(300);
  });

  // acceptance 417
  test('says what others are at, and what waits', async () => {
    const handler = handlerOf(SessionNote, 'Notes', { phase: 'afterSweepSettled' });
    const host = await open([handler]);
    await queued(host, 2);
    await set(host, CLAIMED, `id = (select min(id) from ${OURS}.sweep_row_handler_status)`);
    await host.query(`update ${OURS}.sweep_run set status = 'started', settled_at = null, duration_ms = null`);
    expect(await host.dispatcher.flush()).toEqual({ inFlightRemaining: 1, pendingRemaining: 1, settled: false });
  });
});

describe('work after the sweep', () => {
  // acceptance 377, 379; DSP-04
  test('waits for its run to be settled; immediate work does not', async () => {
    const reached = latch();
    const resume = latch();
    const [immediate, deferred] = [
      handlerOf(SessionNote, 'Immediate', { priority: 1 }),
      handlerOf(Ticket, 'Deferred', { phase: 'afterSweepSettled' }),
    ];
    const host = await open(
      [immediate, deferred],
      {},
      {
        probe: async (at, entity) => {
          if (at !== 'committed' || entity !== 'Ticket') return;
          reached.open();
          await resume.opened;
        },
      },
    );
    await addNotes(host, [{}]);
    await addTickets(host, [{}]);
    const sweep = host.sweep.sweep(ACME, NOW);
    await reached.opened;
    expect(await host.dispatcher.flush()).toEqual({ inFlightRemaining: 0, pendingRemaining: 1, settled: false });
    expect([immediate.afters.length, deferred.afters.length]).toEqual([1, 0]);
    resume.open();
    await sweep;
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(deferred.afters).toHaveLength(1);
  });

  // acceptance 378; DSP-24, trap 66
  test('is released by the recovery of a run that nobody ends', async () => {
    const deferred = handlerOf(SessionNote, 'Deferred', { phase: 'afterSweepSettled' });
    const host = await open([deferred]);
    await queued(host);
    await host.query(`update ${OURS}.sweep_run set status = 'started', settled_at = null, duration_ms = null`);
    await host.query(`update ${OURS}.sweep_pass set status = 'started', settled_at = null`);
    await host.query(`update ${OURS}.sweep_lane set status = 'started', heartbeat_at = now() - interval '2 hours'`);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(deferred.afters).toHaveLength(1);
    expect((await host.ledger.runs()).items).toMatchObject([{ status: 'failed' }]);
  });
});

describe('a claim', () => {
  // acceptance 371
  test('that has run out is taken over, which counts as an attempt', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler]);
    await queued(host);
    await set(host, `${CLAIMED}, attempt = 1`);
    await letLeasesAge(host);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(handler.afters.map((each) => each.attempt)).toEqual([2]);
  });

  // acceptance 372; DSP-01
  test('that has run out at the last attempt becomes a dead letter, and what stands behind it', async () => {
    const [first, second] = [handlerOf(SessionNote, 'A'), handlerOf(SessionNote, 'B')];
    const host = await open([first, second], { maxAttempts: 2 });
    await queued(host);
    await set(host, `${CLAIMED}, attempt = 2`, `handler_type = 'A'`);
    await letLeasesAge(host);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(await statusesOf(host)).toMatchObject([
      { state: 'deadLettered', error: expect.stringContaining('no sign of life') },
      { state: 'deadLettered', error: expect.stringContaining('not called') },
    ]);
    expect([...first.afters, ...second.afters]).toEqual([]);
  });

  // acceptance 374
  test('that is young is left alone', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler]);
    await queued(host);
    await set(host, CLAIMED);
    expect(await host.dispatcher.flush()).toEqual({ inFlightRemaining: 1, pendingRemaining: 0, settled: false });
    expect(handler.afters).toEqual([]);
  });

  // acceptance 387; DSP-09, trap 60
  test('that somebody else has taken over is settled by its new owner alone', async () => {
    const reached = latch();
    const resume = latch();
    const slow = handlerOf(SessionNote, 'Notes', {
      after: async () => {
        reached.open();
        await resume.opened;
        throw new Error('too late');
      },
    });
    const host = await open([slow]);
    await queued(host);
    const flush = host.dispatcher.flush();
    await reached.opened;
    await letLeasesAge(host);
    const other = await open([handlerOf(SessionNote, 'Notes')], {}, { url: host.url });
    expect(await other.dispatcher.flush()).toEqual(DONE);
    resume.open();
    expect(await flush).toEqual(DONE);
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded', attempt: 2, error: null }]);
  });

  describe('and its clock', () => {
    afterEach(() => void jest.useRealTimers());

    // acceptance 388; DSP-20
    test('gives a handler nine tenths of the lease, then counts it as failed', async () => {
      const handler = handlerOf(SessionNote, 'Hanging', { after: () => new Promise<void>(() => {}) });
      const host = await open([handler], { claimTimeout: 30_000, maxAttempts: 1 });
      await queued(host);
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] });
      const flush = host.dispatcher.flush();
      while (handler.afters.length === 0) await new Promise(setImmediate);
      jest.advanceTimersByTime(26_000);
      await new Promise(setImmediate);
      expect(handler.afters[0]!.signal.aborted).toBe(false);
      jest.advanceTimersByTime(1000);
      expect(handler.afters[0]!.signal.aborted).toBe(true);
      jest.useRealTimers();
      expect(await flush).toEqual(DONE);
      expect(await statusesOf(host)).toMatchObject([
        { state: 'deadLettered', error: expect.stringContaining('type=LeaseTimeoutError') },
      ]);
    });
  });

  // acceptance 416; DSP-21, trap 63
  test('whose outcome cannot be recorded runs out, and others go on', async () => {
    const handler = handlerOf(SessionNote, 'Notes');
    let fails = true;
    const host = await open(
      [handler],
      { maxParallelism: 1, batchSize: 1 },
      {
        dispatchProbe: (at) => {
          if (at !== 'settling' || !fails) return;
          fails = false;
          throw new Error('no connection');
        },
      },
    );
    await queued(host, 2);
    expect(await host.dispatcher.flush()).toEqual({ inFlightRemaining: 1, pendingRemaining: 0, settled: false });
    expect((await statusesOf(host)).map((each) => each.state).sort()).toEqual(['inFlight', 'succeeded']);
    await letLeasesAge(host);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(handler.afters.map((each) => each.attempt)).toEqual([1, 1, 2]);
  });
});

describe('what cannot be done becomes a dead letter', () => {
  // acceptance 373; DSP-13, DSP-17
  test('at once, naming the scrub, when its snapshot grew too old', async () => {
    const handler = handlerOf(SessionNote, 'Notes', { before: (_, { snapshot }) => void (snapshot['name'] = 'Ada') });
    const host = await open([handler], { payloadRetention: 'PT1H' });
    await queued(host);
    await host.query(`update ${OURS}.sweep_run_row_detail set at = at - interval '61 minutes'`);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(handler.afters).toEqual([]);
    expect(await statusesOf(host)).toMatchObject([
      { state: 'deadLettered', attempt: 1, error: expect.stringContaining('scrubbed'), payload: null },
    ]);
  });

  // acceptance 375, 376; DSP-14, HREG-04, trap 55
  test('at once, when nobody has its identity; one by identity is found after a rename', async () => {
    const identity = 'b7316df4-7db5-46ad-aea7-f65c4b430f73';
    const host = await open([handlerOf(SessionNote, 'Old', { identity, priority: 1 }), handlerOf(SessionNote, 'Gone')]);
    await queued(host);
    expect((await statusesOf(host)).map((each) => each.handler).sort()).toEqual(['Gone', identity]);
    const renamed = handlerOf(SessionNote, 'New', { identity });
    const other = await open([renamed], {}, { url: host.url });
    await other.dispatcher.flush();
    expect((await statusesOf(host)).find((each) => each.handler === 'Gone')).toMatchObject({
      state: 'deadLettered',
      attempt: 1,
      error: 'No row handler is registered for Gone.',
    });
    expect((await statusesOf(host)).find((each) => each.handler === identity)).toMatchObject({ state: 'succeeded' });
    expect(renamed.afters).toHaveLength(1);
  });

  // DSP-14
  test('not where a handler was given an identity since: it is found by its name', async () => {
    const named = handlerOf(SessionNote, 'Notes', { identity: 'b7316df4-7db5-46ad-aea7-f65c4b430f73' });
    const host = await open([handlerOf(SessionNote, 'Notes')]);
    await queued(host);
    const other = await open([named], {}, { url: host.url });
    expect(await other.dispatcher.flush()).toEqual(DONE);
    expect(named.afters).toHaveLength(1);
    expect(findHandler(new Map(), 'e', 'Notes')).toBeUndefined();
  });

  // acceptance 413; PAY-04, DSP-15, trap 57
  test.each([
    [
      'its payload names another type',
      `captured_payload = '{"a":{"$cohortType":"Function","$cohortValue":"1"}}'`,
      'PayloadError',
    ],
    ['its entity is not retained', `retention_entity_id = gen_random_uuid()`, 'UnknownEntityError'],
  ])('after all of its attempts, when %s', async (_, change, type) => {
    const handler = handlerOf(SessionNote, 'Notes');
    const host = await open([handler], { maxAttempts: 2 });
    await queued(host);
    await host.query(`update ${OURS}.sweep_run_row_detail set ${change}`);
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(await statusesOf(host)).toMatchObject([
      { state: 'deadLettered', attempt: 2, error: expect.stringContaining(`type=${type}`) },
    ]);
    expect(handler.afters).toEqual([]);
  });
});

describe('dead letters', () => {
  const NEVER = 99;

  test('are listed page by page, and leave the list when they are discarded', async () => {
    const host = await open([failing(NEVER)], { maxAttempts: 1 });
    const ids = await queued(host, 3);
    await host.dispatcher.flush();
    const page = await host.dispatcher.deadLetters({ limit: 2 });
    expect(page.items).toMatchObject([
      {
        recordId: ids[0],
        handler: 'Failing',
        attempts: 1,
        outcome: 'affected',
        tenantId: 'acme',
        entity: 'SessionNote',
      },
      { recordId: ids[1] },
    ]);
    const { items, next } = await host.dispatcher.deadLetters({ cursor: page.next! });
    expect(items.map((each) => each.recordId)).toEqual([ids[2]]);
    expect(next).toBeNull();
    const letters = [...page.items, ...items].map((each) => each.id);
    expect(await host.dispatcher.discard([letters[0]!, '999999'], 'blob was gone already')).toEqual([letters[0]]);
    expect(await host.dispatcher.discard([letters[0]!], 'again')).toEqual([]);
    expect((await host.dispatcher.deadLetters()).items.map((each) => each.id)).toEqual(letters.slice(1));
    expect((await statusesOf(host))[0]).toMatchObject({
      state: 'deadLettered',
      error: 'discarded: blob was gone already',
      payload: null,
    });
  });

  test('go back into the queue with what ended because of them, and all of their attempts', async () => {
    const [first, second] = [failing(2, 'A'), handlerOf(SessionNote, 'B')];
    const host = await open([first, second], { maxAttempts: 2 });
    await queued(host);
    await host.dispatcher.flush();
    const [dead, dependent] = (await host.dispatcher.deadLetters()).items;
    expect(await host.dispatcher.requeue([dependent!.id])).toEqual({
      requeued: [],
      refused: [{ id: dependent!.id, reason: 'earlierDeadLetter' }],
    });
    expect(await host.dispatcher.requeue([dead!.id])).toEqual({ requeued: [dead!.id, dependent!.id], refused: [] });
    expect(await host.dispatcher.flush()).toEqual(DONE);
    expect(first.afters.map((each) => each.attempt)).toEqual([1, 2, 1]);
    expect(second.afters).toHaveLength(1);
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded', payload: null }, { state: 'succeeded' }]);
    expect(await host.dispatcher.requeue([dead!.id, '999999'])).toEqual({
      requeued: [],
      refused: [
        { id: dead!.id, reason: 'notDeadLettered' },
        { id: '999999', reason: 'notFound' },
      ],
    });
  });

  // DSP-16
  test('keep no snapshot unless the host says for how long', async () => {
    const capturing = () =>
      handlerOf(SessionNote, 'Capturing', {
        before: (_, { snapshot }) => void (snapshot['name'] = 'Ada'),
        after: () => {
          throw new Error('down');
        },
      });
    const host = await open([capturing()], { maxAttempts: 1 });
    await queued(host);
    await host.dispatcher.flush();
    const [cleared] = (await host.dispatcher.deadLetters()).items;
    expect(await host.dispatcher.requeue([cleared!.id])).toMatchObject({ refused: [{ reason: 'payloadCleared' }] });

    const keeping = await open([capturing()], { maxAttempts: 1, deadLetterPayloadRetention: 'P1D' }, { url: host.url });
    await queued(keeping);
    await keeping.dispatcher.flush();
    const kept = (await keeping.dispatcher.deadLetters()).items[1]!;
    expect((await statusesOf(host))[1]!.payload).toContain('Ada');
    expect(await keeping.dispatcher.requeue([kept.id])).toMatchObject({ requeued: [kept.id] });
    await keeping.dispatcher.flush();
    await set(host, `completed_at = completed_at - interval '25 hours'`);
    await keeping.dispatcher.flush();
    expect((await statusesOf(host)).map((each) => each.payload)).toEqual([null, null]);
  });

  describe('that are discarded', () => {
    /** Two handlers of one row, both dead, whose snapshot is kept. */
    async function twoDead() {
      const before: Parameters<typeof handlerOf>[2] = {
        before: (_, { snapshot }) => void (snapshot['name'] = 'Ada'),
        after: () => {
          throw new Error('down');
        },
      };
      const host = await open([handlerOf(SessionNote, 'A', before), handlerOf(SessionNote, 'B')], {
        maxAttempts: 1,
        deadLetterPayloadRetention: 'P1D',
      });
      await queued(host);
      await host.dispatcher.flush();
      const [a, b] = (await host.dispatcher.deadLetters()).items.map(({ id }) => id);
      return { host, a: a!, b: b!, payloads: async () => (await statusesOf(host)).map(({ payload }) => payload) };
    }

    test('keep the snapshot for the others of their row, until the last of those is done', async () => {
      const { host, a, b, payloads } = await twoDead();
      await host.dispatcher.discard([a], 'seen');
      expect(await payloads()).toEqual([expect.stringContaining('Ada'), expect.stringContaining('Ada')]);
      expect(await host.dispatcher.requeue([b])).toMatchObject({ requeued: [b] });
      expect(await host.dispatcher.flush()).toEqual(DONE);
      expect(await payloads()).toEqual([null, null]);
    });

    test('of one row by two at once take its snapshot along', async () => {
      const { host, a, b, payloads } = await twoDead();
      const ctx = await host.readiness.context();
      const [other] = await inLedger(ctx, async (tx) => {
        await lockDeadLetters(tx, SCHEMA, [a]);
        const discarded = await discardWork(tx, SCHEMA, [a], 'seen');
        const discarding = host.dispatcher.discard([b], 'seen');
        await Promise.race([discarding, somebodyWaits(host)]);
        await clearPayloads(tx, SCHEMA, discarded, true);
        return [discarding] as const;
      });
      expect(await other).toEqual([b]);
      expect(await payloads()).toEqual([null, null]);
    });

    test('keep nothing from the scrub', async () => {
      const { host, a, b, payloads } = await twoDead();
      await set(host, `last_error = 'discarded: by an earlier release'`, `id in (${a}, ${b})`);
      await scrubOld(await host.readiness.context());
      expect(await payloads()).toEqual([null, null]);
    });

    test('in any order by two at once do not deadlock', async () => {
      const host = await open([failing(NEVER)], { maxAttempts: 1 });
      await queued(host, 40);
      await host.dispatcher.flush();
      const ids = (await host.dispatcher.deadLetters()).items.map(({ id }) => id);
      const results = await Promise.all([
        host.dispatcher.discard(ids, 'seen'),
        host.dispatcher.discard([...ids].reverse(), 'seen'),
      ]);
      expect(results.map((each) => each.length).sort()).toEqual([0, 40]);
    });
  });

  describe('whose snapshot a scrub is about to clear', () => {
    const AGES = { payloadRetentionMs: 1e9, deadLetterPayloadRetentionMs: 0 };

    /** A dead letter that keeps its snapshot for a day, and is older. */
    async function overripe() {
      const handler = handlerOf(SessionNote, 'Capturing', {
        before: (_, { snapshot }) => void (snapshot['name'] = 'Ada'),
        after: () => {
          throw new Error('down');
        },
      });
      const host = await open([handler], { maxAttempts: 1, deadLetterPayloadRetention: 'P1D' });
      await queued(host);
      await host.dispatcher.flush();
      await set(host, `completed_at = completed_at - interval '25 hours'`);
      const { id } = (await host.dispatcher.deadLetters()).items[0]!;
      return { host, id, ctx: await host.readiness.context() };
    }

    test('are refused, not queued again without it', async () => {
      const { host, id, ctx } = await overripe();
      const requeuing = await inLedger(ctx, async (tx) => {
        await scrubPayloads(tx, SCHEMA, AGES, await lockOldPayloads(tx, SCHEMA, AGES, 9));
        const waiting = host.dispatcher.requeue([id]);
        await Promise.race([waiting, somebodyWaits(host)]);
        return [waiting] as const;
      });
      expect(await requeuing[0]).toEqual({ requeued: [], refused: [{ id, reason: 'payloadCleared' }] });
    });

    test('keep it when they are queued again first', async () => {
      const { host, id, ctx } = await overripe();
      await inLedger(ctx, async (tx) => {
        await lockDeadLetters(tx, SCHEMA, [id]);
        expect(await lockForRequeue(tx, SCHEMA, [id])).toEqual([{ id, obstacle: null }]);
        await scrubOld(ctx);
        await requeueWork(tx, SCHEMA, [id], 'none');
      });
      expect(await statusesOf(host)).toMatchObject([{ state: 'pending', payload: expect.stringContaining('Ada') }]);
    });

    test('keep it when they are queued again after the scrub has chosen them', async () => {
      const { host, id, ctx } = await overripe();
      const chosen = await inLedger(ctx, (tx) => lockOldPayloads(tx, SCHEMA, AGES, 9));
      expect(chosen).toHaveLength(1);
      expect(await host.dispatcher.requeue([id])).toMatchObject({ requeued: [id] });
      expect(await inLedger(ctx, (tx) => scrubPayloads(tx, SCHEMA, AGES, chosen))).toBe(0);
    });

    test('are all cleared, however many there are', async () => {
      const { host, ctx } = await overripe();
      await host.query(
        `insert into ${OURS}.sweep_run_row_detail
         select (jsonb_populate_record(d, jsonb_build_object('id', d.id + n, 'record_id', n::text))).* from ${OURS}.sweep_run_row_detail d, generate_series(1, 10000) n`,
      );
      await scrubOld(ctx);
      expect(await countRows(host, `${OURS}.sweep_run_row_detail`, 'captured_payload is not null')).toBe(0);
      expect(host.logs.join()).toContain('10001 captured snapshots');
    });
  });

  test('of rows that were left alone do not go back: the next sweep brings them', async () => {
    const handler = handlerOf(SessionNote, 'Kept', {
      before: () => {
        throw new Error('not now');
      },
    });
    const host = await open([handler]);
    await queued(host);
    const [letter] = (await host.dispatcher.deadLetters()).items;
    expect(letter).toMatchObject({ outcome: 'skipped', attempts: 1 });
    expect(await host.dispatcher.requeue([letter!.id])).toMatchObject({ refused: [{ reason: 'rowNotChanged' }] });
  });

  test.each<[string, (host: Host) => Promise<unknown>]>([
    ['ids', (host) => host.dispatcher.requeue('1' as never)],
    ['ids[1]', (host) => host.dispatcher.requeue(['1', 'x'])],
    ['ids[0]', (host) => host.dispatcher.discard([1 as never], 'r')],
    ['reason', (host) => host.dispatcher.discard(['1'], ' ')],
    ['reason', (host) => host.dispatcher.discard(['1'], 'x'.repeat(501))],
    ['options.limit', (host) => host.dispatcher.deadLetters({ limit: 0 })],
    ['options.cursor', (host) => host.dispatcher.deadLetters({ cursor: 'x' })],
    ['options', (host) => host.dispatcher.flush({ dryRun: true } as never)],
    ['options.signal', (host) => host.dispatcher.flush({ signal: 1 as never })],
  ])('refuse a wrong %s', async (argument, call) => {
    const host = await open([]);
    await expect(call(host)).rejects.toMatchObject({ code: 'invalid-argument', argument });
  });
});

describe('the loop', () => {
  /** A host whose dispatcher runs, as it does in an application, until the test ends. */
  const loops: Host[] = [];
  const start = (host: Host) => {
    loops.push(host);
    host.dispatcher.onApplicationBootstrap();
  };
  const stopLoops = () => Promise.all(loops.splice(0).map((host) => host.dispatcher.onModuleDestroy()));

  // DSP-01
  test('does work as it comes, by polling, and waits between attempts', async () => {
    const handler = failing(1);
    const host = await open([handler], { pollInterval: 20, baseBackoff: 30 });
    start(host);
    try {
      await queued(host, 3);
      await until(() =>
        countRows(
          host,
          `(select count(*) as n from ${OURS}.sweep_row_handler_status where state = 'succeeded') as s`,
          'n = 3',
        ),
      );
      expect(handler.afters.map((each) => each.attempt).sort()).toEqual([1, 1, 1, 2]);
    } finally {
      await stopLoops();
    }
  });

  // design 4.1
  test.each([false, true])(
    'is woken by word of new work on a connection of its own, also after losing it (%p)',
    async (loses) => {
      const handler = handlerOf(SessionNote, 'Notes');
      const first = await open([handler]);
      const host = await openHost({
        ...notesHost,
        url: first.url,
        providers: [handler],
        options: { ...notesHost.options, listenUrl: first.url, rowHandlerDispatch: { pollInterval: 'P1D' } },
      });
      const listens = () =>
        countRows(
          first,
          'pg_stat_activity',
          `application_name = 'cohort listener' and query like 'listen%' and state = 'idle'`,
        );
      start(host);
      try {
        await until(listens);
        if (loses) {
          await first.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cohort listener'`,
          );
          await until(listens);
        }
        await queued(first);
        await until(() => countRows(host, `${OURS}.sweep_row_handler_status`, `state = 'succeeded'`));
      } finally {
        await stopLoops();
      }
      await until(async () => Number((await listens()) === 0));
    },
  );

  // acceptance 407; DSP-18
  test('ends when it is stopped while its listener still connects', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const listenUrl = `postgresql://nobody@127.0.0.1:${port}/nothing`;
    const host = await openHost({
      ...notesHost,
      options: { ...notesHost.options, listenUrl },
      providers: [handlerOf(SessionNote, 'Notes')],
    });
    const connecting = once(silent, 'connection') as Promise<[Socket]>;
    start(host);
    const [socket] = await connecting;
    await stopLoops();
    socket.destroy();
    silent.close();
    await once(silent, 'close');
  });

  // acceptance 405, 407; DSP-18
  test('gives back what it has claimed when the host stops, and asks handlers at work to end', async () => {
    const reached = latch();
    const handler = handlerOf(SessionNote, 'Notes', {
      after: async ({ signal }) => {
        reached.open();
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      },
    });
    const host = await open([handler], { maxParallelism: 2, batchSize: 10 });
    await queued(host, 5);
    start(host);
    await reached.opened;
    await stopLoops();
    const statuses = await statusesOf(host);
    expect(statuses.map((each) => each.state)).toEqual(Array.from({ length: 5 }, () => 'pending'));
    expect(statuses.map((each) => each.attempt)).toEqual([1, 1, 0, 0, 0]);
  });

  test('lets the host stop only when a flush in progress has recorded what it did', async () => {
    const [reached, resume] = [latch(), latch()];
    const host = await open([handlerOf(SessionNote, 'Notes', { after: () => (reached.open(), resume.opened) })]);
    await queued(host);
    const flush = host.dispatcher.flush();
    await reached.opened;
    let hasStopped = false;
    const stopping = host.dispatcher.onModuleDestroy().then(() => (hasStopped = true));
    // As many turns of the event loop as a stop that waits for nothing could need.
    await countRows(host, `${OURS}.sweep_run`);
    expect(hasStopped).toBe(false);
    resume.open();
    await stopping;
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded' }]);
    expect(await flush).toEqual(DONE);
  });

  test('lets the host stop after shutdownTimeout, whatever a flush in progress does', async () => {
    const [reached, resume] = [latch(), latch()];
    const host = await open(
      [handlerOf(SessionNote, 'Notes', { after: () => (reached.open(), resume.opened) })],
      {},
      { options: { ...notesHost.options, worker: { shutdownTimeout: 0 } } },
    );
    await queued(host);
    const flush = host.dispatcher.flush();
    await reached.opened;
    await host.dispatcher.onModuleDestroy();
    expect(await statusesOf(host)).toMatchObject([{ state: 'inFlight' }]);
    expect(host.logs.join()).toContain('still busy after 0 ms');
    resume.open();
    await flush;
  });

  // acceptance 406; DSP-18, trap 62
  test('keeps what a handler completed while the host stops', async () => {
    const reached = latch();
    const handler = handlerOf(SessionNote, 'Notes', {
      after: async ({ signal }) => {
        reached.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    const host = await open([handler]);
    await queued(host);
    start(host);
    await reached.opened;
    await stopLoops();
    expect(await statusesOf(host)).toMatchObject([{ state: 'succeeded', attempt: 1 }]);
  });

  /** A handler that hangs at its first row until it is released. */
  function hanging() {
    const [reached, released] = [latch(), latch()];
    const handler = handlerOf(SessionNote, 'Notes', {
      after: async () => {
        if (handler.afters.length > 1) return;
        reached.open();
        await released.opened;
      },
    });
    return { handler, reached, released };
  }
  const haveSucceeded = (host: Host, count: number) =>
    until(() =>
      countRows(
        host,
        `(select count(*) as n from ${OURS}.sweep_row_handler_status where state = 'succeeded') as s`,
        `n = ${count}`,
      ),
    );

  // DSP-01, DSP-08
  test.each([false, true])('does other work as it comes while a handler hangs (told of it: %p)', async (isTold) => {
    const { handler, reached, released } = hanging();
    const first = await open([handler]);
    const host = await openHost({
      ...notesHost,
      url: first.url,
      providers: [handler],
      options: {
        ...notesHost.options,
        listenUrl: isTold ? first.url : null,
        rowHandlerDispatch: { maxParallelism: 2, pollInterval: isTold ? 'P1D' : 20 },
      },
    });
    await queued(first);
    start(host);
    try {
      await reached.opened;
      await queued(first, 2);
      await haveSucceeded(host, 2);
    } finally {
      released.open();
      await stopLoops();
    }
    await haveSucceeded(host, 3);
  });

  // DSP-01, DSP-24
  test('recovers what others lost while its only slot hangs', async () => {
    const { handler, reached, released } = hanging();
    const host = await open([handler], { maxParallelism: 1, batchSize: 1, pollInterval: 20 });
    await queued(host);
    start(host);
    try {
      await reached.opened;
      await addNotes(host, [{ days: 600 }]);
      await host.sweep.sweep(ACME, NOW);
      const [, lost] = await statusesOf(host);
      await set(host, `${CLAIMED}, attempt = 1`, `id = ${lost!.id}`);
      await set(host, `claimed_at = claimed_at - interval '2 days'`, `id = ${lost!.id}`);
      await until(() => countRows(host, `${OURS}.sweep_row_handler_status`, `id = ${lost!.id} and state = 'pending'`));
    } finally {
      released.open();
      await stopLoops();
    }
  });

  // acceptance 138; DSP-25
  test('leaves the queue to others where nobody handles anything', async () => {
    const host = await open([handlerOf(SessionNote, 'Notes')]);
    await queued(host);
    await set(host, `${CLAIMED}, attempt = 1`);
    await letLeasesAge(host);
    const idle = await open([], { pollInterval: 20 }, { url: host.url });
    start(idle);
    try {
      await until(() => countRows(host, `${OURS}.sweep_row_handler_status`, `state = 'pending'`));
    } finally {
      await stopLoops();
    }
    expect(await statusesOf(host)).toMatchObject([{ state: 'pending', attempt: 1 }]);
  });
});

// acceptance 369
test('a file goes after its row has gone, by the path that was captured', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cohort-'));
  try {
    const handler = handlerOf(SessionNote, 'Files', {
      before: ({ id }: SessionNote, { snapshot }) => void (snapshot['path'] = join(folder, `${id}.pdf`)),
      after: async ({ snapshot }) => rm(snapshot['path'] as string, { force: true }),
    });
    const host = await open([handler]);
    const ids = await addNotes(host, [{}, { days: 1 }]);
    for (const id of ids) await writeFile(join(folder, `${id}.pdf`), 'x');
    await host.sweep.sweep(ACME, NOW);
    for (const id of ids) await access(join(folder, `${id}.pdf`));
    await host.dispatcher.flush();
    await expect(access(join(folder, `${ids[0]}.pdf`))).rejects.toThrow('ENOENT');
    await access(join(folder, `${ids[1]}.pdf`));
  } finally {
    await rm(folder, { recursive: true });
  }
});

// acceptance 380
test.each([
  ['a claim without a token', `state = 'inFlight', claimed_at = now()`],
  ['a token without a claim', `claim_token = gen_random_uuid()`],
  ['an end that is none', `completed_at = now()`],
  ['an end without its time', `state = 'succeeded'`],
  ['an unknown state', `state = 'lost'`],
  ['an unknown phase', `dispatch_phase = 'never'`],
  ['a negative attempt', `attempt = -1`],
])('the database refuses %s', async (_, change) => {
  const host = await open([handlerOf(SessionNote, 'Notes')]);
  await queued(host);
  await expect(set(host, change)).rejects.toThrow('check constraint');
});
