import { TenantContext } from 'nestjs-cohort';
import { NOW } from '../notes.js';
import type { World } from '../world.js';

/** This library through its public door: one pass over all tenants, one lane. */
export async function sweepLocked({ sweep, tenantIds }: World): Promise<number> {
  let removed = 0;
  const tenants = tenantIds.map((id) => new TenantContext(id));
  for await (const result of sweep.sweepMany(tenants, NOW)) {
    if (result.status !== 'succeeded') throw new Error(`The run of ${result.tenantId} is ${result.status}.`);
    removed += result.counts.reduce((sum, count) => sum + count.affected, 0);
  }
  return removed;
}
