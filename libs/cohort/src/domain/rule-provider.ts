import { AliasCycleError } from '../cohort.errors.js';
import type { RetentionCategoryCapabilities, RetentionRule } from './retention-rule.js';
import type { TenantContext } from './tenant-context.js';

/** What a rule may depend on. `aliasPath` lists the categories already followed when a provider resolves aliases. */
export interface RetentionResolutionContext {
  readonly category: string;
  readonly tenant: TenantContext;
  readonly now: Date;
  readonly aliasPath: readonly string[];
}

/**
 * The context for the category that another one is an alias of: for providers that answer by asking again. Throws
 * AliasCycleError where the path comes back to a category that it has passed.
 */
export function followAlias<C extends Pick<RetentionResolutionContext, 'category' | 'aliasPath'>>(
  context: C,
  category: string,
): C {
  const aliasPath = [...context.aliasPath, context.category];
  const seen = aliasPath.indexOf(category);
  if (seen >= 0) throw new AliasCycleError([...aliasPath.slice(seen), category]);
  return { ...context, category, aliasPath };
}

/**
 * The host's policy. `getCapabilities` answers at start, once a category, with every strategy that `resolve` may ever
 * return; `resolve` answers for a tenant and an instant, before any row is locked.
 */
export abstract class RetentionRuleProvider {
  abstract getCapabilities(category: string): RetentionCategoryCapabilities | null;

  abstract resolve(context: RetentionResolutionContext): Promise<RetentionRule | null> | RetentionRule | null;
}
