import { Inject, Injectable, Logger } from '@nestjs/common';
import type { EntityManager } from '@mikro-orm/postgresql';
import { Evidence } from '../evidence/evidence.js';
import type { DomainEvent, Origin } from '../outbox/event.js';
import { Outbox } from '../outbox/outbox.js';
import { insertReceived } from '../outbox/outbox.queries.js';
import type { Actor } from '../platform/actor.js';
import { Database } from '../platform/database.js';
import { Metrics } from '../platform/metrics.js';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { Problem } from '../problem.js';
import { Settings } from '../settings.js';
import { type Candidate, type DecidingRule, type ResidencyReason, evaluateResidency } from './evaluate-residency.js';
import { ResidencyMemory } from './residency-memory.js';
import {
  type AllowedEngines,
  type AskedResidency,
  ResidencyRule,
  type ResidencyTerms,
  readResidency,
} from './residency-rule.js';
import { lockResidency } from './residency.queries.js';
import { type BoundStore, StoreBinding } from './store-binding.js';

/** How long a caller may go on with a decision. Other replicas know of a change within a second. */
const DECISION_TTL_SECONDS = 30;
const CHECK_RESIDENCY = 'retention-residency.check-residency';
/** Of violations of tenants without a rule, whose names may be made up. */
const UNKNOWN_TENANT = 'unknown';

export interface SetResidency extends AskedResidency {
  readonly tenantId: string;
  readonly justification: string;
  readonly ifVersion?: number;
}

export interface EvaluateCandidate extends Candidate {
  readonly tenantId: string;
  /** It is only asked: a refusal is no violation. */
  readonly dryRun: boolean;
}

export interface ResidencyDecision {
  readonly decisionId: string;
  readonly allowed: boolean;
  readonly reasons: readonly ResidencyReason[];
  /** 0: no rule decided. */
  readonly ruleVersion: number;
  readonly evaluatedAt: Date;
  readonly ttlSeconds: number;
}

export interface ResidencyImpact {
  readonly scanned: number;
  readonly compliant: number;
  readonly violating: number;
  readonly errors: number;
}

/** StoreBindingChanged, as its envelope tells it. */
export interface ChangedBinding extends BoundStore {
  readonly bindingId: string;
  readonly tenantId: string;
  readonly eventId: string;
  readonly occurredAt: Date;
  readonly origin: Origin;
}

export interface BindingPage {
  readonly items: readonly StoreBinding[];
  readonly nextCursor: string | null;
}

/** Residency rules, decisions by them, and the bindings that they are about. */
@Injectable()
export class ResidencyService {
  private readonly logger = new Logger(ResidencyService.name);

  constructor(
    private readonly database: Database,
    private readonly outbox: Outbox,
    private readonly evidence: Evidence,
    private readonly memory: ResidencyMemory,
    private readonly metrics: Metrics,
    private readonly timeAndIds: TimeAndIds,
    @Inject(Settings) private readonly settings: Pick<Settings, 'regions' | 'defaultResidencyApplies'>,
  ) {}

  /** Throws `not-found` before the first rule of a tenant. */
  async getResidency(tenantId: string): Promise<ResidencyRule> {
    const rule = await this.database.inTenant(tenantId, (em) => em.findOne(ResidencyRule, { tenantId }));
    if (rule) return rule;
    throw new Problem('not-found', 'The tenant has no residency rule yet; the first PUT makes it.');
  }

