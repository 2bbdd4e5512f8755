import { Injectable } from '@nestjs/common';
import { type BusMessage, EventBus, PoisonMessageError } from '../outbox/event-bus.js';
import { CONSUMED } from '../outbox/event-catalog.js';
import { EventSchemaError, checkEnvelope, checkPayload } from '../outbox/event-schema.js';
import type { Envelope } from '../outbox/event.js';
import { isTenantId } from '../access/principal.js';
import { unacceptableCode } from '../platform/database-error.js';
import { Metrics } from '../platform/metrics.js';
import { isStorable } from '../platform/storable-text.js';
import type { BoundStore } from './store-binding.js';
import { type ChangedBinding, ResidencyService } from './residency.service.js';

interface BindingPayload extends BoundStore {
  readonly bindingId: string;
  readonly tenantId: string;
}

const CONSUMER = 'check-residency';

/** CheckResidency: judges every binding that StoreProfileService tells. */
@Injectable()
export class CheckResidency {
  constructor(
    private readonly bus: EventBus,
    private readonly residency: ResidencyService,
    private readonly metrics: Metrics,
  ) {}

  start(): void {
    const { topic } = CONSUMED.StoreBindingChanged;
    this.bus.subscribe(topic, `retention-residency.${CONSUMER}`, (message) => this.handle(message));
  }

  private async handle(message: BusMessage): Promise<void> {
    try {
      await this.residency.checkResidency(read(message));
    } catch (error) {
      const sqlState = unacceptableCode(error);
      const isPoison = error instanceof PoisonMessageError || sqlState !== undefined;
      if (isPoison) this.metrics.countPoison(CONSUMER);
      throw sqlState === undefined ? error : new PoisonMessageError(`the database never accepts it (${sqlState})`);
    }
  }
}

/** Throws PoisonMessageError for what no later attempt would read. */
function read({ body }: BusMessage): ChangedBinding {
  const { payload, tenantId, eventId, traceId, correlationId, causationId, ...envelope } = parse(body);
  const { bindingId, storeClass, engine, region, ...named } = payload as unknown as BindingPayload;
  if (tenantId !== named.tenantId || !isTenantId(tenantId)) {
    throw new PoisonMessageError('envelope and payload do not name one tenant');
  }
  // Only what is kept: the rest may be nested too deep to be walked.
  const texts = [bindingId, storeClass, engine, region, traceId, correlationId, causationId];
  if (!texts.every(isStorable)) throw new PoisonMessageError('its text cannot be stored');
  const occurredAt = instantOf(envelope.occurredAt);
  const origin = { traceId, correlationId, causationId };
  return { bindingId, tenantId, storeClass, engine, region, eventId, occurredAt, origin };
}

function parse(body: string): Envelope {
  try {
    const envelope = JSON.parse(body) as Envelope;
    checkEnvelope(envelope);
    checkPayload('StoreBindingChanged', envelope.payload);
    return envelope;
  } catch (error) {
    if (error instanceof EventSchemaError) throw new PoisonMessageError(error.message);
    if (error instanceof SyntaxError) throw new PoisonMessageError('the body is no JSON');
    throw error;
  }
}

/** The format of RFC 3339 has leap seconds, zones without minutes and the year 0, which are no instants of ours. */
function instantOf(text: string): Date {
  const instant = new Date(text);
  const year = instant.getUTCFullYear();
  if (year >= 1 && year <= 9999) return instant;
  throw new PoisonMessageError('occurredAt is no instant of the years 1 to 9999');
}
