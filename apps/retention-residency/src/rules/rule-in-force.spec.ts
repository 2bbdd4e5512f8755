import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EXPIRY_ACTIONS, type ExpiryAction, RULED_STORE_CLASSES, type RuledStoreClass } from '../vocabulary.js';
import { explainRule } from './explain-rule.js';
import { retentionCutoff } from './retention-cutoff.js';
import { RetentionRule, checkTerms, isUnchanged } from './retention-rule.js';
import { AUDIT_FLOOR_DAYS, type RetentionTerms, areSameTerms } from './retention-terms.js';
import { type RuleLayers, isCapped, pendingTerms, termsInForce } from './rule-in-force.js';

const NOW = new Date('2026-03-01T00:00:00Z');
const later = (days: number) => new Date(NOW.getTime() + days * 86_400_000);

function terms(retentionDays: number, expiryAction: ExpiryAction = 'delete', legalHoldExempt = false): RetentionTerms {
  return { retentionDays, expiryAction, legalHoldExempt };
}

function layers(platform: number, override: number | null, storeClass: RuledStoreClass = 'runs'): RuleLayers {
  return {
    storeClass,
    platform: { terms: terms(platform), grace: null },
    override: override === null ? null : { terms: terms(override), grace: null },
  };
}

const problemOf = (act: () => void): unknown => {
  try {
    act();
  } catch (error) {
    return (error as { code: unknown }).code;
  }
  return 'accepted';
};

