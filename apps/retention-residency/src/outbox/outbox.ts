import type { EntityManager } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { TimeAndIds } from '../platform/time-and-ids.js';
import type { DomainEvent, Origin } from './event.js';
import { PUBLISHED } from './event-catalog.js';
import { checkEnvelope, checkPayload } from './event-schema.js';
import { type NewOutboxRow, insertEvents, lockAllKeys, lockKeys } from './outbox.queries.js';

/** More keys than this are locked as one. */
const MANY_KEYS = 64;

/** Events that leave with the transaction that they belong to, or not at all. */
@Injectable()
export class Outbox {
  constructor(private readonly timeAndIds: TimeAndIds) {}

  /**
   * Appends events in the transaction of `em`; call it once, last. Their order within a partition key is that of the commits.
   * Throws EventSchemaError, and nothing is stored then.
   */
  async append(em: EntityManager, events: readonly DomainEvent[], origin: Origin): Promise<void> {
    if (events.length === 0) return;
    const now = this.timeAndIds.now();
    const rows = events.map((event) => this.rowOf(event, origin, now));
    const keys = [...new Set(rows.map(({ partitionKey }) => partitionKey))];
    const isMany = keys.length > MANY_KEYS;
    await lockAllKeys(em, isMany ? 'exclusive' : 'shared');
    if (!isMany) await lockKeys(em, keys);
    await insertEvents(em, rows, now);
  }

  private rowOf(event: DomainEvent, origin: Origin, now: Date): NewOutboxRow {
    const { type, tenantId, aggregateId, partitionKey, payload } = event;
    const { topic, aggregate } = PUBLISHED[type];
    const id = this.timeAndIds.newId();
    const envelope = { eventId: id, eventType: type, tenantId, ...origin, occurredAt: now.toISOString(), payload };
    checkPayload(type, payload);
    checkEnvelope(envelope);
    return { id, aggregate, aggregateId, topic, tenantId, partitionKey, envelope };
  }
}
