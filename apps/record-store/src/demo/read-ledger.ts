import type { LedgerRunWithSummaries, RetentionLedger } from 'nestjs-cohort';

export interface LedgerCounts {
  readonly runs: number;
  readonly summaries: number;
  readonly succeeded: number;
}

/** Every run with its summaries, newest first. */
export async function readLedger(ledger: RetentionLedger): Promise<LedgerRunWithSummaries[]> {
  const runs: LedgerRunWithSummaries[] = [];
  let cursor: string | undefined;
  do {
    const page = await ledger.runs({ cursor });
    for (const { sweepId } of page.items) runs.push((await ledger.run(sweepId))!);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return runs;
}

export function countLedger(runs: readonly LedgerRunWithSummaries[]): LedgerCounts {
  return {
    runs: runs.length,
    summaries: runs.reduce((sum, run) => sum + run.summaries.length, 0),
    succeeded: runs.filter((run) => run.status === 'succeeded').length,
  };
}
