import { defineEntity } from '@mikro-orm/core';
import { SCHEMA, check, instant, integer, json, nullable, oneOf, primary, text, uuid } from '../platform/columns.js';
import { tenantRows } from '../platform/row-security.js';
import { MODEL_DATA_RESIDENCIES } from '../vocabulary.js';
import { ResidencyRule } from './residency-rule.js';

export const residencyRuleMapping = defineEntity({
  class: ResidencyRule,
  tableName: 'residency_rules',
  schema: SCHEMA,
  ...tenantRows(),
  properties: {
    tenantId: primary(text),
    region: text,
    allowedRegions: { type: 'array', columnType: 'text[]' },
    allowedEngines: json,
    modelDataResidency: { ...text, default: 'same-region' },
    changedAt: instant,
    version: integer,
    pendingRegion: nullable(text),
    migrationOrderId: nullable(uuid),
  },
  checks: [
    check('residency_rules_regions_check', 'region = ANY (allowed_regions)'),
    check('residency_rules_model_check', oneOf('model_data_residency', MODEL_DATA_RESIDENCIES)),
  ],
});
