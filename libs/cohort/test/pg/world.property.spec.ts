import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type EntitySweepCount,
  RetentionRule,
  RetentionRuleProvider,
  RetentionCategoryCapabilities,
  Strategy,
  TenantContext,
} from 'nestjs-cohort';
import type { RetentionResolutionContext, RetentionRuleInit } from 'nestjs-cohort';
import { type Host, startHost } from '../support/host.js';
import { countRows, holdOn } from '../support/seed.js';
import { addRows, retainedTable } from '../support/tables.js';
import { daysBefore } from '../support/notes.js';
import { OURS } from '../support/schema.js';

/** Rules of the world in hand, by tenant and category. */
class WorldRules extends RetentionRuleProvider {
  current: Readonly<Record<string, RetentionRuleInit>> = {};

  override getCapabilities(): RetentionCategoryCapabilities {
    return new RetentionCategoryCapabilities(Object.values(Strategy));
  }

  override resolve({ tenant, category }: RetentionResolutionContext): RetentionRule {
    return new RetentionRule(this.current[`${tenant.id}/${category}`]!);
  }
}

const TENANTS = [new TenantContext('acme'), new TenantContext('globex'), new TenantContext('o\'hara {,"}')] as const;
const TABLES = ['Album', 'Track'] as const;
type Table = (typeof TABLES)[number];

interface WorldRow {
  readonly tenant: number;
  readonly days: number | null;
  readonly held: boolean;
  /** For tracks: which album they point at, modulo how many there are. */
  readonly parent: number | null;
  readonly marked: boolean;
}

interface World {
  readonly rows: Readonly<Record<Table, readonly WorldRow[]>>;
  readonly rules: readonly Readonly<Record<Table, RetentionRuleInit>>[];
  /** How tracks point at albums, if the database knows at all. */
  readonly key: 'no action' | 'set null' | null;
  readonly batch: number;
}

const row = fc.record<WorldRow>({
  tenant: fc.nat(2),
  days: fc.oneof({ weight: 8, arbitrary: fc.nat(800) }, { weight: 1, arbitrary: fc.constant(null) }),
  held: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  parent: fc.option(fc.nat(30)),
  marked: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
});
const rule = fc.record<RetentionRuleInit>(
  {
    period: fc.constantFrom('P0D', 'P30D', 'P3M', 'P1Y'),
    legalMin: fc.constantFrom(undefined, 'P1M', 'P400D'),
    strategy: fc.constantFrom(...Object.values(Strategy)),
  },
  { requiredKeys: ['period', 'strategy'] },
);
const world = fc.record<World>({
  rows: fc.record({ Album: fc.array(row, { maxLength: 25 }), Track: fc.array(row, { maxLength: 40 }) }),
  rules: fc.tuple(...TENANTS.map(() => fc.record({ Album: rule, Track: rule }))),
  key: fc.constantFrom('no action', 'set null', null),
  batch: fc.integer({ min: 1, max: 20 }),
});

type Expected = Pick<EntitySweepCount, 'affected' | 'held' | 'skipped' | 'nullAnchor'>;

/** Which album a track points at; albums are numbered from 1 in the order of the world. */
const parentOf = ({ rows }: World, track: WorldRow) =>
  track.parent === null || rows.Album.length === 0 ? null : (track.parent % rows.Album.length) + 1;

/** The model: what a sweep comes to, by tenant and entity. Tracks go first, all tenants together, since they point at albums. */
function model(each: World, now: Date): Record<Table, Expected>[] {
  const nothing = { affected: 0, held: 0, skipped: 0, nullAnchor: 0 };
  const expected = TENANTS.map(() => ({ Track: nothing, Album: nothing }) as Record<Table, Expected>);
  const gone = new Set<WorldRow>();
  for (const table of ['Track', 'Album'] as const) {
    for (const [tenant] of TENANTS.entries()) {
      const { strategy, period, legalMin } = each.rules[tenant]![table];
      if (strategy === Strategy.Exempt) continue;
      const cutoff = Math.min(calendarBefore(now, period), calendarBefore(now, legalMin ?? 'P0D'));
      const open = each.rows[table].filter(
        (row) => row.tenant === tenant && (strategy === Strategy.Purge || !row.marked),
      );
      const due = open.filter((row) => row.days !== null && daysBefore(row.days, now).getTime() < cutoff);
      const free = due.filter((row) => !row.held);
      const keeps = (track: WorldRow, row: WorldRow) =>
        !gone.has(track) &&
        (each.key === 'no action' || track.held) &&
        parentOf(each, track) === each.rows.Album.indexOf(row) + 1;
      const isParent = strategy === Strategy.Purge && table === 'Album' && each.key !== null;
      const kept = free.filter((row) => isParent && each.rows.Track.some((track) => keeps(track, row)));
      if (strategy === Strategy.Purge) free.filter((row) => !kept.includes(row)).forEach((row) => gone.add(row));
      const nullAnchor = open.filter((row) => row.days === null).length;
      expected[tenant]![table] = {
        affected: free.length - kept.length,
        held: due.length - free.length,
        skipped: kept.length,
        nullAnchor,
      };
    }
  }
  return expected;
}

