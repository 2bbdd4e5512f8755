import { Injectable } from '@nestjs/common';
import { AuditObserver, type RetentionAuditObserver, type SweepEvent } from 'nestjs-cohort';

/** Keeps count of what Cohort tells: how many events of which type. */
@Injectable()
@AuditObserver()
export class RetentionJournal implements RetentionAuditObserver {
  readonly #counts = new Map<SweepEvent['type'], number>();

  onCommitted({ type }: SweepEvent): void {
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1);
  }

  counts(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort());
  }
}
