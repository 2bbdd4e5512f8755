import { Injectable } from '@nestjs/common';
import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireText } from '../domain/arguments.js';
import { isUuid } from '../domain/uuid.js';
import { inLedger } from '../engine/context.js';
import {
  type LedgerRowDetail,
  type LedgerRun,
  type LedgerSummary,
  selectRowDetails,
  selectRunSummaries,
  selectRuns,
} from '../sql/ledger-read.js';
import { Readiness } from '../startup/readiness.js';

export interface LedgerRunWithSummaries extends LedgerRun {
  readonly summaries: readonly LedgerSummary[];
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Pass it as `cursor` for the next page; null at the end. */
  readonly next: string | null;
}

export interface PageOptions {
  readonly cursor?: string;
  /** 1 to 1000. Default 100. */
  readonly limit?: number;
}

/** Reads the ledger. Numbers of a run in progress include every committed batch. */
@Injectable()
export class RetentionLedger {
  constructor(private readonly readiness: Readiness) {}

  /** Runs, newest first, by keyset paging. */
  async runs(options: PageOptions & { readonly tenantId?: string } = {}): Promise<Page<LedgerRun>> {
    requireOptions(options, ['cursor', 'limit', 'tenantId']);
    if (options.tenantId !== undefined) requireText(options.tenantId, 'options.tenantId');
    const limit = requireLimit(options.limit);
    const after = options.cursor === undefined ? undefined : parseRunCursor(options.cursor);
    const ctx = await this.readiness.context();
    const items = await inLedger(ctx, (tx) =>
      selectRuns(tx, ctx.registry.cohortSchema, { tenantId: options.tenantId, after, limit }),
    );
    const last = items.length === limit ? items.at(-1) : undefined;
    return { items, next: last ? `${last.startedAt.toISOString()}~${last.sweepId}` : null };
  }

  /** One run with its summaries; null where there is none. */
  async run(sweepId: string): Promise<LedgerRunWithSummaries | null> {
    requireUuid(sweepId);
    const ctx = await this.readiness.context();
    const { cohortSchema } = ctx.registry;
    return inLedger(ctx, async (tx) => {
      const [run] = await selectRuns(tx, cohortSchema, { sweepId, limit: 1 });
      return run ? { ...run, summaries: await selectRunSummaries(tx, cohortSchema, sweepId) } : null;
    });
  }

  /** The rows that a run changed, where per-row detail was on, in the order in which they were written. */
  async rowDetails(sweepId: string, options: PageOptions = {}): Promise<Page<LedgerRowDetail>> {
    requireUuid(sweepId);
    requireOptions(options, ['cursor', 'limit']);
    const limit = requireLimit(options.limit);
    const { cursor: afterId = '0' } = options;
    if (typeof afterId !== 'string' || !/^\d{1,18}$/.test(afterId))
      throw new InvalidArgumentError('options.cursor', afterId, 'the next of an earlier page');
    const ctx = await this.readiness.context();
    const items = await inLedger(ctx, (tx) => selectRowDetails(tx, ctx.registry.cohortSchema, sweepId, afterId, limit));
    return { items, next: items.length === limit ? items.at(-1)!.id : null };
  }
}

function requireUuid(sweepId: unknown): void {
  if (!isUuid(sweepId)) throw new InvalidArgumentError('sweepId', sweepId, 'the UUID of a run');
}

function requireLimit(limit: unknown = 100): number {
  if (Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= 1000) return limit as number;
  throw new InvalidArgumentError('options.limit', limit, 'a whole number from 1 to 1000');
}

function parseRunCursor(cursor: string): { startedAt: Date; sweepId: string } {
  const [at, sweepId] = typeof cursor === 'string' ? cursor.split('~') : [];
  const startedAt = new Date(at ?? '');
  if (Number.isNaN(startedAt.getTime()) || !isUuid(sweepId)) {
    throw new InvalidArgumentError('options.cursor', cursor, 'the next of an earlier page');
  }
  return { startedAt, sweepId };
}
