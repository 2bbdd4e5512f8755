import type { SweepEvent } from './sweep-event.js';

/**
 * Is told what was committed, in order: a provider marked with `@AuditObserver()`. What it throws is logged and changes
 * nothing. `signal` is aborted when its time is over; it then hears no more of that pass. Record ids and tenants are in
 * what it gets: whoever it passes them on to handles personal data.
 */
export interface RetentionAuditObserver {
  onCommitted(event: SweepEvent, signal: AbortSignal): Promise<void> | void;
}
