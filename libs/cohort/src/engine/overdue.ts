import { Strategy } from '../domain/strategy.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import { selectLongestOverdue } from '../sql/selection.js';
import { type EngineContext, inBatch } from './context.js';
import { type MutatingWalk, selectForWalk } from './limit-walk.js';
import { listTenants } from './list-tenants.js';
import { planWalks } from './plan.js';

/**
 * For how many seconds the oldest row of each entity has been due and not held, 0 where none is: for the tenants that the
 * worker sweeps, under the rules in force. An entity whose rules cannot be resolved, or whose table cannot be read in the
 * time of a batch, is left out.
 */
export async function longestOverdue(ctx: EngineContext, now: Date, signal: AbortSignal): Promise<Map<string, number>> {
  const tenants = await listTenants(ctx, signal);
  const runs = tenants.map((tenant) => ({ sweepId: '', tenant, tenantId: tenantIdOf(ctx.registry, tenant) }));
  const { walks } = await planWalks(ctx, ctx.registry.entries, runs, { now, signal });
  const seconds = new Map<string, number>();
  for (const walk of walks) {
    if (walk.strategy === Strategy.Exempt) continue;
    const { entityName } = walk.entry;
    const selection = selectForWalk(ctx, walk as MutatingWalk, walk.slices);
    try {
      const longest = await inBatch(ctx, (tx) => selectLongestOverdue(tx, selection));
      seconds.set(entityName, Math.max(longest, seconds.get(entityName) ?? 0));
    } catch (error) {
      ctx.logger.error(`The oldest overdue row of ${entityName} could not be looked at`, error);
    }
  }
  return seconds;
}
