import { AliasCycleError, CohortConfigurationError, describeValue } from '../cohort.errors.js';
import { requireOptions, requireText } from './arguments.js';
import { RetentionCategoryCapabilities, RetentionRule, type RetentionRuleInit } from './retention-rule.js';
import { type RetentionResolutionContext, RetentionRuleProvider, followAlias } from './rule-provider.js';

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
    try {
      const end = endOfAliases(table, category);
      const rule = table.get(end);
      if (rule instanceof RetentionRule) rules.set(category, rule);
      else problems.push(`rules['${category}']: alias '${end}' has no rule of its own in the table.`);
    } catch (error) {
      if (!(error instanceof AliasCycleError)) throw error;
      // Whoever leads into a cycle finds it from where he came in; one way round is enough to tell.
      if ([...error.path].sort()[0] === error.path[0]) problems.push(error.message);
    }
  }
  return rules;
}

/** The category with a rule, or in no table, that a chain of aliases ends with. */
function endOfAliases(table: ReadonlyMap<string, RetentionRule | RuleAlias>, category: string): string {
  let at: Pick<RetentionResolutionContext, 'category' | 'aliasPath'> = { category, aliasPath: [] };
  for (let next = table.get(category); next && 'alias' in next; next = table.get(at.category))
    at = followAlias(at, next.alias);
  return at.category;
}
