import { RuleResolutionError, describeValue } from '../cohort.errors.js';
import { RetentionCategoryCapabilities, RetentionRule } from '../domain/retention-rule.js';
import type { RetentionResolutionContext, RetentionRuleProvider } from '../domain/rule-provider.js';
import type { Strategy } from '../domain/strategy.js';
import type { RetentionRegistry } from '../registry/retention-registry.js';

/** The host's rules, held to what they declared at start. */
export interface RuleBook {
  strategiesOf(category: string): readonly Strategy[];
  resolve(context: Omit<RetentionResolutionContext, 'aliasPath'>): Promise<RetentionRule>;
}

/** Asks every used category for its capabilities, once; the answers hold for the life of the process. */
export function openRuleBook(
  provider: RetentionRuleProvider,
  registry: Pick<RetentionRegistry, 'entries'>,
  problems: string[],
): RuleBook {
  const declared = new Map<string, readonly Strategy[]>();
  for (const category of new Set(registry.entries.map((entry) => entry.category))) {
    declared.set(category, declaredStrategies(provider, category, problems));
  }
  return {
    strategiesOf: (category) => declared.get(category) ?? [],
    resolve: async (context) => {
      const rule = await provider.resolve({ ...context, now: new Date(context.now), aliasPath: [] });
      if (!(rule instanceof RetentionRule))
        throw new RuleResolutionError(context.category, 'the provider returned no RetentionRule.');
      const allowed = declared.get(context.category) ?? [];
      if (allowed.includes(rule.strategy)) return rule;
      throw new RuleResolutionError(
        context.category,
        `its strategy '${rule.strategy}' was not declared by getCapabilities (${allowed.join(', ')}).`,
      );
    },
  };
}

function declaredStrategies(
  provider: RetentionRuleProvider,
  category: string,
  problems: string[],
): readonly Strategy[] {
  try {
    const capabilities = provider.getCapabilities(category);
    if (capabilities instanceof RetentionCategoryCapabilities) return capabilities.strategies;
    problems.push(
      `Category '${category}' is used by an entity, but the rules know nothing of it: getCapabilities must return its strategies.`,
    );
  } catch (error) {
    const thrown = error instanceof Error ? `${error.constructor.name}: ${error.message}` : describeValue(error);
    problems.push(`Category '${category}': getCapabilities threw ${thrown}`);
  }
  return [];
}
