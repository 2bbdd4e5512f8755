import { CohortConfigurationError, describeValue } from '../cohort.errors.js';
import { RetentionCategoryCapabilities, RetentionRule, type RetentionRuleInit } from './retention-rule.js';
import { RetentionRuleProvider, type RetentionResolutionContext } from './rule-provider.js';

/** Rules written down as a table: category to rule, the same for every tenant. */
export type StaticRules = Readonly<Record<string, RetentionRule | RetentionRuleInit>>;

/** A provider over a fixed table. Collects every wrong rule in one error. */
export class StaticRuleProvider extends RetentionRuleProvider {
  readonly #rules = new Map<string, RetentionRule>();

  constructor(rules: StaticRules) {
    super();
    if (rules === null || typeof rules !== 'object' || Array.isArray(rules)) {
      throw new CohortConfigurationError([
        `rules is ${describeValue(rules)}; wanted: a RetentionRuleProvider or a table of category to rule.`,
      ]);
    }
    const problems: string[] = [];
    for (const [category, rule] of Object.entries(rules)) {
      try {
        this.#rules.set(category, rule instanceof RetentionRule ? rule : new RetentionRule(rule));
      } catch (error) {
        problems.push(`rules['${category}']: ${(error as Error).message}`);
      }
    }
    if (problems.length > 0) throw new CohortConfigurationError(problems);
  }

  override getCapabilities(category: string): RetentionCategoryCapabilities | null {
    const rule = this.#rules.get(category);
    return rule ? new RetentionCategoryCapabilities([rule.strategy]) : null;
  }

  override resolve(context: RetentionResolutionContext): RetentionRule | null {
    return this.#rules.get(context.category) ?? null;
  }
}
