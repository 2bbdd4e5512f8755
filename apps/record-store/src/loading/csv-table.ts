import { readFile } from 'node:fs/promises';
import { CsvError, parse } from 'csv-parse/sync';
import { CsvFileError } from './csv-file.error.js';

/** How the text of one column is read. Undefined: not what is wanted. */
export interface Column<T> {
  readonly wanted: string;
  read(text: string): T | undefined;
}

type Columns = Readonly<Record<string, Column<unknown>>>;

export interface CsvRow<C extends Columns> {
  readonly line: number;
  readonly values: { readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never };
}

export interface CsvTable<C extends Columns> {
  readonly file: string;
  readonly rows: readonly CsvRow<C>[];
}

/** Reads a CSV file in UTF-8 with exactly the given columns, in any order. Throws CsvFileError at the first problem. */
export async function readCsvTable<C extends Columns>(file: string, columns: C): Promise<CsvTable<C>> {
  const [header, ...records] = parseRecords(file, await readText(file));
  const names = requireHeader(file, header?.record ?? [], Object.keys(columns));
  const rows = records.map(({ record, info }) => {
    const values = names.map((name, index) => [name, readValue(columns[name]!, record[index]!)] as const);
    const wrong = values.findIndex(([, value]) => value === undefined);
    if (wrong >= 0) {
      const column = names[wrong]!;
      throw new CsvFileError(
        { file, line: info.lines, column },
        `'${record[wrong]}'`,
        `wanted: ${columns[column]!.wanted}`,
      );
    }
    return { line: info.lines, values: Object.fromEntries(values) as CsvRow<C>['values'] };
  });
  return { file, rows };
}

async function readText(file: string): Promise<string> {
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw new CsvFileError({ file }, error.code === 'ENOENT' ? 'is missing' : `cannot be read (${error.code})`);
  });
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new CsvFileError({ file }, 'is not UTF-8');
  }
}

function parseRecords(file: string, text: string): { record: string[]; info: { lines: number } }[] {
  try {
    return parse(text, { info: true, skip_empty_lines: true }) as never;
  } catch (error) {
    if (error instanceof CsvError) throw new CsvFileError({ file }, error.message);
    throw error;
  }
}

function requireHeader(file: string, header: readonly string[], wanted: readonly string[]): readonly string[] {
  if (header.length === wanted.length && wanted.every((name) => header.includes(name))) return header;
  throw new CsvFileError({ file, line: 1 }, `columns ${header.join(',') || '(none)'}`, `wanted: ${wanted.join(',')}`);
}

/** PostgreSQL stores no zero byte in a text. */
function readValue<T>(column: Column<T>, text: string): T | undefined {
  return text.includes('\0') ? undefined : column.read(text);
}

const ID_MAX = 2 ** 31 - 1;

export const wholeNumber: Column<number> = {
  wanted: `a whole number from 1 to ${ID_MAX}`,
  read: (text) => (/^\d{1,10}$/.test(text) && Number(text) >= 1 && Number(text) <= ID_MAX ? Number(text) : undefined),
};

export const text: Column<string> = {
  wanted: 'a text that is not empty',
  read: (value) => value || undefined,
};

export const optionalText: Column<string | null> = {
  wanted: 'a text without zero bytes, or nothing',
  read: (value) => value || null,
};

/** Kept as a text, so that no money passes through a binary fraction. */
export const money: Column<string> = {
  wanted: 'an amount such as 1234.56',
  read: (value) => (/^-?\d{1,8}(\.\d{1,2})?$/.test(value) ? value : undefined),
};

/** Dates without a zone are UTC. */
export const instant: Column<Date> = {
  wanted: 'a date and time in UTC such as 2021-01-31 00:00:00',
  read: (value) => {
    if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(value)) return undefined;
    const iso = `${value.replace(' ', 'T')}.000Z`;
    const date = new Date(iso);
    // JavaScript takes 31 February for a day in March.
    return !Number.isNaN(date.getTime()) && date.toISOString() === iso ? date : undefined;
  },
};
