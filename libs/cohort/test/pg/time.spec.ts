import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  RetentionCategoryCapabilities,
  type RetentionResolutionContext,
  RetentionRule,
  RetentionRuleProvider,
} from 'nestjs-cohort';
import { type Host, openHost, startHost } from '../support/host.js';
import { anonymisable, model } from '../support/models.js';
import { ACME, NOW, notesHost } from '../support/notes.js';
import { SCHEMA } from '../support/schema.js';
import { addContacts, addNotes, addTickets, countRows } from '../support/seed.js';

const PROGRAM = fileURLToPath(new URL('../programs/sweeper.mjs', import.meta.url));
const ZONES = ['UTC', 'America/New_York', 'Asia/Tokyo'];

describe('the cutoff', () => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost(notesHost);
  });
  afterAll(() => host.close());

  // acceptance 232-234, 242; DOM-15
  test.each([
    ['session_notes', addNotes, 'P30D', 'true'],
    ['case_contacts', addContacts, 'P1Y', 'anonymised_at is null'],
    ['tickets', addTickets, 'P90D', 'not is_deleted'],
  ] as const)(
    'is strict: a row of %s exactly at it stays, a microsecond older goes',
    async (table, add, period, open) => {
      const anchor = table === 'tickets' ? 'closed_at' : 'created_at';
      await host.query(`truncate ${table}`);
      const [older, exact, younger] = await add(host, [{}, {}, {}]);
      for (const [id, shift] of [
        [older, '-1 microsecond'],
        [exact, '0'],
        [younger, '1 microsecond'],
      ]) {
        await host.query(
          `update ${table} set ${anchor} = $1::timestamptz - $2::interval + $3::interval where id::text = $4`,
          [NOW.toISOString(), period, shift, id],
        );
      }
      const first = await host.sweep.sweep(ACME, NOW);
      expect(first.counts.reduce((sum, each) => sum + each.affected, 0)).toBe(1);
      expect(await countRows(host, table, `id::text = any($1) and ${open}`, [[exact, younger]])).toBe(2);
      const second = await host.sweep.sweep(ACME, NOW);
      expect(second.counts.every((each) => each.affected === 0)).toBe(true);
    },
  );

  // SWP-11, SWP-35
  test('and the stamps follow the logical now, the run’s own times the wall clock', async () => {
    await host.query('truncate case_contacts, tickets');
    await addContacts(host, [{}]);
    await addTickets(host, [{}]);
    const before = Date.now() - 1000;
    const result = await host.sweep.sweep(ACME, NOW);
    expect(await host.query('select anonymised_at = $1 as stamped from case_contacts', [NOW.toISOString()])).toEqual([
      { stamped: true },
    ]);
    expect(await host.query('select deleted_at = $1 as stamped from tickets', [NOW.toISOString()])).toEqual([
      { stamped: true },
    ]);
    expect(result.startedAt.getTime()).toBeGreaterThan(before);
    expect(await host.ledger.run(result.sweepId)).toMatchObject({
      logicalNow: NOW,
      startedAt: result.startedAt,
      settledAt: result.completedAt,
    });
  });
});

// field case C22
test('the same single row goes in every zone of the host and of the database', async () => {
  const host = await startHost(notesHost);
  try {
    const [{ name }] = (await host.query<{ name: string }>('select current_database() as name')) as [{ name: string }];
    const removed: string[] = [];
    for (const zone of ZONES) {
      await host.query(`alter database ${name} set timezone = '${zone}'`);
      for (const TZ of ZONES) {
        await host.query('truncate session_notes');
        await addNotes(host, [{}, {}]);
        await host.query(
          `update session_notes set body = 'older', created_at = $1::timestamptz - interval '3 hours' where id = (select min(id::text)::uuid from session_notes)`,
          [cutoff()],
        );
        await host.query(
          `update session_notes set body = 'younger', created_at = $1::timestamptz + interval '3 hours' where body = 'body'`,
          [cutoff()],
        );
        await promisify(execFile)(process.execPath, [PROGRAM, host.url, SCHEMA, 'never', '0'], {
          env: { ...process.env, TZ },
        });
        const left = await host.query<{ body: string }>('select body from session_notes');
        removed.push(left.map((row) => row.body).join());
      }
    }
    expect(removed).toEqual(Array.from({ length: 9 }, () => 'younger'));
  } finally {
    await host.close();
  }
});

const cutoff = () => new Date(NOW.getTime() - 30 * 86_400_000).toISOString();

/** Moves the date that it is given to look something up, and forgets to move it back. */
class Careless extends RetentionRuleProvider {
  override getCapabilities = () => new RetentionCategoryCapabilities(['purge']);
  override resolve = ({ now }: RetentionResolutionContext) => {
    now.setFullYear(now.getFullYear() + 60);
    return new RetentionRule({ period: 'P50Y', strategy: 'purge' });
  };
}

describe('a date that is moved does not move the cutoff:', () => {
  test('by the provider of the rules', async () => {
    const host = await openHost({ entities: [model()], options: { rules: new Careless() } });
    await host.query(`insert into note values (gen_random_uuid(), 'acme', '2020-01-01')`);
    await host.sweep.sweep(ACME, new Date(NOW));
    expect(await countRows(host, 'note')).toBe(1);
  });

  test('by the caller, while the sweep runs', async () => {
    const host = await openHost(notesHost);
    await addNotes(host, [{ days: 10 }]);
    const now = new Date(NOW);
    const sweeps = [host.sweep.sweep(ACME, now), host.preview.preview(ACME, now)] as const;
    now.setFullYear(now.getFullYear() + 1);
    await Promise.all(sweeps);
    expect(await countRows(host, 'session_notes')).toBe(1);
    const [seen] = (await sweeps[1]).counts.filter((count) => count.entity === 'SessionNote');
    expect(seen).toMatchObject({ affected: 0 });
  });

  test('by a factory, nor the stamp of its rows', async () => {
    class Careless {
      create = ({ now }: { now: Date }) => (now.setFullYear(2100), null);
    }
    const host = await openHost({
      entities: [anonymisable({ retain: { anonymise: { email: Careless } } })],
      options: { rules: { notes: { period: 'P30D', strategy: 'anonymise' } } },
      factories: [new Careless()],
    });
    await host.query(`insert into note(id, tenant_id, created_at) values (gen_random_uuid(), 'acme', '2020-01-01')`);
    await host.sweep.sweep(ACME, new Date(NOW));
    expect(await countRows(host, 'note', 'anonymised_at = $1', [NOW.toISOString()])).toBe(1);
  });
});
