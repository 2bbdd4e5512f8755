// A process that sweeps session notes of one tenant and, at a point of its choice, stops for good, to be killed there.
// Runs the built library, as a host does. Arguments: url, Cohort's schema, point, how often to pass the point before stopping.
import { randomUUID } from 'node:crypto';
import { MikroORM, defineEntity, p } from '@mikro-orm/postgresql';
import { RetentionSweep, TenantContext, cohortEntities, retain } from 'nestjs-cohort';
import { Readiness } from '../../dist/startup/readiness.js';

const [, , url, schema, point, passes] = process.argv;

const SessionNote = defineEntity({
  name: 'SessionNote',
  tableName: 'session_notes',
  properties: { id: p.uuid().primary(), tenantId: p.text(), createdAt: p.datetime().nullable(), body: p.text() },
});
retain(SessionNote, {
  category: 'session-notes',
  anchor: 'createdAt',
  entityId: 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8',
});

const orm = await MikroORM.init({
  clientUrl: url,
  entities: [SessionNote, ...cohortEntities({ schema })],
});
let left = Number(passes);
const readiness = new Readiness({
  findInstances: () => [],
  orm,
  options: {
    rules: { 'session-notes': { period: 'P30D', strategy: 'purge', auditRowDetail: 'perRow' } },
    sweepBatchSize: 100,
  },
  logger: { log() {}, warn() {}, error: (message, error) => console.error(message, error) },
  newId: randomUUID,
  probe: async (at) => {
    if (at !== point || left-- > 0) return;
    process.send('there');
    await new Promise(() => {});
  },
});
await new RetentionSweep(readiness).sweep(new TenantContext('acme'), new Date('2026-06-30T12:00:00.000Z'));
await orm.close();
