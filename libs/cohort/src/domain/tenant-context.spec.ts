import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { TENANTLESS, TENANTLESS_ID, TenantContext, requireTenant } from './tenant-context.js';

describe('TenantContext', () => {
  test.each(['acme', '42', 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8', 'Ünïcode 租户', 'a'.repeat(500)])(
    'keeps the id %s as it is',
    (id) => {
      expect(new TenantContext(id)).toMatchObject({ id, jurisdiction: undefined, tags: {} });
    },
  );

  // acceptance 34, 41, DOM-05
  test.each([
    [TENANTLESS_ID, `'${TENANTLESS_ID}'`],
    ['', 'an empty string'],
    [' \t', "' \t'"],
    [null, 'null'],
    [undefined, 'undefined'],
    [42, '42'],
    [NaN, 'NaN'],
    [{ id: 'acme' }, 'a value of type Object'],
  ])('refuses the id %p, naming what it saw', (id, seen) => {
    const attempt = () => new TenantContext(id as string);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(`tenant.id is ${seen}; wanted: `);
  });

  test.each(['ac\0me', 'acme\ud800'])('refuses the id %j, which no text column can hold as it is', (id) => {
    expect(() => new TenantContext(id)).toThrow(InvalidArgumentError);
  });

  // acceptance 40, DOM-05
  test('copies its tags and freezes them', () => {
    const tags: Record<string, string> = { plan: 'gold' };
    const tenant = new TenantContext('acme', { jurisdiction: 'EU', tags });
    tags.plan = 'none';
    expect(tenant).toMatchObject({ jurisdiction: 'EU', tags: { plan: 'gold' } });
    expect(() => Object.assign(tenant.tags, { plan: 'none' })).toThrow(TypeError);
    expect(() => Object.assign(tenant, { id: 'globex' })).toThrow(TypeError);
  });

  // acceptance 40
  test('protects its tags in a spread copy too', () => {
    const copy = { ...new TenantContext('acme', { tags: { plan: 'gold' } }) };
    expect(() => Object.assign(copy.tags, { plan: 'none' })).toThrow(TypeError);
  });

  // DOM-05
  test.each([null, 'gold', 7, ['gold'], { plan: 7 }, { plan: null }])('refuses the tags %p', (tags) => {
    const attempt = () => new TenantContext('acme', { tags } as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/^tenant\.tags/);
  });

  test.each([null, 7, ''])('refuses the jurisdiction %p', (jurisdiction) => {
    const attempt = () => new TenantContext('acme', { jurisdiction } as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/^tenant\.jurisdiction/);
  });

  test.each([null, 'EU', 7])('refuses %p in place of its options', (options) => {
    expect(() => new TenantContext('acme', options as never)).toThrow(InvalidArgumentError);
  });
});

describe('TENANTLESS', () => {
  // DOM-05, RULE-13
  test('is a context of the zero UUID without jurisdiction or tags, and cannot be changed', () => {
    expect(TENANTLESS).toBeInstanceOf(TenantContext);
    expect({ ...TENANTLESS }).toEqual({ id: TENANTLESS_ID, jurisdiction: undefined, tags: {} });
    expect(() => Object.assign(TENANTLESS, { id: 'acme' })).toThrow(TypeError);
    expect(() => Object.assign(TENANTLESS.tags, { plan: 'gold' })).toThrow(TypeError);
  });
});

describe('requireTenant', () => {
  test.each([new TenantContext('acme'), TENANTLESS])('returns %p as it is', (tenant) => {
    expect(requireTenant(tenant)).toBe(tenant);
  });

  test.each([null, undefined, 'acme', 42, { id: 'acme' }, { id: 'acme', jurisdiction: undefined, tags: {} }])(
    'refuses %p',
    (value) => {
      const attempt = () => requireTenant(value, 'tenants[3]');
      expect(attempt).toThrow(InvalidArgumentError);
      expect(attempt).toThrow(/^tenants\[3\] is .*; wanted: a TenantContext or TENANTLESS\.$/);
    },
  );
});
