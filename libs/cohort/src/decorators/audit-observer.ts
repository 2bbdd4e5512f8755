import type { RetentionAuditObserver } from '../domain/audit-observer.js';

type ObserverClass = abstract new (...args: never[]) => RetentionAuditObserver;

const observers = new WeakSet<object>();

/** Marks a provider that is told what the ledger has committed. Not inherited. */
export function AuditObserver(): (target: ObserverClass) => void {
  return (target) => {
    observers.add(target);
  };
}

/** @internal */
export function isAuditObserver(type: object): boolean {
  return observers.has(type);
}