/** Calendar arithmetic by hand, so that the model owes nothing to the library it judges. */
function calendarBefore(now: Date, period: string): number {
  const [, amount, unit] = /^P(\d+)([DMY])$/.exec(period)!;
  const at = new Date(now);
  if (unit === 'D') return at.setUTCDate(at.getUTCDate() - Number(amount));
  const day = at.getUTCDate();
  at.setUTCDate(1);
  at.setUTCMonth(at.getUTCMonth() - Number(amount) * (unit === 'Y' ? 12 : 1));
  return at.setUTCDate(Math.min(day, new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).getUTCDate()));
}

const rules = new WorldRules();
const entities = TABLES.map((name) => retainedTable(name));
const hosts = new Map<number, Host>();
let first: Host;

beforeAll(async () => {
  first = await startHost({ entities, options: { rules } });
});
afterAll(async () => {
  for (const host of [...hosts.values(), first]) await host.close();
});

/** Batch size is fixed at start, so there is one host a size, all on one database. */
async function hostFor(batch: number): Promise<Host> {
  if (!hosts.has(batch))
    hosts.set(
      batch,
      await startHost({
        entities,
        options: { rules, sweepBatchSize: batch, parallelism: 1 + (batch % 2) },
        url: first.url,
        poolSize: 4,
      }),
    );
  return hosts.get(batch)!;
}

async function build(host: Host, each: World, now: Date): Promise<void> {
  await host.query('alter table track drop constraint if exists track_album');
  await host.query(`truncate album, track, ${OURS}.retention_holds`);
  for (const table of TABLES) {
    const all = each.rows[table];
    await addRows(
      host,
      table.toLowerCase(),
      all.map((row, index) => ({
        id: index + 1,
        tenant: TENANTS[row.tenant]!.id,
        parent: table === 'Track' ? parentOf(each, row) : null,
        days: null,
      })),
    );
    await host.query(
      `update ${table.toLowerCase()} as t set created_at = i.at, is_deleted = i.marked, anonymised_at = case when i.marked then now() end
       from unnest($1::timestamptz[], $2::bool[]) with ordinality as i(at, marked, id) where t.id = i.id`,
      [
        all.map((row) => (row.days === null ? null : daysBefore(row.days, now).toISOString())),
        all.map((row) => row.marked),
      ],
    );
    const holds = all.flatMap((row, index) =>
      row.held ? [holdOn(entities[TABLES.indexOf(table)]!, String(index + 1), TENANTS[row.tenant]!)] : [],
    );
    await host.holds.create(holds);
  }
  if (each.key)
    await host.query(
      `alter table track add constraint track_album foreign key (parent_id) references album (id) on delete ${each.key}`,
    );
}

const numbers = ({ affected, held, skipped, nullAnchor }: EntitySweepCount): Expected => ({
  affected,
  held,
  skipped,
  nullAnchor,
});
const byEntity = (counts: readonly EntitySweepCount[]) =>
  Object.fromEntries(counts.map((count) => [count.entity, numbers(count)]));
const sizes = (host: Host) => Promise.all(TABLES.map((table) => countRows(host, table.toLowerCase())));

// acceptance 220; PREV-06; design 4: preview = dry run = sweep + skipped
test('preview, dry run and sweep agree with each other and with the model, in any world', async () => {
  const instant = fc.date({ min: new Date('2024-02-28'), max: new Date('2028-03-31'), noInvalidDate: true });
  await fc.assert(
    fc.asyncProperty(world, instant, async (each, now) => {
      rules.current = Object.fromEntries(
        TENANTS.flatMap((tenant, index) =>
          TABLES.map((table) => [`${tenant.id}/${table.toLowerCase()}`, each.rules[index]![table]]),
        ),
      );
      const host = await hostFor(each.batch);
      await build(host, each, now);
      const before = await sizes(host);
      const previews = await Promise.all(TENANTS.map((tenant) => host.preview.preview(tenant, now)));
      const dryRuns = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now, { dryRun: true }));
      expect(await sizes(host)).toEqual(before);
      const sweeps = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now));

      for (const [tenant, expected] of model(each, now).entries()) {
        expect(sweeps[tenant]!.status).toBe('succeeded');
        expect(byEntity(sweeps[tenant]!.counts)).toEqual(expected);
        const foreseen = Object.fromEntries(
          Object.entries(expected).map(([entity, count]) => [
            entity,
            { ...count, affected: count.affected + count.skipped, skipped: 0 },
          ]),
        );
        expect(byEntity(previews[tenant]!.counts)).toEqual(foreseen);
        expect(byEntity(dryRuns[tenant]!.counts)).toEqual(foreseen);
      }
      const again = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now));
      expect(again.flatMap((sweep) => sweep.counts).every((count) => count.affected === 0)).toBe(true);
    }),
    { numRuns: 60 },
  );
}, 240_000);
