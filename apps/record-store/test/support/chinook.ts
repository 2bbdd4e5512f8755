import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from '@jest/globals';

/** The record shop in CSV files lies beside the repository, where it is there at all. */
export const CHINOOK = join(import.meta.dirname, '../../../../../shared/data/chinook');

export const NOW = new Date('2026-11-30T00:00:00Z');

/** Tests on that data; skipped with the reason where it is missing. */
export function describeWithChinook(title: string, tests: () => void): void {
  if (existsSync(CHINOOK)) describe(title, tests);
  else describe.skip(`${title} (skipped: the folder shared/data/chinook is not beside the repository)`, tests);
}
