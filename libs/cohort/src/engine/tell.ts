import type { SweepEvent, SweepTrigger } from '../domain/sweep-event.js';
import type { SettledRun, Settlement } from '../sql/ledger.js';
import type { MutationReport } from '../sql/mutate.js';
import type { Tally } from './counts.js';
import type { Notifier } from '../observers/notifier.js';
import type { PlannedRun, PlannedSlice, Walk } from './plan.js';

/** What of a pass its observers hear. */
export interface ToldPass {
  readonly passId: string;
  readonly dryRun: boolean;
  readonly runs: readonly PlannedRun[];
  readonly notifier: Notifier;
}

/** What of a committed batch its observers hear. */
export interface ToldBatch {
  readonly reached: readonly PlannedSlice[];
  readonly report: MutationReport | null;
  /** The tenant of every row that a handler kept, as an index into `reached`. */
  readonly skipped: readonly number[];
}

/** Every run of the pass has begun. */
export function tellStart(pass: ToldPass, trigger: SweepTrigger, subjectKind: string | null): Promise<void> {
  const { passId, dryRun, runs } = pass;
  return pass.notifier.notify((at) =>
    runs.map(({ sweepId, tenantId }) => ({
      type: 'started',
      sweepId,
      passId,
      tenantId,
      at,
      trigger,
      dryRun,
      subjectKind,
    })),
  );
}

/** Every run of the pass has its terminal state. */
export function tellEnd(
  pass: ToldPass,
  settled: readonly SettledRun[],
  outcomeOf: (sweepId: string) => Omit<Settlement, 'sweepId'>,
): Promise<void> {
  const tenants = new Map(pass.runs.map((run) => [run.sweepId, run.tenantId]));
  return pass.notifier.notify((at) =>
    settled.map(({ sweepId, startedAt, settledAt, totalAffected }): SweepEvent => {
      const { status, error } = outcomeOf(sweepId);
      const durationMs = Math.max(0, settledAt.getTime() - startedAt.getTime());
      const end = { sweepId, passId: pass.passId, tenantId: tenants.get(sweepId)!, at, totalAffected, durationMs };
      if (status === 'partiallyFailed' || status === 'failed') return { ...end, type: status, error: error! };
      return { ...end, type: status === 'cancelled' ? 'cancelled' : 'completed' };
    }),
  );
}

/** Rows, where the ledger has them one by one, then the progress of every run that the batch touched. */
export function tellBatch(
  pass: ToldPass,
  walk: Walk,
  state: { readonly affectedByRun: Map<string, number> },
  { reached, report, skipped }: ToldBatch,
): Promise<void> {
  const affected = new Map(report?.bySlice.map((each) => [each.slice, each.affected]));
  for (const [slice, rows] of affected) {
    const { sweepId } = reached[slice]!;
    state.affectedByRun.set(sweepId, (state.affectedByRun.get(sweepId) ?? 0) + rows);
  }
  return pass.notifier.notify((at) => {
    const rows = report!.details.map(({ slice, recordId }): SweepEvent => ({
      ...ofEntity(pass, walk, reached[slice]!),
      at,
      type: 'rowDetail',
      recordId,
    }));
    const touched = [...new Set([...affected.keys(), ...skipped])].sort((a, b) => a - b);
    const progress = touched.map((slice): SweepEvent => ({
      ...ofEntity(pass, walk, reached[slice]!),
      at,
      type: 'entityProgress',
      affected: affected.get(slice) ?? 0,
      skipped: skipped.filter((each) => each === slice).length,
    }));
    return [...rows, ...progress];
  });
}

/** The summaries of a walk, one a run. */
export function tellSummaries(
  pass: ToldPass,
  walk: Walk,
  tallyOf: (slice: number, planned: PlannedSlice) => Tally,
): Promise<void> {
  return pass.notifier.notify((at) =>
    walk.slices.map((slice, index): SweepEvent => {
      const { resolvedPeriod } = slice;
      return { ...ofEntity(pass, walk, slice), at, type: 'entitySummary', resolvedPeriod, ...tallyOf(index, slice) };
    }),
  );
}

function ofEntity({ passId }: ToldPass, { entry, strategy }: Walk, { sweepId, tenantId }: PlannedSlice) {
  const { entityName: entity, entityId, category } = entry;
  return { sweepId, passId, tenantId, entity, entityId, category, strategy };
}
