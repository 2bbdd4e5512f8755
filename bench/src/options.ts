import { parseArgs } from 'node:util';
import { type BenchRow, ROWS } from './rows.js';

/** What the command line asks for. */
export interface BenchOptions {
  readonly rows: readonly BenchRow[];
  /** Rows of the table, all tenants together. */
  readonly tableRows: number;
  readonly rounds: number;
  readonly check: boolean;
  readonly json: boolean;
}

export const USAGE = `npm run bench -- [options]
  --rows N        rows of the table, default 1000000
  --rounds N      measurements of each side, default 5; the median counts
  --only NAME     this row alone; may be given again
  --tenants N     instead of what the rows say
  --index COLUMNS instead of what the rows say: "tenant_id, created_at", or none
  --check         exit 1 when a ratio is more than 15 % below the one wanted
  --json          one JSON object instead of the table
Rows: ${ROWS.map((row) => row.name).join(', ')}`;

/** Throws on an option that is unknown or has no sense. */
export function readOptions(argv: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      rows: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '5' },
      only: { type: 'string', multiple: true },
      tenants: { type: 'string' },
      index: { type: 'string' },
      check: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { only, index } = values;
  const unknown = only?.find((name) => !ROWS.some((row) => row.name === name));
  if (unknown !== undefined) throw new Error(`--only is ${unknown}; wanted: one of the rows.`);
  const overrides = {
    ...(values.tenants === undefined ? {} : { tenants: wholeNumber('tenants', values.tenants, 1) }),
    ...(index === undefined ? {} : { index: index === 'none' ? null : index }),
  };
  return {
    rows: ROWS.filter((row) => only?.includes(row.name) ?? true).map((row) =>
      row.kind === 'purge' ? { ...row, ...overrides } : row,
    ),
    // Fewer could not carry the holds.
    tableRows: wholeNumber('rows', values.rows, 1000),
    rounds: wholeNumber('rounds', values.rounds, 1),
    check: values.check,
    json: values.json,
  };
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < min)
    throw new Error(`--${name} is ${text}; wanted: a whole number from ${min}.`);
  return value;
}
