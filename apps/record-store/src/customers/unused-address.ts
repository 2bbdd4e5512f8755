import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { AnonymiseFactory } from 'nestjs-cohort';

/** An address that nobody has, another one for every customer: who counts customers by address counts the same as before. */
@Injectable()
export class UnusedAddress implements AnonymiseFactory {
  readonly mode = 'perRow';

  create(): string {
    // The domain is reserved: no mail for it is ever delivered (RFC 2606).
    return `${randomUUID()}@customer.invalid`;
  }
}
