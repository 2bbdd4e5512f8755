import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  DryRunOnlyError,
  InvalidArgumentError,
  type RetentionDeletionError,
  Strategy,
  TENANTLESS,
  TenantContext,
} from 'nestjs-cohort';
import { inLedger } from '../../src/engine/context.js';
import { recordKey, tryLockKey } from '../../src/sql/hold-locks.js';
import { type Host, type HostOptions, latch, openHost } from '../support/host.js';
import { model } from '../support/models.js';
import { ACME, CaseContact, GLOBEX, NOTE_ID, SessionNote, Signal, Ticket, notesHost } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { addContacts, addNotes, addTickets, countRows, holdOn, somebodyWaits } from '../support/seed.js';

/** Runs something as if no transaction of the test's were open around it. */
const outside = AsyncLocalStorage.snapshot();

const open = (input: Partial<HostOptions> = {}) => openHost({ ...notesHost, ...input });
const noteOf = (recordId: string, tenant = ACME) => ({ entity: SessionNote, recordId, tenant });
const deleting =
  (...ids: string[]) =>
  async (em: SqlEntityManager) => {
    await em.nativeDelete(SessionNote, { id: { $in: ids } });
  };
const lastRun = async (host: Host) => host.ledger.run((await host.ledger.runs()).items[0]!.sweepId);

describe('a deletion of the application', () => {
  // acceptance 365; DEL-06
  test('runs in one transaction with the targets, and leaves a run of its own kind', async () => {
    const host = await open();
    const [first, second, other] = await addNotes(host, [{}, {}, {}]);
    const outcome = await host.deletion.execute([noteOf(first!), noteOf(second!)], deleting(first!, second!), {
      actor: 'desk-4',
    });
    expect(outcome).toBe('executed');
    expect(await host.query('select id from session_notes')).toEqual([{ id: other }]);
    expect(await lastRun(host)).toMatchObject({
      trigger: 'deletion',
      status: 'succeeded',
      actor: 'desk-4',
      tenantId: 'acme',
      totalAffected: 2,
      summaries: [{ entity: 'SessionNote', strategy: 'purge', affected: 2, held: 0 }],
    });
  });

  // acceptance 364; DEL-05; field case C01
  test('is not begun when any target is held, which the ledger says', async () => {
    const host = await open();
    const [held, free] = await addNotes(host, [{}, {}]);
    const hold = holdOn(SessionNote, held!);
    await host.holds.create(hold);
    let called = false;
    const work = async () => {
      called = true;
    };
    expect(await host.deletion.execute([noteOf(free!), noteOf(held!)], work)).toBe('protected');
    expect(called).toBe(false);
    expect(await countRows(host, 'session_notes')).toBe(2);
    expect(await lastRun(host)).toMatchObject({ totalAffected: 0, summaries: [{ affected: 0, held: 1 }] });
    await host.holds.release(hold.holdId);
    expect(await host.deletion.execute([noteOf(held!)], deleting(held!))).toBe('executed');
  });

  // acceptance 366; DEL-07
  test('that fails leaves everything as it was, and its own error is thrown', async () => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    const failing = async (em: SqlEntityManager) => {
      await deleting(id!)(em);
      throw new Error('the folder is gone');
    };
    await expect(host.deletion.execute([noteOf(id!)], failing)).rejects.toThrow('the folder is gone');
    expect(await countRows(host, 'session_notes')).toBe(1);
    expect(await lastRun(host)).toMatchObject({ status: 'failed', totalAffected: 0 });
  });

  test('may be of changes that are only flushed at its end', async () => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    const outcome = await host.deletion.execute([noteOf(id!)], async (em) => {
      em.remove(await em.findOneOrFail(SessionNote, { id }));
    });
    expect(outcome).toBe('executed');
    expect(await lastRun(host)).toMatchObject({ totalAffected: 1 });
  });

  test('counts what is gone, whatever it was told', async () => {
    const host = await open();
    const [gone, kept] = await addNotes(host, [{}, {}]);
    await host.deletion.execute([noteOf(gone!), noteOf(kept!)], deleting(gone!));
    expect(await lastRun(host)).toMatchObject({ totalAffected: 1 });
  });

  // DEL-08
  test('may name rows that do not exist', async () => {
    const host = await open();
    expect(await host.deletion.execute([noteOf(randomUUID())], async () => undefined)).toBe('executed');
    expect(await lastRun(host)).toMatchObject({ totalAffected: 0 });
  });

  // DEL-03, DEL-04
  test('takes rows of several entities and tenants, a run a tenant, each once however it is spelt', async () => {
    const host = await open();
    const [note] = await addNotes(host, [{}]);
    const [contact] = await addContacts(host, [{ tenant: GLOBEX.id }]);
    const [ticket] = await addTickets(host, [{}]);
    await host.query(`insert into signals(id, seen_at) values (5, now())`).catch(() => undefined);
    const targets = [
      noteOf(note!),
      { entity: NOTE_ID, recordId: note!.toUpperCase(), tenant: ACME },
      { entity: CaseContact, recordId: contact!, tenant: GLOBEX },
      { entity: Ticket, recordId: ` ${ticket}`, tenant: ACME },
    ];
    await host.deletion.execute(targets, async (em) => {
      await em.nativeDelete(SessionNote, {});
      await em.nativeDelete(CaseContact, {});
      await em.nativeDelete(Ticket, {});
    });
    const { items } = await host.ledger.runs();
    expect(items.map((run) => [run.tenantId, run.totalAffected]).sort()).toEqual([
      ['acme', 2],
      ['globex', 1],
    ]);
  });
});

