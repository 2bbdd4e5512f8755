import { type KeyPath, keyPathName } from '../sql/foreign-keys.js';
import type { SummaryRow } from '../sql/ledger.js';
import type { SelectionCount } from '../sql/selection.js';
import type { Strategy } from '../domain/strategy.js';
import type { PlannedSlice, Walk } from './plan.js';

/** What one run did, or would do, with one entity. */
export interface EntitySweepCount {
  readonly entity: string;
  readonly entityId: string;
  readonly category: string;
  readonly tenantId: string;
  readonly strategy: Strategy;
  readonly affected: number;
  /** Due rows that an active hold keeps. */
  readonly held: number;
  /** Due rows without a hold that are still there, by `skippedByCause`. */
  readonly skipped: number;
  /** Rows without an anchor: never due. */
  readonly nullAnchor: number;
  /** `refused`, `handlerFailed`, `locked`, `referenced:schema.table.constraint`. */
  readonly skippedByCause: Readonly<Record<string, number>>;
}

export type Tally = Pick<EntitySweepCount, 'affected' | 'held' | 'skipped' | 'nullAnchor' | 'skippedByCause'>;

export const NOTHING: Tally = { affected: 0, held: 0, skipped: 0, nullAnchor: 0, skippedByCause: {} };

/** What would be done: every due row that no hold keeps. */
export function foreseen(count: SelectionCount): Tally {
  return { affected: count.left, held: count.held, skipped: 0, nullAnchor: count.nullAnchor, skippedByCause: {} };
}

/** What was left over, with the cause of each row. Rows that nothing of ours explains were locked by somebody else. */
export function leftOver(count: SelectionCount, keyPaths: readonly KeyPath[]): Tally {
  const referenced = keyPaths.map(
    (path, index) => [`referenced:${keyPathName(path)}`, count.referenced[index]!] as const,
  );
  const explained = referenced.reduce((sum, [, rows]) => sum + rows, count.refused + count.handlerFailed);
  const causes = [
    ['refused', count.refused] as const,
    ['handlerFailed', count.handlerFailed] as const,
    ...referenced,
    ['locked', count.left - explained] as const,
  ];
  return {
    affected: 0,
    held: count.held,
    skipped: count.left,
    nullAnchor: count.nullAnchor,
    skippedByCause: Object.fromEntries(causes.filter(([, rows]) => rows > 0)),
  };
}

export function toSummary(walk: Walk, slice: PlannedSlice, tally: Tally): SummaryRow {
  const { rule } = slice;
  return {
    sweepId: slice.sweepId,
    tenantId: slice.tenantId,
    strategy: walk.strategy,
    cutoff: slice.cutoff,
    resolvedPeriod: slice.resolvedPeriod,
    period: rule.period,
    legalMin: rule.legalMin ?? null,
    ruleSource: rule.provenance?.source ?? null,
    ruleReason: rule.provenance?.reason ?? null,
    ...tally,
  };
}
