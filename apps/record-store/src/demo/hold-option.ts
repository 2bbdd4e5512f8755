import { randomUUID } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { type HoldRequest, TenantContext } from 'nestjs-cohort';
import { Customer } from '../customers/customer.js';
import { InvoiceLine } from '../invoices/invoice-line.js';
import { Invoice } from '../invoices/invoice.js';

export const HOLD_KINDS = ['invoice', 'invoice-line', 'customer'] as const;

/** A hold as it is asked for on the command line. */
export interface HoldOption {
  readonly kind: (typeof HOLD_KINDS)[number];
  readonly id: number;
}

/** A hold was asked for on a row that is not there. */
class HoldTargetError extends Error {
  readonly code = 'hold-target';

  constructor({ kind, id }: HoldOption) {
    super(`--hold ${kind}:${id}: there is no ${kind} ${id} in the shop; name one that it has.`);
  }
}

/** Turns what was asked for into holds, with the tenant of each row. Throws HoldTargetError. */
export async function resolveHolds(em: EntityManager, holds: readonly HoldOption[]): Promise<HoldRequest[]> {
  const store = em.fork();
  const requests: HoldRequest[] = [];
  for (const hold of holds) {
    const entity = { invoice: Invoice, 'invoice-line': InvoiceLine, customer: Customer }[hold.kind];
    const row = await store.findOne<{ id: number; representative: string }>(entity as never, { id: hold.id } as never);
    if (!row) throw new HoldTargetError(hold);
    requests.push({
      holdId: randomUUID(),
      entity,
      recordId: String(hold.id),
      tenant: new TenantContext(row.representative),
      reason: 'asked for on the command line of the demo',
    });
  }
  return requests;
}
