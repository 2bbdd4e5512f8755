import { InvalidArgumentError } from '../cohort.errors.js';
import { TENANTLESS, type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { unlessAborted } from '../domain/unless-aborted.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import type { EngineContext } from './context.js';

/**
 * Whom one slot sweeps: the source's tenants, each once, in the order in which they were first seen, and the tenantless
 * entities after them. The source is read to its end first; one wrong entry fails the slot before anything is swept.
 */
export async function listTenants(ctx: EngineContext, signal: AbortSignal): Promise<TenantContext[]> {
  const { entries } = ctx.registry;
  const hasTenants = entries.some((entry) => entry.tenant !== null);
  // A source that hangs holds up nobody for longer than the signal says.
  const tenants = hasTenants ? await unlessAborted(readTenants(ctx, signal), signal) : [];
  return entries.some((entry) => entry.tenant === null) ? [...tenants, TENANTLESS] : tenants;
}

async function readTenants(ctx: EngineContext, signal: AbortSignal): Promise<TenantContext[]> {
  const all: TenantContext[] = [];
  for await (const tenant of (await ctx.tenants?.tenants()) ?? []) {
    signal.throwIfAborted();
    if (tenant === TENANTLESS)
      throw new InvalidArgumentError(
        `tenants[${all.length}]`,
        tenant,
        'a tenant; tenantless entities are swept anyway',
      );
    all.push(requireTenant(tenant, `tenants[${all.length}]`));
  }
  signal.throwIfAborted();
  if (all.length === 0) ctx.logger.warn('The tenant source named no tenant; entities with a tenant are not swept.');
  return distinct(ctx, all);
}

function distinct(ctx: EngineContext, tenants: readonly TenantContext[]): TenantContext[] {
  const byId = new Map<string, TenantContext>();
  const conflicting = new Set<string>();
  for (const tenant of tenants) {
    const id = tenantIdOf(ctx.registry, tenant);
    const first = byId.get(id);
    if (!first) byId.set(id, tenant);
    else if (described(first) !== described(tenant)) conflicting.add(id);
  }
  for (const id of conflicting)
    ctx.logger.warn(`Tenant ${id} was named with different jurisdictions or tags; the first ones count.`);
  return [...byId.values()];
}

function described({ jurisdiction, tags }: TenantContext): string {
  return JSON.stringify([jurisdiction, Object.entries(tags).sort()]);
}
