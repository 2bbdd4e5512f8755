import type { Measurement, Side } from './runner.js';

/** How far below its figure a ratio may be before --check fails: two runs of one build differ that much. */
const TOLERANCE = 0.15;

export interface Report {
  readonly server: string;
  readonly rows: number;
  readonly rounds: number;
  readonly results: readonly (Measurement & { readonly passed: boolean })[];
}

type Figure = Pick<Measurement, 'ratio' | 'wanted' | 'awaitsWalks'>;

/** Whether --check lets the row pass. */
export function isReached(figure: Figure): boolean {
  return figure.awaitsWalks || isNear(figure);
}

function isNear({ ratio, wanted }: Figure): boolean {
  return ratio >= wanted * (1 - TOLERANCE);
}

function describeWanted(figure: Figure): string {
  if (isNear(figure)) return `${figure.wanted} ×`;
  return `${figure.wanted} ×, ${figure.awaitsWalks ? 'awaits the index and heap walks' : 'not reached'}`;
}

export function toText({ server, rows, rounds, results }: Report): string {
  const lines = results.map((result) => [
    result.name,
    `${result.tenants}`,
    result.index ?? 'none',
    describeSide(result.a, result),
    describeSide(result.b, result),
    `${result.ratio.toFixed(2)} ×`,
    describeWanted(result),
  ]);
  const cells = [['row', 'tenants', 'index', 'A', 'B', 'ratio', 'wanted'], ...lines];
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((line) => line[column]!.length)));
  const table = cells.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return [
    `PostgreSQL ${server}; ${rows} rows; medians of ${rounds}; in brackets the slowest round over the fastest.`,
    '',
    ...table,
  ].join('\n');
}

function describeSide({ label, median, spread }: Side, { removed, counts }: Measurement): string {
  const figure = counts === null ? `${median.toFixed(0)} ms` : `${(removed / median).toFixed(0)} k ${counts}/s`;
  return `${label}: ${figure} (${spread.toFixed(2)})`;
}
