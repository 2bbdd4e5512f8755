import { sql } from 'kysely';
import type { Executor } from './transaction.js';

/** Fixed for ever: two versions of Cohort on one database must compute the same keys. */
const SEED = 4341726887n;

/** What identifies one row to every lock of Cohort. The length keeps ids apart that contain the separator. */
export function recordKey(entityId: string, recordId: string, tenantId: string | null): string {
  return `${entityId}:${tenantId ?? 'tenantless'}:${recordId.length}:${recordId}`;
}

/** The gate of an entity: held exclusively while a hold is created, shared by batches that do not lock rows first. */
export function gateKey(cohortSchema: string, entityId: string): string {
  return `cohort-gate:${cohortSchema}:${entityId}`;
}

/** Takes transaction-scoped locks on all keys, in one order for every caller, so that two lists cannot deadlock. */
export async function lockKeys(tx: Executor, keys: readonly string[]): Promise<void> {
  await sql`
    select pg_catalog.pg_advisory_xact_lock(k.hash)
    from (
      select distinct pg_catalog.hashtextextended(key, ${SEED.toString()}::pg_catalog.int8) as hash
      from pg_catalog.unnest(${[...keys]}::pg_catalog.text[]) as key
      order by hash
    ) as k`.execute(tx);
}

/** Whether a key can be taken now, for the rest of the transaction. */
export async function tryLockKey(tx: Executor, key: string): Promise<boolean> {
  const { rows } = await sql<{ granted: boolean }>`
    select pg_catalog.pg_try_advisory_xact_lock(
      pg_catalog.hashtextextended(${key}::pg_catalog.text, ${SEED.toString()}::pg_catalog.int8)
    ) as granted`.execute(tx);
  return rows[0]!.granted;
}

/** Sets lock_timeout for the rest of the transaction and returns what it was. */
export async function setLockTimeout(tx: Executor, timeout: string): Promise<string> {
  const { rows } = await sql<{ before: string }>`
    select pg_catalog.current_setting('lock_timeout') as before, pg_catalog.set_config('lock_timeout', ${timeout}, true)`.execute(
    tx,
  );
  return rows[0]!.before;
}

export async function savepoint(tx: Executor): Promise<void> {
  await sql`savepoint cohort_hold`.execute(tx);
}

export async function releaseSavepoint(tx: Executor): Promise<void> {
  await sql`release savepoint cohort_hold`.execute(tx);
}

export async function rollbackToSavepoint(tx: Executor): Promise<void> {
  await sql`rollback to savepoint cohort_hold`.execute(tx);
  await sql`release savepoint cohort_hold`.execute(tx);
}
