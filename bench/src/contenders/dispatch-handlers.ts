import { TenantContext } from 'nestjs-cohort';
import { FIRST_DAY, NOW } from '../notes.js';
import { type World, tenantIds } from '../world.js';

const [TENANT] = tenantIds(1) as [string];

/** Queues the work of one handler for so many rows, by sweeping them. */
export async function queueHandlers({ client, sweep }: World, count: number): Promise<void> {
  await client.query('truncate jobs, retention.sweep_run_row_detail, retention.sweep_row_handler_status');
  await client.query('insert into jobs select i, $1::uuid, $2::timestamptz from generate_series(1, $3::int) as i', [
    TENANT,
    FIRST_DAY,
    count,
  ]);
  await sweep.sweep(new TenantContext(TENANT), NOW);
  await client.query('vacuum analyze retention.sweep_row_handler_status, retention.sweep_run_row_detail');
  await client.query('checkpoint');
}

/** This library's dispatcher through its public door, with its defaults: four calls at a time. */
export async function dispatchHandlers({ dispatcher, handler }: World): Promise<number> {
  const before = handler.calls;
  const { settled } = await dispatcher.flush();
  if (!settled) throw new Error('The queue of row handlers is not empty.');
  return handler.calls - before;
}
