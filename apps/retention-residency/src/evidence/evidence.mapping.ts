import { EntitySchema } from '@mikro-orm/core';
import { SCHEMA, bigint, check, instant, json, nullable, primary, text, uuid } from '../platform/columns.js';
import { tenantRows } from '../platform/row-security.js';

/** The chain of each tenant. A trigger refuses every change but redaction and ageing from the front. */
export const evidenceMapping = new EntitySchema({
  name: 'EvidenceRow',
  tableName: 'evidence',
  schema: SCHEMA,
  ...tenantRows(),
  properties: {
    tenantId: primary(text),
    seq: primary(bigint),
    at: instant,
    kind: text,
    orderId: nullable(uuid),
    actor: nullable(text),
    payload: nullable(json),
    salt: nullable(text),
    sealed: text,
    prevHash: text,
    hash: text,
  },
  checks: [
    check('evidence_redaction_check', '(actor IS NULL) = (payload IS NULL) AND (payload IS NULL) = (salt IS NULL)'),
  ],
});

/** Both ends of each chain. */
export const evidenceHeadMapping = new EntitySchema({
  name: 'EvidenceHead',
  tableName: 'evidence_heads',
  schema: SCHEMA,
  ...tenantRows(),
  properties: {
    tenantId: primary(text),
    firstSeq: bigint,
    firstHash: text,
    lastSeq: bigint,
    lastHash: text,
  },
});
