import type { EntityManager } from '@mikro-orm/postgresql';
import { runSql } from '../platform/sql.js';

/**
 * A rule change judges every known binding, and a binding that arrives is judged by the rule: one of both sees the other.
 * A tenant may have no rule yet that could be locked.
 */
export async function lockResidency(em: EntityManager, tenantId: string, mode: 'shared' | 'exclusive'): Promise<void> {
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  await runSql(em, `select ${lock}(hashtextextended($1, 0))`, [`data_foundations.residency ${tenantId}`]);
}
