import { Injectable } from '@nestjs/common';
import { Counter, Registry, collectDefaultMetrics } from 'prom-client';
import type { CandidateKind } from '../vocabulary.js';

/** Names are those of the specification, dots becoming underscores; poison messages are our addition. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();
  private readonly violations = new Counter({
    name: 'connectsoft_factory_data_event_residency_violations',
    help: 'Residency checks that refused.',
    labelNames: ['tenant', 'kind'],
    registers: [this.registry],
  });
  private readonly poisonMessages = new Counter({
    name: 'connectsoft_factory_data_event_poison_messages',
    help: 'Messages that no later attempt would work off.',
    labelNames: ['consumer'],
    registers: [this.registry],
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** `tenant`: one that has a rule, so that made-up names make no series. */
  countViolation(tenant: string, kind: CandidateKind): void {
    this.violations.inc({ tenant, kind });
  }

  countPoison(consumer: string): void {
    this.poisonMessages.inc({ consumer });
  }
}
