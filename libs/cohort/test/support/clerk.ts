import type { Host } from './host.js';
import { OURS } from './schema.js';

/**
 * The url of a login that owns nothing: it may use Cohort's tables in the schema of the run, and the given tables for what
 * a sweep does to them. One role serves all databases of a run.
 */
export async function clerkUrl(owner: Host, ...tables: string[]): Promise<string> {
  await owner.query(`do $$ begin create role cohort_clerk login password 'p';
    exception when duplicate_object or unique_violation then null; end $$`);
  await owner.query(`grant all on schema ${OURS} to cohort_clerk; grant all on all tables in schema ${OURS} to cohort_clerk;
    grant all on all sequences in schema ${OURS} to cohort_clerk; grant select, update, delete on ${tables.join(', ')} to cohort_clerk`);
  const url = new URL(owner.url);
  url.username = 'cohort_clerk';
  url.password = 'p';
  return url.toString();
}
