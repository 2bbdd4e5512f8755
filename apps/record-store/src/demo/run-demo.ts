import { EntityManager } from '@mikro-orm/postgresql';
import { RetentionHolds, RetentionLedger, RetentionRowDispatcher } from 'nestjs-cohort';
import { createRecordStore } from '../app.module.js';
import { migrate } from '../database/orm-options.js';
import { InvoiceDocuments } from '../invoices/invoice-documents.js';
import { type ShopCounts, countShop } from '../loading/count-shop.js';
import type { ShopRecords } from '../loading/shop-records.js';
import { storeShop } from '../loading/store-shop.js';
import { RetentionJournal } from '../retention/retention-journal.js';
import { type ErasureRow, type RetentionRow, ShopRetention } from '../retention/shop-retention.js';
import type { DemoOptions } from './demo-options.js';
import { type DemoReport, humanReport, silentReport } from './demo-report.js';
import { resolveHolds } from './hold-option.js';
import { type LedgerCounts, countLedger, readLedger } from './read-ledger.js';

export interface DemoInput {
  readonly url: string;
  /** An empty folder for the invoices' PDFs. */
  readonly documents: string;
  readonly shop: Iterable<ShopRecords>;
  readonly options: DemoOptions;
  readonly signal: AbortSignal;
}

/** What `--json` prints. */
export interface DemoResult {
  readonly now: string;
  readonly preview: readonly RetentionRow[];
  readonly sweep: readonly RetentionRow[];
  readonly remaining: ShopCounts;
  readonly erasure: readonly ErasureRow[];
  /** PDFs of invoices, before and after. */
  readonly documents: { readonly before: number; readonly after: number };
  /** What the observer was told, by type. */
  readonly events: Readonly<Record<string, number>>;
  readonly ledger: LedgerCounts;
}

export interface DemoOutcome {
  readonly result: DemoResult;
  readonly failures: readonly string[];
}

/** The demo on an empty database: migrate, load, preview, hold, sweep, erase, read the ledger. */
export async function runDemo({ url, documents: folder, shop, options, signal }: DemoInput): Promise<DemoOutcome> {
  const report: DemoReport = options.json ? silentReport : humanReport;
  await migrate(url);
  signal.throwIfAborted();
  const app = await createRecordStore(url, { documents: folder });
  try {
    const em = app.get(EntityManager);
    const retention = app.get(ShopRetention);
    const { now, dryRun = false } = options;
    const documents = app.get(InvoiceDocuments);
    await storeShop(em, shop);
    await documents.writeAll();
    const before = await documents.count();
    signal.throwIfAborted();
    const holds = await resolveHolds(em, options.hold);
    report.loaded(await countShop(em), now);

    let preview = await retention.preview(now, signal);
    report.previewed(preview);
    if (holds.length > 0) {
      await app.get(RetentionHolds).create(holds);
      preview = await retention.preview(now, signal);
      report.held(options.hold, preview);
    }
    const { rows: sweep, failures: ofSweep } = await retention.sweep(now, { actor: 'demo', dryRun, signal });
    const failures = [...ofSweep];
    const remaining = await countShop(em);
    report.swept(sweep, remaining, dryRun);

    let erasure: readonly ErasureRow[] = [];
    if (options.erase.length > 0) {
      const outcome = await retention.erase(options.erase, now, { actor: 'demo', dryRun, signal });
      erasure = outcome.rows;
      failures.push(...outcome.failures);
      report.erased(erasure, dryRun);
    }

    await app.get(RetentionRowDispatcher).flush({ signal });
    const after = await documents.count();
    const events = app.get(RetentionJournal).counts();
    report.cleaned(before, after, events);

    const runs = await readLedger(app.get(RetentionLedger));
    report.recorded(runs);
    const ledger = countLedger(runs);
    const result = {
      now: now.toISOString(),
      preview,
      sweep,
      remaining,
      erasure,
      documents: { before, after },
      events,
      ledger,
    };
    return { result, failures };
  } finally {
    await app.close();
  }
}
