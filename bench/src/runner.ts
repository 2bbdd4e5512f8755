import { withDatabase } from './database.js';
import type { BenchRow, Contender, PurgeRow, ServiceRow, WorkRow } from './rows.js';
import { type World, loadSource, refill, tenantIds, verify } from './world.js';

export interface Side {
  readonly label: string;
  /** Milliseconds of each round. */
  readonly times: readonly number[];
  readonly median: number;
  /** Slowest over fastest. */
  readonly spread: number;
}

export interface Measurement {
  readonly name: string;
  readonly tenants: number;
  readonly index: string | null;
  readonly removed: number;
  /** Of what there are `removed`; null: the time itself counts. */
  readonly counts: 'rows' | ServiceRow['counts'];
  readonly held: number;
  readonly a: Side;
  readonly b: Side;
  /** Median of B over median of A: above 1, A is faster. */
  readonly ratio: number;
  readonly wanted: number;
  /** Whether the wanted ratio may be missed for now. */
  readonly awaitsWalks: boolean;
}

export type WorldOfRow = Omit<World, 'tenantIds'>;

interface Size {
  readonly tableRows: number;
  readonly rounds: number;
}

/** Measures one row: A B A B, each from the same state. Throws when a side does anything but what it should. */
export function measure(row: BenchRow, world: WorldOfRow, size: Size): Promise<Measurement> {
  if (row.kind === 'purge') return measurePurge(row, world, size);
  return row.kind === 'work' ? measureWork(row, world, size) : measureService(row, world, size);
}

/** Each on a fresh copy of the same table. */
async function measurePurge(row: PurgeRow, given: WorldOfRow, { tableRows, rounds }: Size): Promise<Measurement> {
  const { client } = given;
  const expected = await loadSource(client, tableRows, row);
  const world: World = { ...given, tenantIds: tenantIds(row.tenants) };
  const time = async ([label, contender]: readonly [string, Contender]) => {
    await refill(client, row);
    const started = performance.now();
    const removed = await contender(world);
    const elapsed = performance.now() - started;
    await verify(client, label, removed, expected);
    return elapsed;
  };
  const sides = await alternate(
    row,
    rounds,
    () => time(row.a),
    () => time(row.b),
  );
  const { tenants, index, awaitsWalks = false } = row;
  return { ...sides, awaitsWalks, tenants, index, removed: expected.removed, counts: 'rows', held: expected.held };
}

/** Work is much slower than purging: so much of it as keeps a round as long. */
const ROWS_PER_WORK = 50;
const WARM_UP = 5000;

async function measureWork(row: WorkRow, given: WorldOfRow, { tableRows, rounds }: Size): Promise<Measurement> {
  const world: World = { ...given, tenantIds: tenantIds(1) };
  const count = Math.ceil(tableRows / ROWS_PER_WORK);
  const time = async ([label, queue, contender]: WorkRow['a']) => {
    await queue(world, count);
    const started = performance.now();
    const done = await contender(world);
    const elapsed = performance.now() - started;
    if (done !== count) throw new Error(`${label}: ${done} calls; wanted: ${count}.`);
    return elapsed;
  };
  const sides = await alternate(
    row,
    rounds,
    () => time(row.a),
    () => time(row.b),
  );
  return { ...sides, awaitsWalks: false, tenants: 1, index: null, removed: count, counts: 'rows', held: 0 };
}

/** On a database of its own, beside that of the library. */
async function measureService(row: ServiceRow, { url }: WorldOfRow, { tableRows, rounds }: Size): Promise<Measurement> {
  const count = Math.ceil(tableRows / ROWS_PER_WORK);
  const sides = await withDatabase(url, async (ofRow) => {
    const { a, b, close } = await row.open(ofRow);
    try {
      // A server that has just started is not yet compiled.
      for (const side of [a, b]) await side.measure(Math.min(count, WARM_UP));
      return await alternate(
        row,
        rounds,
        () => a.measure(count),
        () => b.measure(count),
      );
    } finally {
      await close();
    }
  });
  return { ...sides, awaitsWalks: false, tenants: 1, index: null, removed: count, counts: row.counts, held: 0 };
}

async function alternate(
  { name, a: [labelOfA], b: [labelOfB], wanted }: BenchRow,
  rounds: number,
  timeA: () => Promise<number>,
  timeB: () => Promise<number>,
) {
  const timesOfA: number[] = [];
  const timesOfB: number[] = [];
  for (let round = 0; round < rounds; round++) {
    timesOfA.push(await timeA());
    timesOfB.push(await timeB());
  }
  const [a, b] = [toSide(labelOfA, timesOfA), toSide(labelOfB, timesOfB)];
  return { name, a, b, ratio: b.median / a.median, wanted };
}

function toSide(label: string, times: readonly number[]): Side {
  return { label, times, median: median(times), spread: Math.max(...times) / Math.min(...times) };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((x, y) => x - y);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
