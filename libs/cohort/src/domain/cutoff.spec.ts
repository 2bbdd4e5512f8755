import { describe, expect, test } from '@jest/globals';
import { sweepCutoff } from './cutoff.js';
import { MIN_INSTANT } from './instant.js';
import { RetentionRule } from './retention-rule.js';

const NOW = new Date('2026-03-31T12:00:00.000Z');
const cutoff = (period: string, legalMin?: string, now = NOW) =>
  sweepCutoff(new RetentionRule({ period, strategy: 'purge', legalMin }), now);

describe('sweepCutoff', () => {
  // acceptance 22, 453, DOM-13
  test.each([
    ['P30D', undefined, 'P30D', '2026-03-01T12:00:00.000Z'],
    ['P30D', 'P6Y', 'P6Y', '2020-03-31T12:00:00.000Z'],
    ['P7Y', 'P6Y', 'P7Y', '2019-03-31T12:00:00.000Z'],
    ['P0D', 'P1D', 'P1D', '2026-03-30T12:00:00.000Z'],
    ['P1D', 'P0D', 'P1D', '2026-03-30T12:00:00.000Z'],
  ])('of %s with legal minimum %s is by %s', (period, legalMin, inEffect, at) => {
    expect(cutoff(period, legalMin)).toEqual({ at: new Date(at), period: inEffect });
  });

  // acceptance 23
  test('of P0D is now', () => {
    expect(cutoff('P0D')).toEqual({ at: NOW, period: 'P0D' });
  });

  test('keeps the period where both end at the same instant', () => {
    expect(cutoff('P1Y', 'P12M')).toEqual({ at: new Date('2025-03-31T12:00:00.000Z'), period: 'P1Y' });
  });

  test.each([
    ['a month of 28 days is shorter than 30 days', '2026-03-15T00:00:00.000Z', 'P1M', 'P30D', 'P30D'],
    ['a month of 31 days is longer than 30 days', '2026-08-15T00:00:00.000Z', 'P1M', 'P30D', 'P1M'],
    ['a year over a leap day is longer than 365 days', '2024-12-31T00:00:00.000Z', 'P1Y', 'P365D', 'P1Y'],
    ['a year without one is as long as 365 days', '2026-12-31T00:00:00.000Z', 'P1Y', 'P365D', 'P1Y'],
  ])('decides by where each ends: %s', (_, now, period, legalMin, inEffect) => {
    expect(cutoff(period, legalMin, new Date(now)).period).toBe(inEffect);
  });

  // acceptance 26
  test('saturates at the earliest instant for either period', () => {
    expect(cutoff('P9999Y').at).toEqual(MIN_INSTANT);
    expect(cutoff('P1D', 'P9999Y')).toEqual({ at: MIN_INSTANT, period: 'P9999Y' });
  });
});
