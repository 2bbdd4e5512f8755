import { Injectable } from '@nestjs/common';
import { type BusMessage, EventBus, PoisonMessageError } from '../outbox/event-bus.js';
import { CONSUMED } from '../outbox/event-catalog.js';
import { EventSchemaError, checkEnvelope, checkPayload } from '../outbox/event-schema.js';
import type { Envelope } from '../outbox/event.js';
import { isTenantId } from '../access/principal.js';
import type { BoundStore } from './store-binding.js';
import { ResidencyService } from './residency.service.js';

interface BindingPayload extends BoundStore {
  readonly bindingId: string;
  readonly tenantId: string;
}

/** NUL and halves of surrogate pairs, which JSON carries and PostgreSQL does not. */
const UNSTORABLE = /\\u(?:0000|d[89a-f])/;

/** CheckResidency: judges every binding that StoreProfileService tells. */
@Injectable()
export class CheckResidency {
  constructor(
    private readonly bus: EventBus,
    private readonly residency: ResidencyService,
  ) {}

  start(): void {
    const { topic } = CONSUMED.StoreBindingChanged;
    this.bus.subscribe(topic, 'retention-residency.check-residency', (message) => this.handle(message));
  }

  private async handle(message: BusMessage): Promise<void> {
    const { payload, ...envelope } = read(message);
    const { bindingId, tenantId, storeClass, engine, region } = payload as unknown as BindingPayload;
    const { eventId, traceId, correlationId, causationId } = envelope;
    await this.residency.checkResidency({
      bindingId,
      tenantId,
      storeClass,
      engine,
      region,
      eventId,
      occurredAt: new Date(envelope.occurredAt),
      origin: { traceId, correlationId, causationId },
    });
  }
}

/** Throws PoisonMessageError for what no later attempt would read. */
function read({ body }: BusMessage): Envelope {
  try {
    const envelope = JSON.parse(body) as Envelope;
    checkEnvelope(envelope);
    checkPayload('StoreBindingChanged', envelope.payload);
    const { tenantId } = envelope.payload as unknown as BindingPayload;
    if (tenantId !== envelope.tenantId || !isTenantId(tenantId)) {
      throw new PoisonMessageError('envelope and payload do not name one tenant');
    }
    if (UNSTORABLE.test(JSON.stringify(envelope))) throw new PoisonMessageError('its text cannot be stored');
    return envelope;
  } catch (error) {
    if (error instanceof EventSchemaError) throw new PoisonMessageError(error.message);
    if (error instanceof SyntaxError) throw new PoisonMessageError('the body is no JSON');
    throw error;
  }
}
