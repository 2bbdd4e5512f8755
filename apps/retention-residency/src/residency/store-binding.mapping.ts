import { defineEntity } from '@mikro-orm/core';
import { SCHEMA, bool, instant, integer, json, primary, text } from '../platform/columns.js';
import { tenantRows } from '../platform/row-security.js';
import { StoreBinding } from './store-binding.js';

export const storeBindingMapping = defineEntity({
  class: StoreBinding,
  tableName: 'store_bindings',
  schema: SCHEMA,
  ...tenantRows(),
  properties: {
    bindingId: primary(text),
    tenantId: text,
    storeClass: text,
    engine: text,
    region: text,
    boundAt: instant,
    allowed: bool,
    reasons: json,
    checkedAt: instant,
    ruleVersion: integer,
  },
  indexes: [{ name: 'store_bindings_tenant_idx', properties: ['tenantId', 'bindingId'] }],
});