describe('the terms in force', () => {
  test.each([
    { platform: 365, override: null, expected: 365 },
    { platform: 365, override: 30, expected: 30 },
    { platform: 365, override: 365, expected: 365 },
    // G13: a platform default that was lowered below an override.
    { platform: 100, override: 200, expected: 100 },
  ])('are $expected days for a platform of $platform and an override of $override', (each) => {
    expect(termsInForce(layers(each.platform, each.override), NOW).retentionDays).toBe(each.expected);
  });

  // G11
  test.each([
    { platform: 3000, override: 2555, capped: true },
    { platform: 2555, override: 3000, capped: true },
    { platform: 3000, override: 3000, capped: false },
  ])('of audit are the $platform days of the platform for an override of $override', (each) => {
    const audit = layers(each.platform, each.override, 'audit');
    expect(termsInForce(audit, NOW).retentionDays).toBe(each.platform);
    expect(isCapped(audit, NOW)).toBe(each.capped);
    const tenant = explainRule(audit, NOW).layers.find(({ layer }) => layer === 'tenant');
    expect(tenant?.outcome).toBe(each.capped ? 'capped' : 'agrees');
  });

  test('are not capped by a platform that falls until its grace is over', () => {
    const falling: RuleLayers = {
      storeClass: 'runs',
      platform: { terms: terms(100), grace: { before: terms(365), until: later(7) } },
      override: { terms: terms(200), grace: null },
    };
    expect([isCapped(falling, NOW), termsInForce(falling, NOW).retentionDays]).toEqual([false, 200]);
    expect([isCapped(falling, later(7)), termsInForce(falling, later(7)).retentionDays]).toEqual([true, 100]);
  });

  test('are what took less away while a change is in its grace, and what was asked for at its end', () => {
    const changing: RuleLayers = {
      storeClass: 'runs',
      platform: { terms: terms(365), grace: null },
      override: { terms: terms(30), grace: { before: terms(90, 'archive'), until: later(7) } },
    };
    expect(termsInForce(changing, NOW)).toEqual(terms(90, 'archive'));
    expect(termsInForce(changing, new Date(later(7).getTime() - 1))).toEqual(terms(90, 'archive'));
    expect(termsInForce(changing, later(7))).toEqual(terms(30));
    expect(pendingTerms(changing, NOW)).toEqual({ terms: terms(30), effectiveAt: later(7) });
    expect(pendingTerms(changing, later(7))).toBeNull();
  });

  test('follow a platform that falls during the grace of an override', () => {
    const both: RuleLayers = {
      storeClass: 'runs',
      platform: { terms: terms(50), grace: { before: terms(365), until: later(2) } },
      override: { terms: terms(30), grace: { before: terms(365), until: later(7) } },
    };
    expect(termsInForce(both, NOW).retentionDays).toBe(365);
    expect(termsInForce(both, later(2)).retentionDays).toBe(50);
    expect(termsInForce(both, later(7)).retentionDays).toBe(30);
    expect(pendingTerms(both, NOW)).toEqual({ terms: terms(50), effectiveAt: later(2) });
  });

  test('keep data that an override archived until the grace of its removal is over', () => {
    const removed: RuleLayers = {
      storeClass: 'runs',
      platform: { terms: terms(365), grace: null },
      override: { terms: null, grace: { before: terms(30, 'archive'), until: later(7) } },
    };
    expect(termsInForce(removed, NOW)).toEqual(terms(365, 'archive'));
    expect(termsInForce(removed, later(7))).toEqual(terms(365));
  });

  test('let no override keep under a hold what the platform lets expire (G20)', () => {
    const exempt: RuleLayers = {
      storeClass: 'runs',
      platform: { terms: terms(365, 'delete', true), grace: null },
      override: { terms: terms(30), grace: null },
    };
    expect(termsInForce(exempt, NOW)).toEqual(terms(30, 'delete', true));
  });

  test('never exceed the ceiling, never fall below the audit floor, and are what explain says', () => {
    const days = fc.integer({ min: 1, max: 36_500 });
    const anyTerms = fc.record({
      retentionDays: days,
      expiryAction: fc.constantFrom(...EXPIRY_ACTIONS),
      legalHoldExempt: fc.boolean(),
    });
    const grace = fc.option(fc.record({ before: anyTerms, until: fc.integer({ min: -3, max: 9 }).map(later) }));
    const inAudit = ({ retentionDays }: RetentionTerms) =>
      terms(Math.max(retentionDays, AUDIT_FLOOR_DAYS), 'redact', false);
    fc.assert(
      fc.property(
        fc.constantFrom(...RULED_STORE_CLASSES),
        fc.record({ terms: anyTerms, grace }),
        fc.option(fc.record({ terms: fc.option(anyTerms), grace })),
        fc.integer({ min: -3, max: 9 }).map(later),
        (storeClass, platform, override, at) => {
          const fit = storeClass === 'audit' ? inAudit : (each: RetentionTerms) => each;
          const fitLayer = <T extends RetentionTerms | null>(layer: { terms: T; grace: typeof platform.grace }) => ({
            terms: (layer.terms && fit(layer.terms)) as T,
            grace: layer.grace && { ...layer.grace, before: fit(layer.grace.before) },
          });
          const given: RuleLayers = {
            storeClass,
            platform: fitLayer(platform),
            override: override && fitLayer(override),
          };
          const inForce = termsInForce(given, at);
          const ceiling = termsInForce({ ...given, override: null }, at);
          expect(inForce.retentionDays).toBeLessThanOrEqual(ceiling.retentionDays);
          if (storeClass === 'audit') {
            expect(inForce.retentionDays).toBeGreaterThanOrEqual(AUDIT_FLOOR_DAYS);
            expect(inForce).toMatchObject({ expiryAction: 'redact', legalHoldExempt: false });
            // G11: the floor is the ceiling.
            expect(inForce).toEqual(ceiling);
          }
          const explained = explainRule(given, at);
          expect(explained.terms).toEqual(inForce);
          expect(explained.layers.some(({ outcome }) => outcome === 'capped')).toBe(isCapped(given, at));
          // The last layer that has a say names the value, except one that the platform caps.
          const deciding = explained.layers
            .filter(({ outcome }) => outcome !== 'absent' && outcome !== 'capped')
            .at(-1);
          expect(deciding?.retentionDays).toBe(inForce.retentionDays);
          const pending = pendingTerms(given, at);
          if (pending) {
            expect(pending.effectiveAt.getTime()).toBeGreaterThan(at.getTime());
            expect(termsInForce(given, pending.effectiveAt)).toEqual(pending.terms);
            expect(areSameTerms(pending.terms, inForce)).toBe(false);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('terms that may be asked for', () => {
  // field case C21
  test.each([0, -1, Number.NaN, 1.5, 36_501, 1e12])('are not %p days', (days) => {
    expect(problemOf(() => checkTerms('runs', terms(days), terms(36_500)))).toBe('validation');
    expect(problemOf(() => checkTerms('runs', terms(days), null))).toBe('validation');
  });

  test.each([1, 365, 36_500])('are %p days for the platform', (days) => {
    expect(problemOf(() => checkTerms('runs', terms(days), null))).toBe('accepted');
  });

  test('shorten the platform and never lengthen it', () => {
    expect(problemOf(() => checkTerms('runs', terms(365), terms(365)))).toBe('accepted');
    expect(problemOf(() => checkTerms('runs', terms(366), terms(365)))).toBe('retention-ceiling');
  });

  test('of audit evidence have the floor for a ceiling, and only redact (G11, G12, G20)', () => {
    const platform = terms(2555, 'redact');
    expect(problemOf(() => checkTerms('audit', terms(2555, 'redact'), platform))).toBe('accepted');
    expect(problemOf(() => checkTerms('audit', terms(2554, 'redact'), platform))).toBe('retention-floor');
    expect(problemOf(() => checkTerms('audit', terms(2556, 'redact'), platform))).toBe('retention-ceiling');
    expect(problemOf(() => checkTerms('audit', terms(2554, 'redact'), null))).toBe('retention-floor');
    expect(problemOf(() => checkTerms('audit', terms(3650, 'redact'), null))).toBe('accepted');
    for (const action of ['delete', 'archive'] as const) {
      expect(problemOf(() => checkTerms('audit', terms(2555, action), platform))).toBe('retention-floor');
    }
    expect(problemOf(() => checkTerms('audit', terms(2555, 'redact', true), null))).toBe('retention-floor');
  });
});

describe('a retention rule', () => {
  const change = { reason: 'less is enough', changedBy: 'acme-admin', now: NOW };

  test('counts its changes and remembers the grace', () => {
    const rule = new RetentionRule('a', { tenantId: 'acme', storeClass: 'runs', classification: 'public' });
    rule.set(terms(30), { before: terms(365), until: later(7) }, change);
    expect(rule).toMatchObject({ version: 1, active: true, terms: terms(30), isPlatform: false });
    expect(rule.grace).toEqual({ before: terms(365), until: later(7) });
    rule.endGrace();
    expect(rule).toMatchObject({ version: 1, grace: null });
    rule.deactivate(null, change);
    expect(rule).toMatchObject({ version: 2, active: false, terms: terms(30) });
  });

  test('is unchanged by its own terms, and by a removal of what is not there', () => {
    const rule = new RetentionRule('a', { tenantId: '*', storeClass: 'runs', classification: 'public' });
    rule.set(terms(30), null, change);
    expect(rule.isPlatform).toBe(true);
    expect(isUnchanged(rule, terms(30))).toBe(true);
    expect(isUnchanged(rule, terms(30, 'archive'))).toBe(false);
    expect(isUnchanged(rule, null)).toBe(false);
    expect(isUnchanged(null, null)).toBe(true);
    expect(isUnchanged(null, terms(30))).toBe(false);
  });
});

describe('the cutoff', () => {
  test('is the days before now', () => {
    expect(retentionCutoff('runs', 365, NOW)).toEqual(new Date('2025-03-01T00:00:00Z'));
  });

  // G9
  test('of audit evidence is seven calendar years ago where the days fall short of them', () => {
    const cutoff = retentionCutoff('audit', 2555, new Date('2026-02-28T00:00:00Z'));
    expect(cutoff).toEqual(new Date('2019-02-28T00:00:00Z'));
    expect(new Date('2019-03-01T00:00:00Z') < cutoff).toBe(false);
    expect(retentionCutoff('audit', 2558, new Date('2026-02-28T00:00:00Z'))).toEqual(new Date('2019-02-27T00:00:00Z'));
    expect(retentionCutoff('audit', 2555, new Date('2028-02-29T12:00:00Z'))).toEqual(new Date('2021-02-28T12:00:00Z'));
  });
});
