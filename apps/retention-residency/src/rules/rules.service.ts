import type { EntityManager } from '@mikro-orm/postgresql';
import { Inject, Injectable } from '@nestjs/common';
import { Settings } from '../settings.js';
import { Evidence } from '../evidence/evidence.js';
import type { DomainEvent } from '../outbox/event.js';
import { Outbox } from '../outbox/outbox.js';
import type { Actor } from '../platform/actor.js';
import { Database } from '../platform/database.js';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { Problem, refuse } from '../problem.js';
import { type Classification, type ExpiryAction, PLATFORM, type RuledStoreClass } from '../vocabulary.js';
import { type ExplainedRule, explainRule } from './explain-rule.js';
import { retentionCutoff } from './retention-cutoff.js';
import { type Grace, RetentionRule, checkTerms, isUnchanged } from './retention-rule.js';
import { type RetentionTerms, areSameTerms, milderTerms } from './retention-terms.js';
import { RuleSet, ruleSets } from './rule-set.js';
import { lockRules, selectKnownTenants } from './rules.queries.js';

export interface SetRetentionRule {
  readonly tenantId: string;
  readonly scope: 'tenant' | 'platform';
  readonly storeClass: RuledStoreClass;
  readonly classification: Classification;
  /** Null: the override goes (G39). */
  readonly retentionDays: number | null;
  /** Undefined: as it is now. */
  readonly expiryAction?: ExpiryAction;
  readonly legalHoldExempt?: boolean;
  readonly justification: string;
  /** The version that the caller has seen. */
  readonly ifVersion?: number;
}

/** What a change would do. */
export interface RetentionImpact {
  readonly before: RetentionTerms;
  readonly after: RetentionTerms;
  readonly affectedTenants: number;
  readonly effectiveAt: Date;
}

const DAY_MS = 86_400_000;

export interface RuleAt {
  readonly rules: RuleSet;
  readonly at: Date;
}

interface DecidedChange {
  readonly terms: RetentionTerms | null;
  readonly grace: Grace | null;
  readonly before: RetentionTerms;
  readonly after: RetentionTerms;
}

/** Retention rules: what is in force, why, and changes of it. */
@Injectable()
export class RulesService {
  constructor(
    private readonly database: Database,
    private readonly outbox: Outbox,
    private readonly evidence: Evidence,
    private readonly timeAndIds: TimeAndIds,
    @Inject(Settings) private readonly settings: Pick<Settings, 'graceDays'>,
  ) {}

  /** One set per store class and classification; `tenantId` may be the platform. */
  async listRetentionRules(
    tenantId: string,
    filter: { storeClass?: RuledStoreClass; classification?: Classification } = {},
  ): Promise<RuleAt[]> {
    const at = this.timeAndIds.now();
    const sets = await this.database.inTenant(tenantId, (em) => this.load(em, tenantId, filter));
    return sets.map((rules) => ({ rules, at }));
  }

  async explainRetentionRule(
    tenantId: string,
    storeClass: RuledStoreClass,
    classification: Classification,
  ): Promise<ExplainedRule & { cutoff: Date }> {
    const at = this.timeAndIds.now();
    const [set] = await this.database.inTenant(tenantId, (em) =>
      this.load(em, tenantId, { storeClass, classification }),
    );
    const explained = explainRule(known(set).layers, at);
    return { ...explained, cutoff: retentionCutoff(storeClass, explained.terms.retentionDays, at) };
  }

  /** Sets a tenant's override or a platform default. The current content changes nothing. Throws a Problem. */
  setRetentionRule(command: SetRetentionRule, actor: Actor): Promise<RuleAt> {
    return this.inScope(command, async (em, rules, at) => {
      const change = this.decide(command, rules, at);
      if (change === null) return { rules, at };
      const told = await this.toldTenants(em, command, rules, at);
      const changed = this.apply(em, command, rules, change, actor, at);
      await this.evidence.append(em, rules.tenantId, [
        evidenceOf('retention-rule-changed', changed, change, command.justification, actor),
      ]);
      await this.outbox.append(em, eventsOf(told, changed, at), actor.origin);
      return { rules: changed, at };
    });
  }

