import type { Origin } from '../outbox/event.js';

/** W3C traceparent: version, trace id, parent id, flags. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/;
const CORRELATION_ID = /^[A-Za-z0-9._-]{1,64}$/;
const NO_TRACE = '0'.repeat(32);

/** The trace id that a caller sent, or a new one. */
export function traceIdOf(traceparent: unknown, newId: () => string): string {
  const sent = typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[1] : undefined;
  return sent && sent !== NO_TRACE ? sent : newId().replaceAll('-', '');
}

/** What the events of a request come from. A correlation id that is none is left out. */
export function originOf(traceId: string, correlation: unknown): Origin {
  const isGiven = typeof correlation === 'string' && CORRELATION_ID.test(correlation);
  return { traceId, correlationId: isGiven ? correlation : traceId, causationId: traceId };
}
