import { AliasCycleError, CohortConfigurationError, describeValue } from '../cohort.errors.js';
import { requireOptions, requireText } from './arguments.js';
import { RetentionCategoryCapabilities, RetentionRule, type RetentionRuleInit } from './retention-rule.js';
import { RetentionRuleProvider, type RetentionResolutionContext } from './rule-provider.js';

/** A category that has the rule of another one. */
export interface RuleAlias {
  readonly alias: string;
}

/** Rules written down as a table: category to rule, the same for every tenant. */
export type StaticRules = Readonly<Record<string, RetentionRule | RetentionRuleInit | RuleAlias>>;

/** A provider over a fixed table. Collects every wrong rule in one error. */
export class StaticRuleProvider extends RetentionRuleProvider {
  readonly #rules: ReadonlyMap<string, RetentionRule>;

  constructor(rules: StaticRules) {
    super();
    if (rules === null || typeof rules !== 'object' || Array.isArray(rules)) {
      throw new CohortConfigurationError([
        `rules is ${describeValue(rules)}; wanted: a RetentionRuleProvider or a table of category to rule.`,
      ]);
    }
    const problems: string[] = [];
    const table = new Map(
      Object.entries(rules).flatMap(([category, given]) => {
        const parsed = parse(category, given, problems);
        return parsed ? [[category, parsed] as const] : [];
      }),
    );
    this.#rules = followAliases(table, problems);
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

function parse(
  category: string,
  given: StaticRules[string],
  problems: string[],
): RetentionRule | RuleAlias | undefined {
  try {
    if (given instanceof RetentionRule) return given;
    if (given === null || typeof given !== 'object' || !('alias' in given)) return new RetentionRule(given);
    requireOptions(given, ['alias'], 'alias');
    requireText(given.alias, 'alias');
    return given;
  } catch (error) {
    problems.push(`rules['${category}']: ${(error as Error).message}`);
    return undefined;
  }
}

/** The rule at the end of every chain of aliases. */
function followAliases(
  table: ReadonlyMap<string, RetentionRule | RuleAlias>,
  problems: string[],
): ReadonlyMap<string, RetentionRule> {
  const rules = new Map<string, RetentionRule>();
  for (const category of table.keys()) {
    const path = aliasPath(table, category);
    const last = path.at(-1)!;
    const end = table.get(last);
    if (end instanceof RetentionRule) rules.set(category, end);
    else if (!end) problems.push(`rules['${category}']: alias '${last}' has no rule of its own in the table.`);
    // Each member of a cycle finds it; one of them says so.
    else if (last === category && [...path].sort()[0] === category) problems.push(new AliasCycleError(path).message);
  }
  return rules;
}

/** From a category to the one with a rule, with none, or that the path has passed before. */
function aliasPath(table: ReadonlyMap<string, RetentionRule | RuleAlias>, category: string): string[] {
  const path = [category];
  for (let next = table.get(category); next && 'alias' in next; next = table.get(next.alias)) {
    const seen = path.includes(next.alias);
    path.push(next.alias);
    if (seen) break;
  }
  return path;
}
