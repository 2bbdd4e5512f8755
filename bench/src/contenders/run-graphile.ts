import { Logger, makeWorkerUtils, runOnce } from 'graphile-worker';
import type { World } from '../world.js';

/** As many calls at a time as the dispatcher has by default. */
const CONCURRENCY = 4;
const logger = new Logger(() => () => undefined);

/** Queues so many jobs that do nothing. */
export async function queueJobs({ client, url }: World, count: number): Promise<void> {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.release();
  await client.query(`select count(graphile_worker.add_job('nothing', '{}')) from generate_series(1, $1::int)`, [
    count,
  ]);
  await client.query('vacuum analyze graphile_worker._private_jobs');
  await client.query('checkpoint');
}

/** graphile-worker until its queue is empty. */
export async function runGraphile({ url }: World): Promise<number> {
  let calls = 0;
  await runOnce({
    connectionString: url,
    concurrency: CONCURRENCY,
    noHandleSignals: true,
    logger,
    taskList: { nothing: () => void calls++ },
  });
  return calls;
}