describe('a tenant in two spellings of one UUID', () => {
  const TENANT = randomUUID();
  const UPPER = new TenantContext(TENANT.toUpperCase());

  async function openTenanted(rows: number) {
    const note = model({ properties: { tenantId: { type: 'uuid' } } });
    const host = await openHost({
      entities: [note],
      options: { rules: { notes: { period: 'P30D', strategy: Strategy.Purge } } },
    });
    const ids = await host.query<{ id: string }>(
      `insert into note(id, tenant_id, created_at) select gen_random_uuid(), $1, now() from generate_series(1, $2) returning id`,
      [TENANT, rows],
    );
    return { host, note, ids: ids.map(({ id }) => id) };
  }

  test('is one run', async () => {
    const { host, note, ids } = await openTenanted(2);
    const [first, second] = ids;
    const targets = [
      { entity: note, recordId: first!, tenant: new TenantContext(TENANT) },
      { entity: note, recordId: second!, tenant: UPPER },
    ];
    expect(await host.deletion.execute(targets, (em) => em.nativeDelete(note, {}).then(() => undefined))).toBe(
      'executed',
    );
    expect((await host.ledger.runs()).items.map((run) => [run.tenantId, run.totalAffected])).toEqual([[TENANT, 2]]);
    expect((await lastRun(host))!.summaries).toMatchObject([{ tenantId: TENANT, affected: 2, held: 0 }]);
  });

  test('is one summary of what is held', async () => {
    const { host, note, ids } = await openTenanted(2);
    const [held, free] = ids;
    await host.holds.create(holdOn(note, held!, UPPER));
    const targets = [
      { entity: note, recordId: free!, tenant: new TenantContext(TENANT) },
      { entity: note, recordId: held!, tenant: UPPER },
    ];
    expect(await host.deletion.execute(targets, async () => undefined)).toBe('protected');
    expect((await lastRun(host))!.summaries).toMatchObject([{ tenantId: TENANT, affected: 0, held: 1 }]);
  });

  test('locks the record key that a hold on the row would lock', async () => {
    const { host, note, ids } = await openTenanted(1);
    const [id] = ids;
    const ctx = await host.readiness.context();
    const key = recordKey(ctx.registry.find(note)!.entityId, id!, TENANT);
    const isFree = () => outside(() => inLedger(ctx, (tx) => tryLockKey(tx, key)));
    let isFreeMeanwhile: boolean | undefined;
    await host.deletion.execute([{ entity: note, recordId: id!, tenant: UPPER }], async () => {
      isFreeMeanwhile = await isFree();
    });
    expect([isFreeMeanwhile, await isFree()]).toEqual([false, true]);
  });
});

