import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireText } from './arguments.js';
import { parsePeriod } from './period.js';
import { AuditRowDetail, Strategy, isOneOf } from './strategy.js';

/** Where a rule came from, kept with every summary it led to. Free text without personal data. */
export interface RuleProvenance {
  readonly source?: string;
  readonly reason?: string;
}

export interface RetentionRuleInit {
  /** ISO-8601, not negative. 'P0D' means at once. */
  readonly period: string;
  readonly strategy: Strategy;
  /** ISO-8601. The longest of the two periods decides. */
  readonly legalMin?: string | undefined;
  /** Default 'summaryOnly'. */
  readonly auditRowDetail?: Exclude<AuditRowDetail, 'inherit'> | undefined;
  readonly provenance?: RuleProvenance | undefined;
}

/** What one category's rows are kept for, and what happens then. Frozen: make a new one to change a policy. */
export class RetentionRule {
  readonly period: string;
  readonly strategy: Strategy;
  readonly legalMin: string | undefined;
  readonly auditRowDetail: Exclude<AuditRowDetail, 'inherit'>;
  readonly provenance: RuleProvenance | undefined;

  constructor(init: RetentionRuleInit) {
    if (init === null || typeof init !== 'object')
      throw new InvalidArgumentError('rule', init, 'an object with period and strategy');
    requireOptions(init, ['period', 'strategy', 'legalMin', 'auditRowDetail', 'provenance'], 'rule');
    this.period = parsePeriod(init.period, 'rule.period');
    if (!isOneOf(Strategy, init.strategy)) {
      throw new InvalidArgumentError('rule.strategy', init.strategy, `one of ${Object.values(Strategy).join(', ')}`);
    }
    this.strategy = init.strategy;
    this.legalMin = init.legalMin === undefined ? undefined : parsePeriod(init.legalMin, 'rule.legalMin');
    const detail: unknown = init.auditRowDetail ?? AuditRowDetail.SummaryOnly;
    if (!isOneOf(AuditRowDetail, detail) || detail === AuditRowDetail.Inherit) {
      throw new InvalidArgumentError('rule.auditRowDetail', detail, `'summaryOnly' or 'perRow'`);
    }
    this.auditRowDetail = detail;
    this.provenance = requireProvenance(init.provenance);
    Object.freeze(this);
  }
}

function requireProvenance(provenance: unknown): RuleProvenance | undefined {
  if (provenance === undefined) return undefined;
  if (provenance === null || typeof provenance !== 'object' || Array.isArray(provenance))
    throw new InvalidArgumentError('rule.provenance', provenance, 'an object with source and reason');
  requireOptions(provenance, ['source', 'reason'], 'rule.provenance');
  const { source, reason } = provenance as Record<string, unknown>;
  for (const [field, text] of Object.entries({ source, reason })) {
    if (text !== undefined) requireText(text, `rule.provenance.${field}`);
  }
  return Object.freeze({ ...provenance });
}

/** Every strategy that a category's rules may ever use. Start-up checks the model against all of them. */
export class RetentionCategoryCapabilities {
  readonly strategies: readonly Strategy[];

  constructor(strategies: Iterable<Strategy>) {
    if (typeof strategies?.[Symbol.iterator] !== 'function')
      throw new InvalidArgumentError('strategies', strategies, 'a list of strategies');
    const copy = [...strategies];
    if (copy.length === 0) throw new InvalidArgumentError('strategies', 'none', 'at least one strategy');
    for (const strategy of copy) {
      if (!isOneOf(Strategy, strategy))
        throw new InvalidArgumentError('strategies', strategy, `values among ${Object.values(Strategy).join(', ')}`);
    }
    this.strategies = Object.freeze([...new Set(copy)]);
    Object.freeze(this);
  }
}
