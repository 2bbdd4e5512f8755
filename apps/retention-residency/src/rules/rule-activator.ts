import { Injectable } from '@nestjs/common';
import { Evidence } from '../evidence/evidence.js';
import { Outbox } from '../outbox/outbox.js';
import type { Origin } from '../outbox/event.js';
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
  constructor(
    private readonly database: Database,
    private readonly outbox: Outbox,
    private readonly evidence: Evidence,
    private readonly timeAndIds: TimeAndIds,
  ) {}

  /** Returns how many rules took force. */
  async tick(): Promise<number> {
    const now = this.timeAndIds.now();
    const ended = await this.database.asPlatform((em) => selectEndedGraces(em, now, BATCH));
    let activated = 0;
    for (const grace of ended) if (await this.activate(grace, now)) activated++;
    return activated;
  }

  private activate(ended: EndedGrace, now: Date): Promise<boolean> {
    const { rule_id: ruleId, tenant_id: tenantId, store_class: storeClass, classification } = ended;
    return this.database.asPlatform(async (em) => {
      const rule = await em.findOneOrFail(RetentionRule, { ruleId });
      const subject = { storeClass, classification };
      await lockRules(em, subject, rule.isPlatform ? null : tenantId);
      // Read again behind the lock: another replica may have told it, or a change may have begun another grace.
      await em.refresh(rule);
      if (rule.grace === null || rule.grace.until > now) return false;
      const all = await toldByPlatform(em, subject, now);
      const told = rule.isPlatform ? all : all.filter(({ set }) => set.tenantId === tenantId);
      const before = rule.grace.before;
      rule.endGrace();
      const platform = (told[0] as ToldTenant | undefined)?.set.platform ?? rule;
      const changed = new RuleSet(tenantId, platform, rule.isPlatform ? null : rule);
      const payload = { storeClass, classification, ruleId, before, asked: rule.active ? rule.terms : null };
      await this.evidence.append(em, tenantId, [
        { kind: 'retention-rule-in-force', orderId: null, actor: 'retention-residency', payload },
      ]);
      await this.outbox.append(em, eventsOf(told, changed, now), originOf(ruleId, this.timeAndIds));
      return true;
    });
  }
}

function originOf(ruleId: string, timeAndIds: TimeAndIds): Origin {
  const traceId = timeAndIds.newId().replaceAll('-', '');
  return { traceId, correlationId: ruleId, causationId: ruleId };
}
