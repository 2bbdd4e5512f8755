// What the programs of this folder have in common: the built library over session notes, as a host has it.
import { randomUUID } from 'node:crypto';
import { MikroORM, defineEntity, p } from '@mikro-orm/postgresql';
import { cohortEntities, retain } from 'nestjs-cohort';
import { Readiness } from '../../dist/startup/readiness.js';

export const SessionNote = defineEntity({
  name: 'SessionNote',
  tableName: 'session_notes',
  properties: { id: p.uuid().primary(), tenantId: p.text(), createdAt: p.datetime().nullable(), body: p.text() },
});
retain(SessionNote, {
  category: 'session-notes',
  anchor: 'createdAt',
  entityId: 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8',
});

/** What a test plants on purpose is not printed. */
export const logger = {
  log() {},
  warn() {},
  error: (message, error) => error.message === 'poison' || console.error(message, error),
};

/** Makes whoever calls it stand for good at the given passing of a point, and tells the parent. */
export function standAt(point, passes) {
  let left = Number(passes);
  return async (at) => {
    if (at !== point || left-- > 0) return;
    process.send('there');
    await new Promise(() => {});
  };
}

export async function openHost({ url, schema, options, providers = [], ...probes }) {
  const orm = await MikroORM.init({ clientUrl: url, entities: [SessionNote, ...cohortEntities({ schema })] });
  const readiness = new Readiness({
    findInstances: () => [],
    providers: () => providers.map((instance) => ({ type: instance.constructor, instance })),
    orm,
    options: {
      rules: { 'session-notes': { period: 'P30D', strategy: 'purge', auditRowDetail: 'perRow' } },
      ...options,
    },
    logger,
    newId: randomUUID,
    ...probes,
  });
  return { orm, readiness };
}
