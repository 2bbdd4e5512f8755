import { styleText } from 'node:util';
import Table from 'cli-table3';
import type { ErasureRow, RetentionRow } from '../retention/shop-retention.js';

type Cell = string | number;

/** A table for people: numbers to the right, bold heads where the terminal has colours. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isNumeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const drawn = new Table({
    head: head.map(heading),
    colAligns: isNumeric.map((numeric) => (numeric ? 'right' : 'left')),
    style: { head: [], border: [], compact: true },
  });
  drawn.push(...rows.map((row) => [...row]));
  return drawn.toString();
}

/** Plain where standard output is no terminal, or NO_COLOR is set. */
export function heading(text: string): string {
  return styleText('bold', text, { stream: process.stdout });
}

/** Counts of retention, by tenant and entity. */
export function retentionTable(rows: readonly RetentionRow[]): string {
  return table(
    ['Tenant', 'Entity', 'Strategy', 'Affected', 'Held', 'Skipped', 'No date'],
    rows.map((row) => [row.tenant, row.entity, row.strategy, row.affected, row.held, row.skipped, row.nullAnchor]),
  );
}

/** What an erasure did, and what the law keeps, by tenant and entity. */
export function erasureTable(rows: readonly ErasureRow[]): string {
  return table(
    ['Tenant', 'Entity', 'Strategy', 'Erased', 'Held', 'Skipped', 'Kept by law', 'First until'],
    rows.map(({ tenant, entity, strategy, affected, held, skipped, legallyKept, until }) => [
      ...[tenant, entity, strategy, affected, held, skipped, legallyKept, until?.slice(0, 10) ?? ''],
    ]),
  );
}
