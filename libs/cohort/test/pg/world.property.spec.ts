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
  batch: fc.integer({ min: 1, max: 20 }),
});

let now: Date;
const parentOf = (rows: World['rows'], each: WorldRow) =>
  each.parent === null || rows.Album.length === 0 ? null : (each.parent % rows.Album.length) + 1;

/** The model: what a sweep of one tenant must come to, in plain TypeScript. Tracks go first, since they point at albums. */
function model({ rows, rules }: World, tenant: number) {
  const gone = new Set<WorldRow>();
  const expected: Record<string, Pick<EntitySweepCount, 'affected' | 'held' | 'skipped' | 'nullAnchor'>> = {};
  for (const table of ['Track', 'Album'] as const) {
    const { strategy, period, legalMin } = rules[tenant]![table];
    const mine = rows[table].filter((each) => each.tenant === tenant);
    if (strategy === Strategy.Exempt) {
      expected[table] = { affected: 0, held: 0, skipped: 0, nullAnchor: 0 };
      continue;
    }
    const cutoffs = [period, legalMin ?? 'P0D'].map((each) => monthsAndDaysBefore(each));
    const cutoff = Math.min(...cutoffs);
    const open = mine.filter((each) => strategy === Strategy.Purge || !each.marked);
    const due = open.filter((each) => each.days !== null && daysBefore(each.days, now).getTime() < cutoff);
    const free = due.filter((each) => !each.held);
    const kept = free.filter(
      (each) =>
        strategy === Strategy.Purge &&
        table === 'Album' &&
        rows.Track.some((track) => !gone.has(track) && parentOf(rows, track) === rows.Album.indexOf(each) + 1),
    );
    if (strategy === Strategy.Purge) free.filter((each) => !kept.includes(each)).forEach((each) => gone.add(each));
    expected[table] = {
      affected: free.length - kept.length,
      held: due.length - free.length,
      skipped: kept.length,
      nullAnchor: open.filter((each) => each.days === null).length,
    };
  }
  return { expected, gone };
}

function monthsAndDaysBefore(period: string): number {
  const [, amount, unit] = /^P(\d+)([DMY])$/.exec(period)!;
  const at = new Date(now);
  if (unit === 'D') at.setUTCDate(at.getUTCDate() - Number(amount));
  else {
    const day = at.getUTCDate();
    at.setUTCDate(1);
    at.setUTCMonth(at.getUTCMonth() - Number(amount) * (unit === 'Y' ? 12 : 1));
    at.setUTCDate(Math.min(day, new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).getUTCDate()));
  }
  return at.getTime();
}

const rules = new WorldRules();
const entities = TABLES.map((name) => retainedTable(name));
const hosts = new Map<number, Host>();
let first: Host;

beforeAll(async () => {
  first = await startHost({ entities, options: { rules } });
  await first.query('alter table track add constraint track_album foreign key (parent_id) references album (id)');
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

async function build(host: Host, { rows }: World): Promise<void> {
  await host.query('truncate album, track, retention.retention_holds');
  for (const table of TABLES) {
    const all = rows[table];
    await addRows(
      host,
      table.toLowerCase(),
      all.map((each, index) => ({
        id: index + 1,
        tenant: TENANTS[each.tenant]!.id,
        parent: table === 'Track' ? parentOf(rows, each) : null,
        days: null,
      })),
    );
    await host.query(
      `update ${table.toLowerCase()} as t set created_at = i.at, is_deleted = i.marked, anonymised_at = case when i.marked then now() end
       from unnest($1::timestamptz[], $2::bool[]) with ordinality as i(at, marked, id) where t.id = i.id`,
      [
        all.map((each) => (each.days === null ? null : daysBefore(each.days, now).toISOString())),
        all.map((each) => each.marked),
      ],
    );
    const holds = all.flatMap((each, index) =>
      each.held ? [holdOn(entities[TABLES.indexOf(table)]!, String(index + 1), TENANTS[each.tenant]!)] : [],
    );
    await host.holds.create(holds);
  }
}

const numbers = ({ affected, held, skipped, nullAnchor }: EntitySweepCount) => ({
  affected,
  held,
  skipped,
  nullAnchor,
});
const byEntity = (counts: readonly EntitySweepCount[]) =>
  Object.fromEntries(counts.map((count) => [count.entity, numbers(count)]));

// acceptance 220, 315; PREV-06; design 4: preview = dry run = sweep + skipped
test('preview, dry run and sweep agree with each other and with the model, in any world', async () => {
  await fc.assert(
    fc.asyncProperty(
      world,
      fc.date({ min: new Date('2024-02-28'), max: new Date('2028-03-31'), noInvalidDate: true }),
      async (each, instant) => {
        now = instant;
        rules.current = Object.fromEntries(
          TENANTS.flatMap((tenant, index) =>
            TABLES.map((table) => [`${tenant.id}/${table.toLowerCase()}`, each.rules[index]![table]]),
          ),
        );
        const host = await hostFor(each.batch);
        await build(host, each);
        const before = await Promise.all(TABLES.map((table) => countRows(host, table.toLowerCase())));
        const previews = await Promise.all(TENANTS.map((tenant) => host.preview.preview(tenant, now)));
        const dryRuns = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now, { dryRun: true }));
        expect(await Promise.all(TABLES.map((table) => countRows(host, table.toLowerCase())))).toEqual(before);
        const sweeps = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now));

        // Tenants are swept together, entity by entity, so what one tenant's tracks keep is judged after all tracks.
        const tracksGone = new Set(TENANTS.flatMap((_, index) => [...model(each, index).gone]));
        for (const [index, sweep] of sweeps.entries()) {
          const expected = together(each, index, tracksGone);
          expect(sweep.status).toBe('succeeded');
          expect(byEntity(sweep.counts)).toEqual(expected);
          const foreseen = Object.fromEntries(
            Object.entries(expected).map(([entity, count]) => [
              entity,
              { ...count, affected: count.affected + count.skipped, skipped: 0 },
            ]),
          );
          expect(byEntity(previews[index]!.counts)).toEqual(foreseen);
          expect(byEntity(dryRuns[index]!.counts)).toEqual(foreseen);
        }
        const again = await Array.fromAsync(host.sweep.sweepMany(TENANTS, now));
        expect(again.flatMap((sweep) => sweep.counts).every((count) => count.affected === 0)).toBe(true);
      },
    ),
    { numRuns: 60 },
  );
}, 240_000);

/** The model's counts of one tenant, with the tracks of every tenant that have gone by the time albums are swept. */
function together(each: World, tenant: number, tracksGone: ReadonlySet<WorldRow>) {
  const { expected } = model(each, tenant);
  const { strategy } = each.rules[tenant]!.Album;
  if (strategy !== Strategy.Purge) return expected;
  const count = expected.Album!;
  const candidates = count.affected + count.skipped;
  const kept = freeAlbums(each, tenant).filter((album) =>
    each.rows.Track.some(
      (track) => !tracksGone.has(track) && parentOf(each.rows, track) === each.rows.Album.indexOf(album) + 1,
    ),
  ).length;
  return { ...expected, Album: { ...count, affected: candidates - kept, skipped: kept } };
}

function freeAlbums({ rows, rules: byTenant }: World, tenant: number): WorldRow[] {
  const { period, legalMin } = byTenant[tenant]!.Album;
  const cutoff = Math.min(monthsAndDaysBefore(period), monthsAndDaysBefore(legalMin ?? 'P0D'));
  return rows.Album.filter(
    (each) =>
      each.tenant === tenant && !each.held && each.days !== null && daysBefore(each.days, now).getTime() < cutoff,
  );
}
