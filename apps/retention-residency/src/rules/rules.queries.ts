import type { EntityManager } from '@mikro-orm/postgresql';
import { runSql } from '../platform/sql.js';
import type { Classification, RuledStoreClass } from '../vocabulary.js';
import type { RuleSubject } from './retention-rule.js';

/**
 * Changes of one store class and classification: one of the platform alone, those of tenants beside each other, one tenant's
 * one after the other. A platform rule and an override that change at once would each tell a value that is not in force.
 */
export async function lockRules(em: EntityManager, subject: Omit<RuleSubject, 'tenantId'>, tenantId: string | null) {
  const kind = `data_foundations.rules ${subject.storeClass} ${subject.classification}`;
  const lock = tenantId === null ? 'pg_advisory_xact_lock' : 'pg_advisory_xact_lock_shared';
  await runSql(em, `select ${lock}(hashtextextended($1, 0))`, [kind]);
  if (tenantId !== null)
    await runSql(em, `select pg_advisory_xact_lock(hashtextextended($1, 0))`, [`${kind} ${tenantId}`]);
}

/** Tenants are known from their first residency rule (G31), or by an override. */
export async function selectKnownTenants(em: EntityManager): Promise<string[]> {
  const rows = await runSql<{ tenant_id: string }>(
    em,
    `select tenant_id from data_foundations.residency_rules
     union
     select tenant_id from data_foundations.retention_rules where tenant_id <> '*'
     order by tenant_id`,
  );
  return rows.map(({ tenant_id }) => tenant_id);
}

export interface EndedGrace {
  readonly rule_id: string;
  readonly tenant_id: string;
  readonly store_class: RuledStoreClass;
  readonly classification: Classification;
}

/**
 * Rules whose grace is over and not yet told, the oldest first. An override is left out where the platform's rule is one of
 * them, which is told together with it.
 */
export function selectEndedGraces(em: EntityManager, now: Date, limit: number): Promise<EndedGrace[]> {
  return runSql<EndedGrace>(
    em,
    `select rule_id, tenant_id, store_class, classification
     from data_foundations.retention_rules r
     where grace_until <= $1
       and (tenant_id = '*' or not exists (
         select from data_foundations.retention_rules p
         where p.tenant_id = '*' and p.store_class = r.store_class and p.classification = r.classification
           and p.grace_until <= $1
       ))
     order by grace_until, rule_id
     limit $2`,
    [now, limit],
  );
}