  /** What `setRetentionRule` would do; nothing is changed. Throws what it would throw. */
  previewRetentionRule(command: SetRetentionRule): Promise<RetentionImpact> {
    return this.inScope(command, async (em, rules, at) => {
      const change = this.decide(command, rules, at);
      const before = rules.inForce(at);
      if (change === null) return { before, after: before, affectedTenants: 0, effectiveAt: at };
      const effectiveAt = change.grace?.until ?? at;
      const tenants = await this.toldTenants(em, command, rules, at);
      const after = planned(rules, change);
      const affected = tenants.filter(
        // At one instant: what is pending already takes force without this change.
        ({ set }) => !areSameTerms(set.inForce(effectiveAt), replaced(set, after).inForce(effectiveAt)),
      );
      return { before, after: after.inForce(effectiveAt), affectedTenants: affected.length, effectiveAt };
    });
  }

  /** The transaction of a change: locked, so that what is decided is what is stored. */
  private inScope<T>(
    { scope, tenantId, storeClass, classification }: SetRetentionRule,
    body: (em: EntityManager, rules: RuleSet, at: Date) => Promise<T>,
  ): Promise<T> {
    const owner = scope === 'platform' ? PLATFORM : tenantId;
    const work = async (em: EntityManager) => {
      await lockRules(em, { storeClass, classification }, scope === 'platform' ? null : tenantId);
      const [set] = await this.load(em, owner, { storeClass, classification });
      return body(em, known(set), this.timeAndIds.now());
    };
    return scope === 'platform' ? this.database.asPlatform(work) : this.database.inTenant(tenantId, work);
  }

  /** Null: nothing changes. */
  private decide(command: SetRetentionRule, rules: RuleSet, at: Date): DecidedChange | null {
    const { ifVersion, scope, storeClass } = command;
    if (ifVersion !== undefined && ifVersion !== rules.version) {
      const detail = `The version is ${rules.version}, If-Match names ${ifVersion}. Read the rule again.`;
      throw new Problem('precondition-failed', detail, { faults: [{ pointer: 'header:If-Match', detail }] });
    }
    const terms = askedTerms(command, rules);
    const current = scope === 'platform' ? rules.platform : rules.override;
    if (terms) checkTerms(storeClass, terms, scope === 'platform' ? null : rules.platform.terms);
    if (isUnchanged(current, terms)) return null;
    const before = rules.inForce(at);
    const after = planned(rules, { terms, grace: null }).inForce(at);
    const graceMs = this.settings.graceDays * DAY_MS;
    const waits = graceMs > 0 && !areSameTerms(milderTerms(before, after), after);
    const grace = waits ? { before, until: new Date(at.getTime() + graceMs) } : null;
    return { terms, grace, before, after };
  }

  private apply(
    em: EntityManager,
    command: SetRetentionRule,
    rules: RuleSet,
    { terms, grace }: DecidedChange,
    actor: Actor,
    now: Date,
  ): RuleSet {
    const change = { reason: command.justification, changedBy: actor.clientId, now };
    const row = command.scope === 'platform' ? rules.platform : (rules.own ?? this.newOverride(em, command));
    if (terms === null) row.deactivate(grace, change);
    else row.set(terms, grace, change);
    return command.scope === 'platform' ? rules : new RuleSet(rules.tenantId, rules.platform, row);
  }

  private newOverride(em: EntityManager, subject: SetRetentionRule): RetentionRule {
    const rule = new RetentionRule(this.timeAndIds.newId(), subject);
    em.persist(rule);
    return rule;
  }

  /** Everyone whom a change concerns, with what they were told last: taken before the change is made. */
  private async toldTenants(
    em: EntityManager,
    { scope, storeClass, classification }: SetRetentionRule,
    rules: RuleSet,
    at: Date,
  ): Promise<ToldTenant[]> {
    if (scope === 'tenant') return [{ set: rules, told: rules.told(at) }];
    return toldByPlatform(em, { storeClass, classification }, at);
  }

  private async load(
    em: EntityManager,
    tenantId: string,
    filter: { storeClass?: RuledStoreClass; classification?: Classification },
  ): Promise<RuleSet[]> {
    const where = { ...filter, tenantId: { $in: [...new Set([tenantId, PLATFORM])] } };
    const rows = await em.find(RetentionRule, where, { orderBy: { storeClass: 'asc', classification: 'asc' } });
    return ruleSets(tenantId, rows);
  }
}

