import { Injectable, Logger } from '@nestjs/common';
import type { EntityManager } from '@mikro-orm/postgresql';
import { Evidence } from '../evidence/evidence.js';
import { Outbox } from '../outbox/outbox.js';
import type { Origin } from '../outbox/event.js';
import { isUnreachable } from '../platform/database-error.js';
import { Database } from '../platform/database.js';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { RetentionRule } from './retention-rule.js';
import { RuleSet } from './rule-set.js';
import { type EndedGrace, lockRules, selectEndedGraces } from './rules.queries.js';
import { type ToldTenant, eventsOf, toldByPlatform } from './rules.service.js';

/** At a time: the rest comes with the next tick. */
const BATCH = 100;

/** Tells that a change has taken force once its grace is over. Any number of replicas: each rule is told by one. */
@Injectable()
export class RuleActivator {
  private readonly logger = new Logger(RuleActivator.name);

  constructor(
    private readonly database: Database,
    private readonly outbox: Outbox,
    private readonly evidence: Evidence,
    private readonly timeAndIds: TimeAndIds,
  ) {}

  /** Returns how many rows took force. One that fails is tried again with the next tick. */
  async tick(): Promise<number> {
    const now = this.timeAndIds.now();
    const ended = await this.database.asPlatform((em) => selectEndedGraces(em, now, BATCH));
    let activated = 0;
    for (const grace of ended) {
      try {
        activated += await this.activate(grace, now);
      } catch (error) {
        // The others would fail as well, each after its time.
        if (isUnreachable(error)) throw error;
        this.logger.error(`The rule ${grace.rule_id} did not take force: ${(error as Error).message}`);
      }
    }
    return activated;
  }

  private activate(ended: EndedGrace, now: Date): Promise<number> {
    const { rule_id: ruleId, tenant_id: tenantId, store_class: storeClass, classification } = ended;
    return this.database.asPlatform(async (em) => {
      const rule = await em.findOneOrFail(RetentionRule, { ruleId });
      const subject = { storeClass, classification };
      await lockRules(em, subject, rule.isPlatform ? null : tenantId);
      // Read again behind the lock: another replica may have told it, or a change may have begun another grace.
      await em.refresh(rule);
      if (!hasEnded(rule, now)) return 0;
      const all = await toldByPlatform(em, subject, now);
      const told = rule.isPlatform ? all : all.filter(({ set }) => set.tenantId === tenantId);
      // Overrides whose grace is over count in what their tenants are told now; by themselves they would tell it again.
      const overrides = told.flatMap(({ set: { own } }) => (own && own !== rule && hasEnded(own, now) ? [own] : []));
      const rows = [rule, ...overrides];
      for (const row of rows) await this.endGrace(em, row);
      const platform = (told[0] as ToldTenant | undefined)?.set.platform ?? rule;
      const changed = new RuleSet(tenantId, platform, rule.isPlatform ? null : rule);
      await this.outbox.append(em, eventsOf(told, changed, now), originOf(ruleId, this.timeAndIds));
      return rows.length;
    });
  }

  private async endGrace(em: EntityManager, rule: RetentionRule): Promise<void> {
    const { ruleId, tenantId, storeClass, classification, grace, active, terms } = rule;
    rule.endGrace();
    const payload = { storeClass, classification, ruleId, before: grace?.before, asked: active ? terms : null };
    await this.evidence.append(em, tenantId, [
      { kind: 'retention-rule-in-force', orderId: null, actor: 'retention-residency', payload },
    ]);
  }
}

function hasEnded({ grace }: RetentionRule, now: Date): boolean {
  return grace !== null && grace.until <= now;
}

function originOf(ruleId: string, timeAndIds: TimeAndIds): Origin {
  const traceId = timeAndIds.newId().replaceAll('-', '');
  return { traceId, correlationId: ruleId, causationId: ruleId };
}
