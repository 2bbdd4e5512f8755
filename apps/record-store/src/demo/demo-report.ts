import type { LedgerRunWithSummaries } from 'nestjs-cohort';
import type { ShopCounts } from '../loading/count-shop.js';
import type { ErasureRow, RetentionRow } from '../retention/shop-retention.js';
import { erasureTable, heading, retentionTable, table } from '../terminal/table.js';
import type { HoldOption } from './hold-option.js';

/** Told of each step of the demo as soon as it is done. */
export interface DemoReport {
  loaded(shop: ShopCounts, now: Date): void;
  previewed(rows: readonly RetentionRow[]): void;
  held(holds: readonly HoldOption[], rows: readonly RetentionRow[]): void;
  swept(rows: readonly RetentionRow[], remaining: ShopCounts, dryRun: boolean): void;
  erased(rows: readonly ErasureRow[], dryRun: boolean): void;
  cleaned(before: number, after: number, events: Readonly<Record<string, number>>): void;
  recorded(runs: readonly LedgerRunWithSummaries[]): void;
}

export const silentReport: DemoReport = {
  loaded: () => undefined,
  previewed: () => undefined,
  held: () => undefined,
  swept: () => undefined,
  erased: () => undefined,
  cleaned: () => undefined,
  recorded: () => undefined,
};

/** Tables on standard output. */
export const humanReport: DemoReport = {
  loaded({ customers, invoices, invoiceLines }, now) {
    print('Record shop', `${customers} customers, ${invoices} invoices, ${invoiceLines} invoice lines.`);
    print(
      'Rules',
      `As of ${now.toISOString()}: invoices and lines go after three years, customers are anonymised a year after their last invoice.`,
    );
  },
  previewed(rows) {
    print('Preview: what a sweep would do', retentionTable(rows));
  },
  held(holds, rows) {
    print('Holds placed', holds.map(({ kind, id }) => `${kind} ${id}`).join('\n'));
    print('Preview with the holds', retentionTable(rows));
  },
  swept(rows, { customers, anonymisedCustomers, invoices, invoiceLines }, dryRun) {
    print(dryRun ? 'Dry run: counted, nothing changed' : 'Sweep', retentionTable(rows));
    print(
      'Remaining',
      `${customers} customers (${anonymisedCustomers} anonymised), ${invoices} invoices, ${invoiceLines} invoice lines.`,
    );
  },
  erased(rows, dryRun) {
    const concerned = rows.filter(
      ({ affected, held, skipped, legallyKept }) => affected + held + skipped + legallyKept > 0,
    );
    print(
      dryRun ? 'Dry run of the erasure: counted, nothing changed' : 'Erasure',
      concerned.length === 0 ? 'Nothing is held about this person.' : erasureTable(concerned),
    );
  },
  cleaned(before, after, events) {
    const told = Object.entries(events).map(([type, count]) => `${count} ${type}`);
    print(
      'Cleaned up',
      `PDFs of invoices: ${before} before, ${after} after. The observer was told: ${told.join(', ')}.`,
    );
  },
  recorded(runs) {
    const byTenant = runs.toSorted((a, b) => a.tenantId.localeCompare(b.tenantId, 'en', { numeric: true }));
    const rows = byTenant.map((run) => [
      run.sweepId,
      run.tenantId,
      `${run.trigger === 'erasure' ? 'erasure' : 'sweep'}${run.dryRun ? ', dry' : ''}`,
      run.status,
      run.summaries.length,
      run.totalAffected,
      run.durationMs ?? 0,
    ]);
    print('Ledger', table(['Run', 'Tenant', 'Kind', 'Status', 'Summaries', 'Affected', 'ms'], rows));
  },
};

function print(title: string, text: string): void {
  console.log(`${heading(title)}\n${text}\n`);
}