  /** The first rule of a tenant, or a change of it. The current content changes nothing. Throws a Problem. */
  async setResidency(command: SetResidency, actor: Actor): Promise<ResidencyRule> {
    const terms = readResidency(command, this.settings.regions);
    const { rule, violating } = await this.database.inTenant(command.tenantId, async (em) => {
      const before = await this.lockRule(em, command);
      const rule = before ?? new ResidencyRule(command.tenantId);
      const was = before && describe(before);
      if (!rule.set(terms, this.timeAndIds.now())) return { rule, violating: [] };
      em.persist(rule);
      const violating = await this.recheck(em, rule);
      const payload = {
        before: was,
        after: describe(rule),
        ruleVersion: rule.version,
        justification: command.justification,
      };
      await this.evidence.append(em, rule.tenantId, [
        { kind: 'residency-rule-changed', orderId: null, actor: actor.clientId, payload },
        ...violating.map(violationEvidence),
      ]);
      await this.outbox.append(em, [residencyChanged(rule), ...violating.map(violationAlert)], actor.origin);
      return { rule, violating };
    });
    this.memory.remember(rule);
    for (const { tenantId } of violating) this.metrics.countViolation(tenantId, 'store-binding');
    return rule;
  }

  /** What a rule would mean for the known bindings; nothing is changed. Throws what `setResidency` would throw. */
  async previewResidency(command: SetResidency): Promise<ResidencyImpact> {
    const terms = readResidency(command, this.settings.regions);
    const { tenantId } = command;
    const { bindings, pendingRegion } = await this.database.inTenant(tenantId, async (em) => {
      const before = await this.lockRule(em, command);
      before?.checkRegion(terms.region);
      return { bindings: await em.find(StoreBinding, { tenantId }), pendingRegion: before?.pendingRegion ?? null };
    });
    let compliant = 0;
    let errors = 0;
    for (const binding of bindings) {
      try {
        if (this.reasonsFor({ ...terms, pendingRegion }, binding).length === 0) compliant++;
      } catch {
        errors++;
      }
    }
    const scanned = bindings.length;
    return { scanned, compliant, violating: scanned - compliant - errors, errors };
  }

  /** Decides from memory, without the database. A refusal is an answer. */
  evaluate(candidate: EvaluateCandidate): ResidencyDecision {
    const known = this.memory.get(candidate.tenantId);
    const rule = known?.rule ?? this.defaultRule();
    const decision = {
      decisionId: this.timeAndIds.newId(),
      ruleVersion: known?.version ?? 0,
      evaluatedAt: this.timeAndIds.now(),
      ttlSeconds: DECISION_TTL_SECONDS,
    };
    let reasons: ResidencyReason[] = [];
    let isJudged = false;
    try {
      reasons = evaluateResidency(rule, candidate, this.settings.regions);
      isJudged = true;
    } catch (error) {
      // What cannot be judged is refused.
      this.logger.error(`A candidate could not be judged: ${(error as Error).message}`);
    }
    const allowed = isJudged && reasons.length === 0;
    if (!allowed && !candidate.dryRun) {
      this.metrics.countViolation(known ? candidate.tenantId : UNKNOWN_TENANT, candidate.kind);
    }
    return { ...decision, allowed, reasons };
  }

  /** CheckResidency: judges a binding that was made or moved, once for each message. False: nothing was new. */
  async checkResidency(changed: ChangedBinding): Promise<boolean> {
    const { tenantId, bindingId, eventId, occurredAt, origin } = changed;
    const outcome = await this.database.asPlatform(async (em) => {
      if (!(await insertReceived(em, CHECK_RESIDENCY, eventId, this.timeAndIds.now()))) return null;
      await lockResidency(em, tenantId, 'shared');
      const known = await em.findOne(StoreBinding, { bindingId });
      if (known && known.tenantId !== tenantId) {
        this.logger.warn(`The message ${eventId} names a binding of another tenant; it was left out.`);
        return null;
      }
      // At the same instant the later message counts: a message that comes again has been left out above.
      if (known && known.boundAt > occurredAt) return null;
      const binding = known ?? new StoreBinding(bindingId, tenantId);
      binding.bind(changed, occurredAt);
      const rule = await em.findOne(ResidencyRule, { tenantId });
      const isNew = binding.check(this.judge(rule, binding));
      em.persist(binding);
      if (isNew) {
        await this.evidence.append(em, tenantId, [violationEvidence(binding)]);
        await this.outbox.append(em, [violationAlert(binding)], { ...origin, causationId: eventId });
      }
      return { isNew, hasRule: rule !== null };
    });
    if (outcome?.isNew) this.metrics.countViolation(outcome.hasRule ? tenantId : UNKNOWN_TENANT, 'store-binding');
    return outcome !== null;
  }

