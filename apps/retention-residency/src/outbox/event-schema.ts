import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import { CONSUMED, ENVELOPE, PUBLISHED, type PublishedType } from './event-catalog.js';

const ajv = new Ajv({ allErrors: true, strict: true });
addFormats.default(ajv);

const validators = new Map<string, ValidateFunction>(
  Object.entries({ ...PUBLISHED, ...CONSUMED }).map(([type, { payload }]) => [type, ajv.compile(payload)]),
);
const validateEnvelope = ajv.compile(ENVELOPE);

/** An event that does not fit its schema: a fault of ours, found before anything is stored, or of whoever sent it. */
export class EventSchemaError extends Error {
  readonly code = 'event-schema';

  constructor(eventType: string, faults: string) {
    super(`The event ${eventType} does not fit its schema: ${faults}.`);
    this.name = 'EventSchemaError';
  }
}

/** Throws EventSchemaError. */
export function checkPayload(type: PublishedType | keyof typeof CONSUMED, payload: unknown): void {
  const validate = validators.get(type) as ValidateFunction;
  if (!validate(payload)) throw new EventSchemaError(type, faultsOf(validate));
}

/** Throws EventSchemaError. */
export function checkEnvelope(envelope: unknown): void {
  if (!validateEnvelope(envelope)) throw new EventSchemaError('envelope', faultsOf(validateEnvelope));
}

/** Where and what, never the values: they may be a tenant's. */
function faultsOf({ errors }: ValidateFunction): string {
  return (errors ?? []).map(({ instancePath, message }) => `${instancePath || '/'} ${message}`).join(', ');
}
