import { EntitySchema } from '@mikro-orm/core';
import { SCHEMA, instant, json, nullable, primary, text, uuid } from '../platform/columns.js';
import { tenantRows } from '../platform/row-security.js';

/** Events that wait to be published, and those that were. Read and written by outbox.queries.ts alone. */
export const outboxMapping = new EntitySchema({
  name: 'OutboxRow',
  tableName: 'outbox',
  schema: SCHEMA,
  ...tenantRows(),
  properties: {
    seq: { type: 'bigint', columnType: 'bigserial', primary: true, autoincrement: true },
    id: { ...uuid, unique: 'outbox_id_uq' },
    aggregate: text,
    aggregateId: text,
    topic: text,
    tenantId: text,
    partitionKey: text,
    envelope: json,
    createdAt: instant,
    publishedAt: nullable(instant),
  },
  indexes: [
    {
      name: 'outbox_waiting_idx',
      expression: `create index outbox_waiting_idx on ${SCHEMA}.outbox (seq) where published_at is null`,
    },
    {
      name: 'outbox_waiting_key_idx',
      expression: `create index outbox_waiting_key_idx on ${SCHEMA}.outbox (partition_key, seq) where published_at is null`,
    },
  ],
});

/** Messages that a consumer has worked off. */
export const inboxMapping = new EntitySchema({
  name: 'InboxRow',
  tableName: 'inbox',
  schema: SCHEMA,
  properties: { consumer: primary(text), messageId: primary(text), receivedAt: instant },
});
