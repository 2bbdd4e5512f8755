import { AuditObserver, type RetentionAuditObserver, type SweepEvent } from 'nestjs-cohort';

export interface RecordingObserver extends RetentionAuditObserver {
  /** What it was told, in order. */
  readonly events: SweepEvent[];
}

/** An observer of a class of its own, by the given name, that remembers what it was told. */
export function observerOf(
  name: string,
  hear?: (event: SweepEvent, signal: AbortSignal) => Promise<void> | void,
): RecordingObserver {
  const { [name]: type } = {
    [name]: class implements RecordingObserver {
      readonly events: SweepEvent[] = [];

      onCommitted(event: SweepEvent, signal: AbortSignal) {
        this.events.push(event);
        return hear?.(event, signal);
      }
    },
  };
  AuditObserver()(type!);
  return new type!();
}
