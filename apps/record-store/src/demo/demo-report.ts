import type { LedgerRunWithSummaries } from 'nestjs-cohort';
import type { ShopCounts } from '../loading/count-shop.js';
import type { RetentionRow } from '../retention/shop-retention.js';
import { heading, retentionTable, table } from '../terminal/table.js';
import type { HoldOption } from './hold-option.js';

/** Told of each step of the demo as soon as it is done. */
export interface DemoReport {
  loaded(shop: ShopCounts, now: Date): void;
  previewed(rows: readonly RetentionRow[]): void;
  held(holds: readonly HoldOption[], rows: readonly RetentionRow[]): void;
  swept(rows: readonly RetentionRow[], remaining: ShopCounts, dryRun: boolean): void;
  recorded(runs: readonly LedgerRunWithSummaries[]): void;
}

export const silentReport: DemoReport = {
  loaded: () => undefined,
  previewed: () => undefined,
  held: () => undefined,
  swept: () => undefined,
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
  recorded(runs) {
    const byTenant = runs.toSorted((a, b) => a.tenantId.localeCompare(b.tenantId, 'en', { numeric: true }));
    const rows = byTenant.map((run) => [
      run.sweepId,
      run.tenantId,
      run.dryRun ? 'dry run' : 'sweep',
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
