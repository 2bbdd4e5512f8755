import { describe, expect, test } from '@jest/globals';
import { type RetentionSweepResult, Strategy } from 'nestjs-cohort';
import { type Host, openHost } from '../support/host.js';
import { ACME, NOW } from '../support/notes.js';
import { addRows, idsOf, retainedTable, rulesFor } from '../support/tables.js';

const TOO_MANY = 60;

/** A host that gives up after many more batches than its few rows need, so that a loop shows as a failure. */
async function open(strategy: Strategy, ...names: string[]) {
  const endless = new AbortController();
  let batches = 0;
  const host = await openHost({
    entities: names.map((name) => retainedTable(name)),
    options: { rules: rulesFor(strategy, ...names), sweepBatchSize: 64 },
    probe: (at) => {
      if (at === 'locked' && ++batches > TOO_MANY) endless.abort(new Error(`the sweep loops: ${TOO_MANY} batches`));
    },
  });
  return { host, sweep: () => host.sweep.sweep(ACME, NOW, { signal: endless.signal }) };
}

async function addTrigger(host: Host, table: string, when: string, body: string): Promise<void> {
  await host.query(`create function ${table}_guard() returns trigger language plpgsql as $$ begin ${body} end $$`);
  await host.query(`create trigger guard ${when} on ${table} for each row execute function ${table}_guard()`);
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => ({ id: from + index }));
const countOf = (result: RetentionSweepResult, entity: string) => result.counts.find((each) => each.entity === entity);

describe('a trigger that keeps its row in a way of its own does not make the sweep loop', () => {
  test('a delete turned into an update, as soft-delete triggers do', async () => {
    const { host, sweep } = await open(Strategy.Purge, 'Alpha');
    await addRows(host, 'alpha', range(1, 5));
    await addTrigger(
      host,
      'alpha',
      'before delete',
      `update alpha set note = 'archived' where id = old.id; return null;`,
    );
    const result = await sweep();
    expect(countOf(result, 'Alpha')).toMatchObject({ affected: 0, skipped: 5, skippedByCause: { refused: 5 } });
    expect(result.status).toBe('partiallyFailed');
  });

  test('a delete followed by inserting the row again', async () => {
    const { host, sweep } = await open(Strategy.Purge, 'Alpha');
    await addRows(host, 'alpha', range(1, 5));
    await addTrigger(
      host,
      'alpha',
      'after delete',
      `if old.id = 3 then insert into alpha select old.*; end if; return null;`,
    );
    const result = await sweep();
    expect(countOf(result, 'Alpha')).toMatchObject({ affected: 4, skipped: 1 });
  });

  test('a delete followed by inserting a row like it under a new id', async () => {
    const { host, sweep } = await open(Strategy.Purge, 'Alpha');
    await addRows(host, 'alpha', range(1, 5));
    await addTrigger(
      host,
      'alpha',
      'after delete',
      `insert into alpha(id, tenant_id, created_at) values (old.id + 100, old.tenant_id, old.created_at); return null;`,
    );
    const result = await sweep();
    expect(countOf(result, 'Alpha')).toMatchObject({ affected: 5, skipped: 5 });
    expect(await idsOf(host, 'alpha')).toEqual([101, 102, 103, 104, 105]);
  });

  test.each([Strategy.Anonymise, Strategy.SoftDelete])(
    'an AFTER trigger that takes the marker of %s back',
    async (strategy) => {
      const { host, sweep } = await open(strategy, 'Alpha');
      await addRows(host, 'alpha', range(1, 5));
      await addTrigger(
        host,
        'alpha',
        'after update',
        `if new.id = 3 and (new.is_deleted or new.anonymised_at is not null) then
           update alpha set anonymised_at = null, is_deleted = false, note = 'restored' where id = new.id;
         end if; return null;`,
      );
      const result = await sweep();
      expect(countOf(result, 'Alpha')).toMatchObject({ affected: 4, skipped: 1 });
    },
  );

  test('a constraint trigger at the end of the transaction that does the same', async () => {
    const { host, sweep } = await open(Strategy.Anonymise, 'Alpha');
    await addRows(host, 'alpha', range(1, 5));
    await host.query(`create function late() returns trigger language plpgsql as $$ begin
      if new.id = 3 and new.anonymised_at is not null then update alpha set anonymised_at = null where id = new.id; end if; return null; end $$`);
    await host.query(
      'create constraint trigger late after update on alpha deferrable initially deferred for each row execute function late()',
    );
    const result = await sweep();
    expect(countOf(result, 'Alpha')).toMatchObject({ affected: 4, skipped: 1 });
  });
});

test('a trigger that deletes other rows of the same table (27000) does not fail the whole entity', async () => {
  const { host, sweep } = await open(Strategy.Purge, 'Alpha');
  await addRows(host, 'alpha', [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 4 }]);
  // Whatever order they are deleted in, one parent comes before its child.
  await host.query('update alpha set parent_id = case id when 2 then 1 else 4 end where id in (2, 3)');
  await addTrigger(host, 'alpha', 'before delete', 'delete from alpha where parent_id = old.id; return old;');
  const result = await sweep();
  expect(await idsOf(host, 'alpha')).toEqual([]);
  expect(result.status).toBe('succeeded');
});
