import type { BenchRow, Contender } from './rows.js';
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
  readonly held: number;
  readonly a: Side;
  readonly b: Side;
  /** Median of B over median of A: above 1, A is faster. */
  readonly ratio: number;
  readonly wanted: number | null;
}

/** Measures one row: A B A B, each on a fresh copy of the same table. Throws when a side leaves anything but the right rows. */
export async function measure(
  row: BenchRow,
  { client, sweep }: Omit<World, 'tenantIds'>,
  { tableRows, rounds }: { readonly tableRows: number; readonly rounds: number },
): Promise<Measurement> {
  const expected = await loadSource(client, tableRows, row);
  const world: World = { client, sweep, tenantIds: tenantIds(row.tenants) };
  const time = async ([label, contender]: readonly [string, Contender]) => {
    await refill(client, row);
    const started = performance.now();
    const removed = await contender(world);
    const elapsed = performance.now() - started;
    await verify(client, label, removed, expected);
    return elapsed;
  };
  const a: number[] = [];
  const b: number[] = [];
  for (let round = 0; round < rounds; round++) {
    a.push(await time(row.a));
    b.push(await time(row.b));
  }
  const sides = { a: toSide(row.a[0], a), b: toSide(row.b[0], b) };
  return {
    name: row.name,
    tenants: row.tenants,
    index: row.index,
    removed: expected.removed,
    held: expected.held,
    ...sides,
    ratio: sides.b.median / sides.a.median,
    wanted: row.wanted,
  };
}

function toSide(label: string, times: readonly number[]): Side {
  return { label, times, median: median(times), spread: Math.max(...times) / Math.min(...times) };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((x, y) => x - y);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
