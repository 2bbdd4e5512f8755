import type { MikroORM } from '@mikro-orm/postgresql';
import { CompiledQuery, type Kysely, type Transaction, sql } from 'kysely';
import { millis } from './fragments.js';

/** Whatever statements run on: a transaction of ours, or the caller's. */
export type Executor = Kysely<unknown> | Transaction<unknown>;

export interface TransactionSettings {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Whether rows are wanted as an index has them, a few at a time, and not as a bitmap of all that match. */
  readonly withoutBitmaps?: boolean;
}

type WriteClient = Kysely<unknown>;

/**
 * Runs `work` in a transaction of its own on the primary, never in the caller's. It says its isolation level itself:
 * under a role or database that defaults to repeatable read, the second statement of a batch would not see a hold
 * that was committed before its rows were locked, and the held row would go.
 */
export async function inTransaction<T>(
  orm: MikroORM,
  settings: TransactionSettings,
  work: (tx: Executor) => Promise<T>,
): Promise<T> {
  const client = orm.em.getDriver().getConnection('write').getClient() as unknown as WriteClient;
  // Not a transaction of kysely's: that one keeps its connection for ever when the server ends it in the middle.
  return client.connection().execute(async (tx) => {
    try {
      await tx.executeQuery(CompiledQuery.raw(beginStatement(settings)));
      const result = await work(tx);
      await tx.executeQuery(CompiledQuery.raw('commit'));
      return result;
    } catch (error) {
      // A dead connection cannot roll back; the server does. What went wrong first is what the caller must see.
      await tx.executeQuery(CompiledQuery.raw('rollback')).catch(() => undefined);
      throw error;
    }
  });
}

/**
 * One message without parameters, so that all of it is one round trip. Deferred keys are checked at once: an error
 * must belong to the rows of its batch, not to its commit. None of it takes a snapshot. jit costs more than it gives
 * in statements this short; names that the catalog prints are compared with ours.
 */
function beginStatement(settings: TransactionSettings): string {
  const ms = (value: number) => Math.trunc(value);
  return [
    'begin isolation level read committed',
    `set local statement_timeout = ${ms(settings.statementTimeoutMs)}`,
    `set local lock_timeout = ${ms(settings.lockTimeoutMs)}`,
    `set local idle_in_transaction_session_timeout = ${ms(settings.idleTimeoutMs)}`,
    'set local jit = off',
    'set local quote_all_identifiers = off',
    ...(settings.withoutBitmaps ? ['set local enable_bitmapscan = off'] : []),
    'set constraints all immediate',
  ].join('; ');
}

/** The database's clock, in milliseconds. */
export async function selectNow(tx: Executor): Promise<Date> {
  const { rows } = await sql<{ now: string }>`
    select ${millis(sql`pg_catalog.statement_timestamp()`)} as now`.execute(tx);
  return new Date(Number(rows[0]!.now));
}
