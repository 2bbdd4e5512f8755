import type { EntityManager } from '@mikro-orm/postgresql';
import { CompiledQuery } from 'kysely';

/**
 * One statement with `$1` parameters, in the transaction of `em`. Outside of one MikroORM would leave the tenant out, and a
 * statement under row-level security would see nothing: refused.
 */
export async function runSql<Row>(em: EntityManager, text: string, values: readonly unknown[] = []): Promise<Row[]> {
  if (!em.isInTransaction()) throw new Error('A statement needs a transaction: run it inside inTenant or asPlatform.');
  const { rows } = await em.getKysely().executeQuery<Row>(CompiledQuery.raw(text, [...values]));
  return rows;
}
