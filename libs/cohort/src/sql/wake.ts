import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Executor } from './transaction.js';

/** The channel on which word of new work goes round: one for each schema of Cohort's tables, in a name that always fits. */
function wakeChannel(cohortSchema: string): string {
  return `cohort_${createHash('sha256').update(cohortSchema).digest('hex').slice(0, 32)}`;
}

/** Says so when the transaction commits, once for all calls in it. */
export async function notifyWaiting(tx: Executor, cohortSchema: string): Promise<void> {
  await sql`select pg_catalog.pg_notify(${wakeChannel(cohortSchema)}, '')`.execute(tx);
}

/** For a connection of its own: listening is a state of the session. */
export function listenStatement(cohortSchema: string): string {
  return `listen "${wakeChannel(cohortSchema)}"`;
}
