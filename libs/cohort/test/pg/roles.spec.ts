import { describe, expect, test } from '@jest/globals';
import { Strategy } from 'nestjs-cohort';
import { clerkUrl } from '../support/clerk.js';
import { type Host, openHost } from '../support/host.js';
import { ACME, NOW } from '../support/notes.js';
import { holdOn } from '../support/seed.js';
import { addRows, idsOf, retainedTable, rulesFor } from '../support/tables.js';
import { OURS } from '../support/schema.js';

async function openClerk(names: string[], prepare: (owner: Host) => Promise<unknown> = async () => undefined) {
  const entities = names.map((name) => retainedTable(name));
  const options = { rules: rulesFor(Strategy.Purge, ...names) };
  const owner = await openHost({ entities, options });
  await prepare(owner);
  const url = await clerkUrl(owner, ...names.map((name) => name.toLowerCase()));
  const clerk = await openHost({ entities, options, url });
  return { owner, clerk, entities };
}

const byTenant = (table: string) =>
  `alter table ${table} enable row level security; create policy by_tenant on ${table} using (tenant_id = current_setting('app.tenant', true))`;

describe('row-level security that would hide something from the sweeping role', () => {
  test('holds: every sweep is refused, also when the policy came after start, and no held row goes', async () => {
    const { owner, clerk, entities } = await openClerk(['Album']);
    await addRows(owner, 'album', [{ id: 1 }]);
    await owner.holds.create(holdOn(entities[0]!, '1'));
    await clerk.readiness.context();
    await owner.query(byTenant(`${OURS}.retention_holds`));
    await expect(clerk.sweep.sweep(ACME, NOW)).rejects.toThrow(/retention_holds" is under row-level security/);
    expect(await idsOf(owner, 'album')).toEqual([1]);
  });

  test('due rows: refused at start, failed when the policy came later, never a success', async () => {
    const { owner, clerk } = await openClerk(['Album'], async (host) => host.query(byTenant('album')));
    await addRows(owner, 'album', [{ id: 1 }]);
    await expect(clerk.sweep.sweep(ACME, NOW)).rejects.toThrow(
      /table public.album is under row-level security.*BYPASSRLS/,
    );
    await owner.query('alter table album disable row level security');
    await clerk.readiness.context();
    await owner.query('alter table album enable row level security');
    expect(await clerk.sweep.sweep(ACME, NOW)).toMatchObject({
      status: 'partiallyFailed',
      entityFailures: [{ entity: 'Album' }],
    });
  });

  test('nothing is refused where the role is above the policies', async () => {
    const { owner } = await openClerk(['Album'], async (host) => host.query(byTenant('album')));
    await addRows(owner, 'album', [{ id: 1 }]);
    expect(await owner.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded', counts: [{ affected: 1 }] });
  });
});

test('a held child behind a table that this role may not read is not set to NULL: the purge is refused', async () => {
  const { owner, clerk, entities } = await openClerk(['Album', 'Track'], async (host) => {
    await host.query('create table shelf(id int primary key, album int references album (id) on delete cascade)');
    await host.query('alter table track add foreign key (parent_id) references shelf (id) on delete set null');
  });
  await addRows(owner, 'album', [{ id: 1 }]);
  await owner.query('insert into shelf values (7, 1)');
  await addRows(owner, 'track', [{ id: 10, parent: 7 }]);
  await owner.holds.create(holdOn(entities[1]!, '10'));
  await expect(clerk.sweep.sweep(ACME, NOW)).rejects.toThrow(/may not read all tables on that way; grant it SELECT/);
  expect(await owner.query('select id, parent_id from track')).toEqual([{ id: 10, parent_id: 7 }]);
});

test('policies that are put on the holds while a pass runs stop it before a held row goes', async () => {
  const entities = [retainedTable('Album')];
  const options = { rules: rulesFor(Strategy.Purge, 'Album'), sweepBatchSize: 1 };
  const owner = await openHost({ entities, options });
  let done = false;
  const clerk = await openHost({
    entities,
    options,
    url: await clerkUrl(owner, 'album'),
    probe: async (at) => {
      if (at !== 'committed' || done) return;
      done = true;
      await owner.query(`alter table ${OURS}.retention_holds enable row level security`);
    },
  });
  await addRows(owner, 'album', [{ id: 1, days: 600 }, { id: 2 }]);
  await owner.holds.create(holdOn(entities[0]!, '2'));
  expect((await clerk.sweep.sweep(ACME, NOW)).status).toBe('partiallyFailed');
  expect(await idsOf(owner, 'album')).toEqual([2]);
});

test.each(['select', 'update', 'delete'])(
  'a role without the privilege to %s is refused at start',
  async (privilege) => {
    const { owner, clerk } = await openClerk(['Album']);
    await owner.query(`revoke ${privilege} on album from cohort_clerk`);
    await expect(clerk.readiness.context()).rejects.toThrow(
      `this role may not ${privilege} table public.album; grant it.`,
    );
  },
);
