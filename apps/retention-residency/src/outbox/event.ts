import type { PublishedType } from './event-catalog.js';

/** Something that happened, as an aggregate tells it. */
export interface DomainEvent {
  readonly type: PublishedType;
  readonly tenantId: string;
  readonly aggregateId: string;
  /** Events of one key arrive in the order in which they were appended. */
  readonly partitionKey: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** What an event comes from: the trace of the request, and the message or request that caused it. */
export interface Origin {
  readonly traceId: string;
  readonly correlationId: string;
  readonly causationId: string;
}

/** What is published, and how it is wrapped. */
export interface Envelope {
  readonly eventId: string;
  readonly eventType: string;
  readonly tenantId: string;
  readonly projectId?: string;
  readonly traceId: string;
  readonly correlationId: string;
  readonly causationId: string;
  readonly occurredAt: string;
  readonly payload: Readonly<Record<string, unknown>>;
}
