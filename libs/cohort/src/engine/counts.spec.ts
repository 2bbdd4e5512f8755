import { describe, expect, test } from '@jest/globals';
import { RetentionRule } from '../domain/retention-rule.js';
import type { SelectionCount } from '../sql/selection.js';
import { aForeignKey, anEntry } from '../../test/support/entries.js';
import { NOTHING, foreseen, leftOver, toSummary } from './counts.js';
import type { PlannedSlice } from './plan.js';

const counted = (change: Partial<SelectionCount> = {}): SelectionCount => ({
  slice: 0,
  held: 0,
  left: 0,
  refused: 0,
  handlerFailed: 0,
  nullAnchor: 0,
  referenced: [],
  ...change,
});

describe('foreseen', () => {
  test('counts every due row without a hold as affected, whatever keeps it later', () => {
    expect(foreseen(counted({ held: 2, left: 7, nullAnchor: 3 }))).toEqual({
      affected: 7,
      held: 2,
      skipped: 0,
      nullAnchor: 3,
      skippedByCause: {},
    });
  });
});

describe('leftOver', () => {
  const keys = [[aForeignKey('a_fk')], [aForeignKey('b_fk', { childSchema: 'crm', childTable: 'orders' })]];

  test('of nothing is nothing', () => {
    expect(leftOver(counted(), [])).toEqual(NOTHING);
  });

  test('counts what is left as skipped, by cause, and what no cause explains as locked', () => {
    expect(leftOver(counted({ held: 1, left: 10, refused: 2, nullAnchor: 4, referenced: [3, 4] }), keys)).toEqual({
      affected: 0,
      held: 1,
      skipped: 10,
      nullAnchor: 4,
      skippedByCause: {
        refused: 2,
        'referenced:public.child_table.a_fk': 3,
        'referenced:crm.orders.b_fk': 4,
        locked: 1,
      },
    });
  });

  test('names a key that is reached behind others by the whole path', () => {
    const path = [aForeignKey('a_fk'), aForeignKey('b_fk', { childSchema: 'crm', childTable: 'orders' })];
    expect(leftOver(counted({ left: 1, referenced: [1] }), [path]).skippedByCause).toEqual({
      'referenced:crm.orders.b_fk via public.child_table.a_fk': 1,
    });
  });

  test.each([
    ['refused', counted({ left: 2, refused: 2, referenced: [0, 0] }), { refused: 2 }],
    ['referenced', counted({ left: 2, referenced: [0, 2] }), { 'referenced:crm.orders.b_fk': 2 }],
    ['locked', counted({ left: 2, referenced: [0, 0] }), { locked: 2 }],
  ])('leaves out causes without rows: only %s', (_, count, causes) => {
    const tally = leftOver(count, keys);
    expect(tally.skippedByCause).toEqual(causes);
    expect(tally.skipped).toBe(2);
  });
});

describe('toSummary', () => {
  const slice = (rule: RetentionRule): PlannedSlice => ({
    tenantId: 'acme',
    sweepId: 's-1',
    cutoff: new Date('2020-06-30T12:00:00Z'),
    resolvedPeriod: 'P6Y',
    rowDetail: false,
    rule,
  });
  const walk = (rule: RetentionRule) => ({
    entry: anEntry('Note'),
    strategy: 'purge' as const,
    slices: [slice(rule)],
  });

  // acceptance 289, DOM-03
  test('keeps the period in effect, both periods it came from, and where the rule came from', () => {
    const rule = new RetentionRule({
      period: 'P30D',
      strategy: 'purge',
      legalMin: 'P6Y',
      provenance: { source: 'policy 7', reason: 'tax law' },
    });
    expect(toSummary(walk(rule), slice(rule), { ...NOTHING, affected: 5 })).toEqual({
      sweepId: 's-1',
      tenantId: 'acme',
      strategy: 'purge',
      cutoff: new Date('2020-06-30T12:00:00Z'),
      resolvedPeriod: 'P6Y',
      period: 'P30D',
      legalMin: 'P6Y',
      ruleSource: 'policy 7',
      ruleReason: 'tax law',
      affected: 5,
      held: 0,
      skipped: 0,
      nullAnchor: 0,
      skippedByCause: {},
    });
  });

  test.each([undefined, {}, { source: 'policy 7' }])('writes null for what a rule leaves out: %p', (provenance) => {
    const rule = new RetentionRule({ period: 'P30D', strategy: 'purge', provenance });
    expect(toSummary(walk(rule), slice(rule), NOTHING)).toMatchObject({
      legalMin: null,
      ruleSource: provenance?.source ?? null,
      ruleReason: null,
    });
  });
});