  async listBindings(tenantId: string, violationsOnly: boolean, after: string, limit: number): Promise<BindingPage> {
    const where = { tenantId, bindingId: { $gt: after }, ...(violationsOnly && { allowed: false }) };
    const found = await this.database.inTenant(tenantId, (em) =>
      em.find(StoreBinding, where, { orderBy: { bindingId: 'asc' }, limit: limit + 1 }),
    );
    const items = found.slice(0, limit);
    return { items, nextCursor: found.length > limit ? (items.at(-1)?.bindingId ?? null) : null };
  }

  private async lockRule(em: EntityManager, { tenantId, ifVersion }: SetResidency): Promise<ResidencyRule | null> {
    await lockResidency(em, tenantId, 'exclusive');
    const rule = await em.findOne(ResidencyRule, { tenantId });
    const version = rule?.version ?? 0;
    if (ifVersion === undefined || ifVersion === version) return rule;
    const detail = `The version is ${version}, If-Match names ${ifVersion}. Read the rule again.`;
    throw new Problem('precondition-failed', detail, { faults: [{ pointer: 'header:If-Match', detail }] });
  }

  /** Judges the known bindings by a rule that has changed. Returns those that violate it and did not before. */
  private async recheck(em: EntityManager, rule: ResidencyRule): Promise<StoreBinding[]> {
    const bindings = await em.find(StoreBinding, { tenantId: rule.tenantId });
    return bindings.filter((binding) => binding.check(this.judge(rule, binding)));
  }

  private judge(rule: ResidencyRule | null, binding: StoreBinding) {
    const reasons = this.reasonsFor(rule ?? this.defaultRule(), binding);
    return { reasons, ruleVersion: rule?.version ?? 0, checkedAt: this.timeAndIds.now() };
  }

  private reasonsFor(rule: DecidingRule, { storeClass, engine, region }: BoundStore): ResidencyReason[] {
    return evaluateResidency(rule, { kind: 'store-binding', storeClass, engine, region }, this.settings.regions);
  }

  /** What judges a tenant without a rule, where the configuration says so: the first region, on any engine. */
  private defaultRule(): DecidingRule {
    const [region] = this.settings.regions;
    if (!this.settings.defaultResidencyApplies || region === undefined) return null;
    return {
      region,
      allowedRegions: [region],
      allowedEngines: null,
      modelDataResidency: 'same-region',
      pendingRegion: null,
    };
  }
}

function describe({
  region,
  allowedRegions,
  allowedEngines,
  modelDataResidency,
}: ResidencyTerms & { allowedEngines: AllowedEngines }) {
  return { region, allowedRegions, allowedEngines, modelDataResidency };
}

function residencyChanged({ tenantId, region, modelDataResidency, version }: ResidencyRule): DomainEvent {
  return {
    type: 'ResidencyRuleChanged',
    tenantId,
    aggregateId: tenantId,
    partitionKey: tenantId,
    payload: { tenantId, region, modelDataResidency, ruleVersion: version },
  };
}

function violationAlert({ bindingId, tenantId, reasons }: StoreBinding): DomainEvent {
  const detail = reasons.map(({ code }) => code).join(', ');
  return {
    type: 'ResidencyViolation',
    tenantId,
    aggregateId: bindingId,
    partitionKey: tenantId,
    payload: { bindingId, tenantId, severity: 'warning', detail },
  };
}

function violationEvidence({ bindingId, storeClass, engine, region, reasons, ruleVersion }: StoreBinding) {
  const payload = { bindingId, storeClass, engine, region, reasons, ruleVersion };
  return { kind: 'residency-violation', orderId: null, actor: CHECK_RESIDENCY, payload };
}
