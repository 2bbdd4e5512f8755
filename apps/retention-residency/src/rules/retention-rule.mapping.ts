import { defineEntity } from '@mikro-orm/core';
import {
  SCHEMA,
  bool,
  check,
  instant,
  integer,
  json,
  nullable,
  oneOf,
  primary,
  text,
  uuid,
} from '../platform/columns.js';
import { tenantAndPlatformRows } from '../platform/row-security.js';
import { CLASSIFICATIONS, EXPIRY_ACTIONS, RULED_STORE_CLASSES } from '../vocabulary.js';
import { RetentionRule } from './retention-rule.js';
import { MAX_RETENTION_DAYS, MIN_RETENTION_DAYS } from './retention-terms.js';

export const retentionRuleMapping = defineEntity({
  class: RetentionRule,
  tableName: 'retention_rules',
  schema: SCHEMA,
  ...tenantAndPlatformRows(),
  properties: {
    ruleId: primary(uuid),
    tenantId: text,
    storeClass: text,
    classification: { ...text, default: 'public' },
    retentionDays: integer,
    expiryAction: text,
    legalHoldExempt: bool,
    active: bool,
    version: integer,
    reason: text,
    changedBy: text,
    changedAt: instant,
    graceTerms: nullable(json),
    graceUntil: nullable(instant),
  },
  indexes: [
    {
      name: 'retention_rules_active_uq',
      expression: `create unique index retention_rules_active_uq on ${SCHEMA}.retention_rules (tenant_id, store_class, classification) where active`,
    },
    {
      name: 'retention_rules_grace_idx',
      expression: `create index retention_rules_grace_idx on ${SCHEMA}.retention_rules (grace_until) where grace_until is not null`,
    },
    { name: 'retention_rules_subject_idx', properties: ['storeClass', 'classification', 'tenantId'] },
  ],
  checks: [
    check('retention_rules_store_class_check', oneOf('store_class', RULED_STORE_CLASSES)),
    check('retention_rules_classification_check', oneOf('classification', CLASSIFICATIONS)),
    check('retention_rules_expiry_action_check', oneOf('expiry_action', EXPIRY_ACTIONS)),
    check(
      'retention_rules_days_check',
      `retention_days >= ${MIN_RETENTION_DAYS} AND retention_days <= ${MAX_RETENTION_DAYS}`,
    ),
    check(
      'retention_rules_audit_check',
      `store_class <> 'audit'::text OR expiry_action = 'redact'::text AND NOT legal_hold_exempt`,
    ),
    check('retention_rules_grace_check', '(grace_terms IS NULL) = (grace_until IS NULL)'),
  ],
});
