// A process that sweeps session notes of one tenant and, at a point of its choice, stops for good, to be killed there.
// Arguments: url, Cohort's schema, point, how often to pass the point before stopping.
import { RetentionSweep, TenantContext } from 'nestjs-cohort';
import { openHost, standAt } from './host.mjs';

const [, , url, schema, point, passes] = process.argv;
const { orm, readiness } = await openHost({
  url,
  schema,
  options: { sweepBatchSize: 100 },
  probe: standAt(point, passes),
});
await new RetentionSweep(readiness).sweep(new TenantContext('acme'), new Date('2026-06-30T12:00:00.000Z'));
await orm.close();
