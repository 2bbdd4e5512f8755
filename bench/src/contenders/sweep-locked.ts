import { type RetentionSweep, TenantContext } from 'nestjs-cohort';
import { NOW } from '../notes.js';
import type { World } from '../world.js';

/** This library through its public door: one pass over all tenants, one lane. */
export function sweepLocked({ sweep, tenantIds }: World): Promise<number> {
  return sweepAll(sweep, tenantIds);
}

/** The same on two lanes. */
export function sweepOnTwoLanes({ twoLanes, tenantIds }: World): Promise<number> {
  return sweepAll(twoLanes, tenantIds);
}

/** The same with a line of the ledger for every row. Those of the round before are gone in a moment. */
export async function sweepWithDetail({ client, withDetail, tenantIds }: World): Promise<number> {
  await client.query('truncate retention.sweep_run_row_detail cascade');
  return sweepAll(withDetail, tenantIds);
}

/** The same for anonymising. */
export function anonymiseLocked({ anonymising, tenantIds }: World): Promise<number> {
  return sweepAll(anonymising, tenantIds);
}

async function sweepAll(sweep: RetentionSweep, tenantIds: readonly string[]): Promise<number> {
  let removed = 0;
  const tenants = tenantIds.map((id) => new TenantContext(id));
  for await (const result of sweep.sweepMany(tenants, NOW)) {
    if (result.status !== 'succeeded') throw new Error(`The run of ${result.tenantId} is ${result.status}.`);
    removed += result.counts.reduce((sum, count) => sum + count.affected, 0);
  }
  return removed;
}