export interface ToldTenant {
  readonly set: RuleSet;
  readonly told: RetentionTerms;
}

/** The sets of every known tenant for one store class and classification. */
export async function toldByPlatform(
  em: EntityManager,
  subject: { storeClass: RuledStoreClass; classification: Classification },
  at: Date,
): Promise<ToldTenant[]> {
  const rows = await em.find(RetentionRule, subject);
  const platform = rows.find((row) => row.isPlatform) as RetentionRule;
  const own = new Map(rows.filter((row) => !row.isPlatform).map((row) => [row.tenantId, row]));
  return (await selectKnownTenants(em)).map((tenantId) => {
    const set = new RuleSet(tenantId, platform, own.get(tenantId) ?? null);
    return { set, told: set.told(at) };
  });
}

/** RetentionRuleChanged for each tenant whose value in force is not what it was told last. */
export function eventsOf(tenants: readonly ToldTenant[], changed: RuleSet, at: Date): DomainEvent[] {
  return tenants.flatMap(({ set, told }) => {
    const now = replaced(set, changed);
    const terms = now.inForce(at);
    return areSameTerms(told, terms) ? [] : [ruleChanged(now, terms)];
  });
}

function ruleChanged(set: RuleSet, terms: RetentionTerms): DomainEvent {
  const { ruleId, storeClass, classification } = set.deciding;
  const { tenantId } = set;
  return {
    type: 'RetentionRuleChanged',
    tenantId,
    aggregateId: ruleId,
    partitionKey: tenantId,
    payload: { ruleId, tenantId, storeClass, classification, ...terms },
  };
}

/** A tenant's set once one of its rows has changed. */
function replaced(set: RuleSet, changed: RuleSet): RuleSet {
  return set.tenantId === changed.tenantId ? changed : new RuleSet(set.tenantId, changed.platform, set.own);
}

/** What the rows would be, on copies. */
function planned(rules: RuleSet, { terms, grace }: Pick<DecidedChange, 'terms' | 'grace'>): RuleSet {
  const change = { reason: '', changedBy: '', now: new Date(0) };
  const copy = (row: RetentionRule) => Object.assign(new RetentionRule(row.ruleId, row), { ...row });
  if (rules.tenantId === PLATFORM) {
    const platform = copy(rules.platform);
    platform.set(terms as RetentionTerms, grace, change);
    return new RuleSet(PLATFORM, platform, null);
  }
  const own = rules.own ? copy(rules.own) : new RetentionRule('', { ...subjectOf(rules), tenantId: rules.tenantId });
  if (terms === null) own.deactivate(grace, change);
  else own.set(terms, grace, change);
  return new RuleSet(rules.tenantId, rules.platform, own);
}

function subjectOf({ platform: { storeClass, classification } }: RuleSet) {
  return { storeClass, classification };
}

/** What is left out stays as it is. Null: the override goes. */
function askedTerms(command: SetRetentionRule, rules: RuleSet): RetentionTerms | null {
  const { retentionDays, scope, expiryAction, legalHoldExempt } = command;
  if (retentionDays === null) {
    if (scope === 'tenant') return null;
    throw refuse('validation', '/retentionDays', 'A platform default cannot be removed; give it a number of days.');
  }
  const current = scope === 'platform' ? rules.platform : rules.override;
  return {
    retentionDays,
    expiryAction: expiryAction ?? current?.expiryAction ?? rules.platform.expiryAction,
    legalHoldExempt: legalHoldExempt ?? current?.legalHoldExempt ?? false,
  };
}

function evidenceOf(kind: string, rules: RuleSet, change: DecidedChange, justification: string, actor: Actor) {
  const { before, terms, grace } = change;
  const payload = {
    ...subjectOf(rules),
    ruleId: rules.deciding.ruleId,
    before,
    asked: terms,
    effectiveAt: grace?.until.toISOString() ?? null,
    justification,
  };
  return { kind, orderId: null, actor: actor.clientId, payload };
}

/** Platform rules are seeded at start; without one nothing is decided (G27). */
function known(set: RuleSet | undefined): RuleSet {
  if (set) return set;
  throw new Problem('dependency-unavailable', 'The platform has no rule for this store class and classification.');
}