describe('a hold and a deletion of the same row', () => {
  test('that come at once: the hold waits, and then the row is gone, loudly', async () => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    const reached = latch();
    const resume = latch();
    const deletion = host.deletion.execute([noteOf(id!)], async (em) => {
      await deleting(id!)(em);
      reached.open();
      await resume.opened;
    });
    await reached.opened;
    const placing = host.holds.create(holdOn(SessionNote, id!)).catch((error: { code: string }) => error.code);
    await somebodyWaits(host);
    resume.open();
    expect(await deletion).toBe('executed');
    expect(await placing).toBe('hold-record-missing');
  });

  test('that come at once the other way round: the deletion waits, and is refused', async () => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    let deletion!: Promise<string>;
    await host.orm.em.fork().transactional(async (em) => {
      await host.holds.create(holdOn(SessionNote, id!), { em });
      deletion = outside(() => host.deletion.execute([noteOf(id!)], deleting(id!)));
      await somebodyWaits(host);
    });
    expect(await deletion).toBe('protected');
    expect(await countRows(host, 'session_notes')).toBe(1);
  });

  test('do not deadlock with each other in any order of many rows', async () => {
    const host = await open();
    const ids = await addNotes(
      host,
      Array.from({ length: 20 }, () => ({})),
    );
    const rounds = Array.from({ length: 4 }, (_, round) => {
      const mixed = round % 2 === 0 ? ids : [...ids].reverse();
      return round < 2
        ? host.deletion.execute(
            mixed.map((id) => noteOf(id)),
            async () => undefined,
          )
        : host.holds.create(mixed.map((id) => holdOn(SessionNote, id)));
    });
    const results = await Promise.allSettled(rounds);
    expect(results.filter((result) => result.status === 'rejected')).toEqual([]);
    expect(await countRows(host, 'session_notes')).toBe(20);
  });
});

describe('a deletion is refused, and nothing is done,', () => {
  const never = async () => {
    throw new Error('called');
  };
  const refusal = (host: Host, targets: unknown, work: unknown = never) =>
    host.deletion.execute(targets as never, work as never).then(
      () => undefined,
      (error: RetentionDeletionError) => error,
    );

  // DEL-01
  test.each<[string, unknown]>([
    ['without targets', []],
    ['with null for them', null],
    ['with a null among them', [null]],
    ['with a key that nobody knows', [{ ...noteOf(randomUUID()), reason: 'x' }]],
    ['with an empty id', [noteOf('')]],
    ['without a tenant', [{ entity: SessionNote, recordId: randomUUID() }]],
  ])('%s', async (_, targets) => {
    const host = await open();
    expect(await refusal(host, targets)).toBeInstanceOf(InvalidArgumentError);
    expect(await countRows(host, `${OURS}.sweep_run`)).toBe(0);
  });

  test.each<[string, (id: string) => unknown, string]>([
    ['of an entity that is not retained', (id) => ({ ...noteOf(id), entity: randomUUID() }), 'deletion-unknown-entity'],
    ['without a tenant for a row of one', (id) => noteOf(id, TENANTLESS), 'deletion-tenant-mismatch'],
    [
      'with a tenant for a row of none',
      () => ({ entity: Signal, recordId: randomUUID(), tenant: ACME }),
      'deletion-tenant-mismatch',
    ],
    ['with the tenant of another row', (id) => noteOf(id, GLOBEX), 'deletion-tenant-mismatch'],
    ['with an id of another type', () => noteOf('seven'), 'deletion-record-id-invalid'],
  ])('%s', async (_, target, code) => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    expect(await refusal(host, [target(id!)])).toMatchObject({ code });
    expect(await countRows(host, 'session_notes')).toBe(1);
  });

  // DEL-02
  test('inside of an open transaction', async () => {
    const host = await open();
    const [id] = await addNotes(host, [{}]);
    const code = await host.orm.em.transactional(async () => (await refusal(host, [noteOf(id!)]))?.code);
    expect(code).toBe('deletion-in-transaction');
  });

  test('by a host in dry run', async () => {
    const host = await open({ options: { ...notesHost.options, dryRun: true } });
    expect(await refusal(host, [noteOf(randomUUID())])).toBeInstanceOf(DryRunOnlyError);
  });

  test('where others keep a target locked', async () => {
    const host = await open({ options: { ...notesHost.options, batchTimeout: 'PT1S' } });
    const [id] = await addNotes(host, [{}]);
    await host.orm.em.fork().transactional(async (em) => {
      await em.getConnection().execute('select 1 from session_notes for update', [], 'run', em.getTransactionContext());
      expect(await outside(() => refusal(host, [noteOf(id!)]))).toMatchObject({ code: 'deletion-busy' });
    });
  });
});
