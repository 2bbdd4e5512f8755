import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { verifyEvidence } from '../src/evidence/verify-evidence.js';
import type { Database } from '../src/platform/database.js';
import { runSql } from '../src/platform/sql.js';
import { openGovernance } from './support/governance.js';
import { until } from './support/until.js';

describe('evidence', () => {
  let world: Awaited<ReturnType<typeof openGovernance>>;
  beforeEach(async () => {
    world = await openGovernance({ pool: 20 });
  });
  afterEach(() => world.close());

  const entry = (payload: Record<string, unknown> = { n: 1 }) => ({ kind: 'test', orderId: null, actor: 'a', payload });
  const append = (tenant: string, ...payloads: Record<string, unknown>[]) =>
    world.database.inTenant(tenant, (em) => world.evidence.append(em, tenant, payloads.map(entry)));
  const breaks = async () => (await verifyEvidence(world.database)).breaks;
  const refusal = (statement: string) =>
    world.database
      .asPlatform((em) => runSql(em, statement))
      .then(
        () => 'done',
        (error: { message: string }) => error.message,
      );

  /** As someone who owns the server and switches the triggers off. */
  const tamper = async (statement: string) => {
    const owner = new pg.Client(world.ownerUrl);
    await owner.connect();
    try {
      await owner.query(`set session_replication_role = replica; ${statement}`);
    } finally {
      await owner.end();
    }
  };

  // field case C42
  test('of twenty writers at once is one whole chain', async () => {
    const writers = Array.from({ length: 20 }, async (_, writer) => {
      for (let n = 0; n < 25; n++) await append('acme', ...Array.from({ length: 10 }, (_, m) => ({ writer, n, m })));
    });
    await Promise.all(writers);
    expect(await verifyEvidence(world.database)).toEqual({ chains: 1, entries: 5000, breaks: [] });
  });

  // field case C42
  test.each([
    ['a payload', `update EVIDENCE set payload = '{"n": 2}' where tenant_id = 'acme' and seq = 3`, '3', /payload/],
    ['an actor', `update EVIDENCE set actor = 'b' where tenant_id = 'acme' and seq = 3`, '3', /actor/],
    ['a time', `update EVIDENCE set at = at + interval '1 us' where tenant_id = 'acme' and seq = 4`, '4', /time/],
    ['a kind', `update EVIDENCE set kind = 'toast' where tenant_id = 'acme' and seq = 2`, '2', /kind/],
    ['a digest', `update EVIDENCE set hash = 'x' where tenant_id = 'acme' and seq = 2`, '2', /digests/],
    ['the last entry', `delete from EVIDENCE where tenant_id = 'acme' and seq = 5`, '4', /knows 5/],
    ['an entry between', `delete from EVIDENCE where tenant_id = 'acme' and seq = 3`, '4', /entry 3 is missing/],
    ['the first entry', `delete from EVIDENCE where tenant_id = 'acme' and seq = 1`, '2', /entry 1 is missing/],
    ['every entry', `delete from EVIDENCE where tenant_id = 'acme'`, '5', /every entry/],
    ['the head', `delete from EVIDENCE_heads where tenant_id = 'acme'`, '0', /head/],
    [
      'the last two entries, and told the head',
      `delete from EVIDENCE where tenant_id = 'acme' and seq > 3;
       update EVIDENCE_heads set last_seq = 3 where tenant_id = 'acme'`,
      '3',
      /not the last/,
    ],
  ])('shows that somebody altered or removed %s', async (_, statement, seq, what) => {
    await append('acme', { n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 });
    await append('globex', { n: 1 });
    expect(await breaks()).toEqual([]);
    await tamper(statement.replaceAll('EVIDENCE', 'data_foundations.evidence'));
    const [found, ...others] = await breaks();
    expect(found).toMatchObject({ tenantId: 'acme', seq });
    expect(found?.what).toMatch(what);
    expect(others).toEqual([]);
  });

  test('is refused every change by SQL, also to the platform role', async () => {
    await append('acme', { n: 1 }, { n: 2 });
    expect(await refusal(`update data_foundations.evidence set kind = 'x'`)).toMatch(/append-only/);
    expect(await refusal(`update data_foundations.evidence set actor = null, payload = null`)).toMatch(
      /append-only|check/,
    );
    expect(await refusal(`delete from data_foundations.evidence`)).toMatch(/append-only/);
    expect(await refusal(`update data_foundations.evidence_heads set last_seq = 1`)).toMatch(/only move forward/);
    expect(await refusal(`truncate data_foundations.evidence`)).toMatch(/permission denied|append-only/);
    expect(await breaks()).toEqual([]);
  });

  test('that is redacted keeps its chain, says so itself, and tells nothing any more', async () => {
    await append('acme', { who: 'marker' }, { n: 2 });
    const why = { kind: 'evidence-redacted', orderId: null, actor: 'GovernanceHost', payload: {} };
    expect(await world.database.asPlatform((em) => world.evidence.redact(em, 'acme', why))).toBe(2);
    const rows = await world.database.asPlatform((em) =>
      runSql<{ kind: string; actor: string | null; payload: unknown }>(
        em,
        'select kind, actor, payload from data_foundations.evidence order by seq',
      ),
    );
    expect(rows).toEqual([
      { kind: 'test', actor: null, payload: null },
      { kind: 'test', actor: null, payload: null },
      { kind: 'evidence-redacted', actor: 'GovernanceHost', payload: { redacted: 2, redactedUpTo: '2' } },
    ]);
    await append('acme', { n: 4 });
    expect(await verifyEvidence(world.database)).toEqual({ chains: 1, entries: 4, breaks: [] });
  });

  const age = () => world.evidence.age(world.database, 10);
  /** By the database's clock, two of acme and one of globex just too old, one of acme just too young. */
  const appendAged = async () => {
    const day = 86_400_000;
    const sevenYears = new Date();
    sevenYears.setUTCFullYear(sevenYears.getUTCFullYear() - 7);
    world.time.advance(sevenYears.getTime() - world.time.now().getTime() - day);
    await append('acme', { n: 1 }, { n: 2 });
    await append('globex', { n: 1 });
    world.time.advance(2 * day);
    await append('acme', { n: 3 });
  };

  test('older than seven years goes from the front, and the rest stays whole', async () => {
    await appendAged();
    expect(await age()).toBe(3);
    expect(await age()).toBe(0);
    expect(await verifyEvidence(world.database)).toEqual({ chains: 2, entries: 1, breaks: [] });
    await append('globex', { n: 2 });
    await append('acme', { n: 4 });
    expect(await verifyEvidence(world.database)).toEqual({ chains: 2, entries: 3, breaks: [] });
  });

  const asOwner = async (body: (owner: pg.Client) => Promise<void>) => {
    const owner = new pg.Client(world.ownerUrl);
    await owner.connect();
    try {
      await body(owner);
    } finally {
      await owner.end();
    }
  };

  test('that ages is locked for one tenant at a time', async () => {
    await appendAged();
    await asOwner(async (owner) => {
      await owner.query('begin');
      await owner.query(`select from data_foundations.evidence_heads where tenant_id = 'globex' for update`);
      const ageing = age();
      await until(async () => (await verifyEvidence(world.database)).entries === 2);
      await append('acme', { n: 4 });
      await owner.query('commit');
      expect(await ageing).toBe(3);
    });
  });

  test('that cannot age is tried again, and holds up no other tenant', async () => {
    await appendAged();
    await asOwner(async (owner) => {
      await owner.query(
        `alter table data_foundations.evidence_heads
         add constraint acme_stays check (tenant_id <> 'acme' or first_seq = 1)`,
      );
      expect(await age()).toBe(1);
      await owner.query('alter table data_foundations.evidence_heads drop constraint acme_stays');
      expect(await age()).toBe(2);
    });
    expect((await verifyEvidence(world.database)).breaks).toEqual([]);
  });

  test('that is appended while the front goes is whole, whichever of both came first', async () => {
    const isWaiting = async () => {
      let count = 0;
      await asOwner(async (owner) => {
        const { rows } = await owner.query(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        count = rows.length;
      });
      return count > 0;
    };
    /** Runs the first one, and the second beside it before the first has committed. */
    const overlapping = async (
      first: (pause: () => Promise<void>) => Promise<unknown>,
      second: () => Promise<unknown>,
    ) => {
      const done = Promise.withResolvers<void>();
      const mayCommit = Promise.withResolvers<void>();
      const pause = () => {
        done.resolve();
        return mayCommit.promise;
      };
      const both = [first(pause)];
      await done.promise;
      both.push(second());
      await until(isWaiting);
      mayCommit.resolve();
      return Promise.all(both);
    };
    /** Stands still in the transaction of a chain. */
    const ageing = (pause: () => Promise<void>) => {
      const asPlatform: Database['asPlatform'] = (work) =>
        world.database.asPlatform(async (em) => {
          const done = await work(em);
          if (typeof done === 'number') await pause();
          return done;
        });
      return world.evidence.age({ asPlatform } as Database, 10);
    };
    const now = world.time.now();
    world.time.advance(new Date('2001-01-01T00:00:00Z').getTime() - now.getTime());
    await append('acme', { n: 1 }, { n: 2 });
    expect(await overlapping(ageing, () => append('acme', { n: 3 }))).toEqual([2, undefined]);
    expect(await verifyEvidence(world.database)).toEqual({ chains: 1, entries: 1, breaks: [] });

    world.time.advance(Date.now() - world.time.now().getTime());
    const appending = (pause: () => Promise<void>) =>
      world.database.inTenant('acme', async (em) => {
        await world.evidence.append(em, 'acme', [entry({ n: 4 })]);
        await pause();
      });
    expect(await overlapping(appending, () => age())).toEqual([undefined, 1]);
    expect(await verifyEvidence(world.database)).toEqual({ chains: 1, entries: 1, breaks: [] });
  });

  test('of a transaction that fails does not exist', async () => {
    const failing = world.database.inTenant('acme', async (em) => {
      await world.evidence.append(em, 'acme', [entry()]);
      throw new Error('the change failed');
    });
    await expect(failing).rejects.toThrow('the change failed');
    expect(await verifyEvidence(world.database)).toEqual({ chains: 0, entries: 0, breaks: [] });
  });
});
