import type { MikroORM } from '@mikro-orm/postgresql';
import { CompiledQuery, type Kysely, type Transaction } from 'kysely';

/** Whatever statements run on: a transaction of ours, or the caller's. */
export type Executor = Kysely<unknown> | Transaction<unknown>;

export interface TransactionSettings {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly idleTimeoutMs: number;
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
  const tx = await client.startTransaction().setIsolationLevel('read committed').execute();
  try {
    await tx.executeQuery(CompiledQuery.raw(settingsStatement(settings)));
    const result = await work(tx);
    await tx.commit().execute();
    return result;
  } catch (error) {
    // A dead connection cannot roll back; the server does. What went wrong first is what the caller must see.
    await tx
      .rollback()
      .execute()
      .catch(() => undefined);
    throw error;
  }
}

/**
 * One message without parameters, so that all of it is one round trip. Deferred keys are checked at once: an error
 * must belong to the rows of its batch, not to its commit. jit costs more than it gives in statements this short.
 */
function settingsStatement(settings: TransactionSettings): string {
  const ms = (value: number) => Math.trunc(value);
  return [
    `set local statement_timeout = ${ms(settings.statementTimeoutMs)}`,
    `set local lock_timeout = ${ms(settings.lockTimeoutMs)}`,
    `set local idle_in_transaction_session_timeout = ${ms(settings.idleTimeoutMs)}`,
    'set local jit = off',
    'set constraints all immediate',
  ].join('; ');
}
