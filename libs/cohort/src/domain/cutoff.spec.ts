import { describe, expect, test } from '@jest/globals';
import { erasureCutoff, legalMinimumEnds, sweepCutoff } from './cutoff.js';
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

describe('erasureCutoff', () => {
  const ofErasure = (legalMin?: string) =>
    erasureCutoff(new RetentionRule({ period: 'P50Y', strategy: 'purge', legalMin }), NOW);

  // acceptance 27, 28; ERA-06
  test('is by the legal minimum alone, and only by one that is positive', () => {
    expect(ofErasure('P6Y')).toEqual({ at: new Date('2020-03-31T12:00:00.000Z'), period: 'P6Y' });
    expect(ofErasure('PT1S')).toEqual({ at: new Date('2026-03-31T11:59:59.000Z'), period: 'PT1S' });
    expect(ofErasure('P0D')).toEqual({ at: null, period: 'P0D' });
    expect(ofErasure()).toEqual({ at: null, period: 'P0D' });
  });

  // acceptance 29
  test('stays within what an instant can be', () => {
    expect(ofErasure('P9999Y').at).toEqual(MIN_INSTANT);
  });

  test.each([
    ['2024-02-29T00:00:00.000Z', 'P1Y'],
    ['2026-01-31T00:00:00.000Z', 'P1M'],
    ['2026-03-31T23:59:59.999Z', 'P6M'],
  ])('has passed %s by the first instant at which %s ends, and not long before', (anchor, legalMin) => {
    const end = legalMinimumEnds(new Date(anchor), legalMin);
    const rule = new RetentionRule({ period: 'P0D', strategy: 'purge', legalMin });
    expect(erasureCutoff(rule, end).at!.getTime()).toBeGreaterThan(Date.parse(anchor));
    expect(erasureCutoff(rule, new Date(end.getTime() - 4 * 86_400_000)).at!.getTime()).toBeLessThanOrEqual(
      Date.parse(anchor),
    );
  });
});
