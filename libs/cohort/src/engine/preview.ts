import { Strategy } from '../domain/strategy.js';
import type { TenantContext } from '../domain/tenant-context.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import { countSelection } from '../sql/selection.js';
import { type EngineContext, inLedger } from './context.js';
import { type EntitySweepCount, NOTHING, foreseen } from './counts.js';
import { type MutatingWalk, selectForWalk } from './limit-walk.js';
import { type Walk, planWalks } from './plan.js';

export interface RetentionPreviewResult {
  readonly tenantId: string;
  readonly now: Date;
  readonly counts: readonly EntitySweepCount[];
}

/** What a sweep at `now` would do, by entity name. Writes nothing; the first failing entity fails the call. */
export async function previewTenant(
  ctx: EngineContext,
  tenant: TenantContext,
  now: Date,
  signal: AbortSignal | undefined,
): Promise<RetentionPreviewResult> {
  signal?.throwIfAborted();
  const tenantId = tenantIdOf(ctx.registry, tenant);
  const plan = await planWalks(ctx, ctx.registry.entries, [{ sweepId: ctx.newId(), tenant, tenantId }], {
    now,
    signal,
  });
  if (plan.failures[0]) throw plan.failures[0].error;
  const counts: EntitySweepCount[] = [];
  for (const walk of plan.walks) {
    signal?.throwIfAborted();
    counts.push(await count(ctx, walk, tenantId));
  }
  return { tenantId, now, counts };
}

async function count(ctx: EngineContext, walk: Walk, tenantId: string): Promise<EntitySweepCount> {
  const { entityName: entity, entityId, category } = walk.entry;
  const tally = walk.strategy === Strategy.Exempt ? NOTHING : await foresee(ctx, walk as MutatingWalk);
  return { entity, entityId, category, tenantId, strategy: walk.strategy, ...tally };
}

async function foresee(ctx: EngineContext, walk: MutatingWalk) {
  const selection = selectForWalk(ctx, walk, walk.slices);
  const [counted] = await inLedger(ctx, (tx) => countSelection(tx, selection, { refused: [], keyPaths: [] }));
  return counted ? foreseen(counted) : NOTHING;
}
