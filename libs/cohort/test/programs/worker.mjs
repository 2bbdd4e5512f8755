// A process that sweeps session notes by a schedule of two-second slots until it is told to stop, and stops for good at a
// point of its choice. Arguments: url, Cohort's schema, point, how often to pass the point before stopping.
import { SchedulerRegistry } from '@nestjs/schedule';
import { TenantContext } from 'nestjs-cohort';
import { RetentionWorker } from '../../dist/workers/retention-worker.js';
import { logger, openHost, standAt } from './host.mjs';

const [, , url, schema, point, passes] = process.argv;
const { orm, readiness } = await openHost({
  url,
  schema,
  options: {
    schedule: '*/2 * * * * *',
    tenants: [new TenantContext('acme'), new TenantContext('globex')],
    sweepBatchSize: 10,
    worker: { slotLease: 1000 },
  },
  probe: standAt(point, passes),
});
const worker = new RetentionWorker({ readiness, timers: new SchedulerRegistry(), logger, clock: () => new Date() });
await worker.onApplicationBootstrap();
process.on('message', async () => {
  await worker.stop();
  await orm.close();
  process.disconnect();
});
