import type { Origin } from '../outbox/event.js';

/** Who asks, and from where it comes. */
export interface Actor {
  readonly clientId: string;
  /** May set platform defaults, and exempt a rule from legal holds. */
  readonly isPlatformAdmin: boolean;
  readonly origin: Origin;
}
