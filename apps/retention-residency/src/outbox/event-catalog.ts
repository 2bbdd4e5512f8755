import { CLASSIFICATIONS, EXPIRY_ACTIONS, MODEL_DATA_RESIDENCIES, RULED_STORE_CLASSES } from '../vocabulary.js';

const uuid = { type: 'string', format: 'uuid' } as const;
/** Ids are keys of indexes, whose rows the server limits. */
const text = { type: 'string', minLength: 1, maxLength: 200 } as const;
const count = { type: 'integer', minimum: 1 } as const;
const instant = { type: 'string', format: 'date-time' } as const;
const oneOf = (values: readonly string[]) => ({ type: 'string', enum: [...values] }) as const;

/** A payload: what must be in it, and what may be. Nothing else is. */
function payload(required: Record<string, object>, optional: Record<string, object> = {}) {
  return {
    type: 'object',
    required: Object.keys(required),
    properties: { ...required, ...optional },
    additionalProperties: false,
  } as const;
}

/** What the service publishes: names and payloads are those of the specification, additions are optional. */
export const PUBLISHED = {
  RetentionRuleChanged: {
    topic: 'data-foundations.retention.v1.retention-rule-changed',
    aggregate: 'RetentionRule',
    summary: 'The retention rule in force for a tenant changed.',
    payload: payload(
      {
        ruleId: uuid,
        tenantId: text,
        storeClass: oneOf(RULED_STORE_CLASSES),
        classification: oneOf(CLASSIFICATIONS),
        retentionDays: count,
      },
      { expiryAction: oneOf(EXPIRY_ACTIONS), legalHoldExempt: { type: 'boolean' } },
    ),
  },
  ResidencyRuleChanged: {
    topic: 'data-foundations.residency.v1.residency-rule-changed',
    aggregate: 'ResidencyRule',
    summary: "A tenant's region or its allowed regions and engines changed; read them through EvaluateResidency.",
    payload: payload(
      { tenantId: text, region: text, modelDataResidency: oneOf(MODEL_DATA_RESIDENCIES) },
      { ruleVersion: count },
    ),
  },
  ResidencyViolation: {
    topic: 'data-foundations.alerts.v1.residency-violation',
    aggregate: 'StoreBinding',
    summary: "A store is bound where the tenant's residency rule does not allow it.",
    payload: payload({ bindingId: text, tenantId: text, severity: oneOf(['warning', 'critical']), detail: text }),
  },
} as const;

export type PublishedType = keyof typeof PUBLISHED;

/** What the service listens to. */
export const CONSUMED = {
  StoreBindingChanged: {
    topic: 'store-profiles.bindings.v1.store-binding-changed',
    summary: 'A store was bound for a tenant, or bound elsewhere: it is checked against the residency rule.',
    payload: {
      ...payload({ bindingId: text, tenantId: text, storeClass: text, engine: text, region: text }),
      // Of others we read what we know and let the rest be.
      additionalProperties: true,
    },
  },
} as const;

/** The envelope of every event, around its payload. */
export const ENVELOPE = {
  type: 'object',
  required: ['eventId', 'eventType', 'tenantId', 'traceId', 'correlationId', 'causationId', 'occurredAt', 'payload'],
  properties: {
    eventId: uuid,
    eventType: text,
    tenantId: text,
    projectId: text,
    traceId: text,
    correlationId: text,
    causationId: text,
    occurredAt: instant,
    payload: { type: 'object' },
  },
} as const;
