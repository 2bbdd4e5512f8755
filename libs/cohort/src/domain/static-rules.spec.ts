import { describe, expect, test } from '@jest/globals';
import { CohortConfigurationError } from '../cohort.errors.js';
import { RetentionRule } from './retention-rule.js';
import { StaticRuleProvider, type StaticRules } from './static-rules.js';
import { TenantContext } from './tenant-context.js';

const question = (category: string) => ({
  category,
  tenant: new TenantContext('acme'),
  now: new Date('2026-06-30T12:00:00Z'),
  aliasPath: [],
});
const problemsOf = (rules: unknown): readonly string[] => {
  try {
    new StaticRuleProvider(rules as StaticRules);
  } catch (error) {
    expect(error).toBeInstanceOf(CohortConfigurationError);
    return (error as CohortConfigurationError).problems;
  }
  return [];
};

describe('StaticRuleProvider', () => {
  test('answers with the rule of a category, given as a rule or as its parts', () => {
    const purge = new RetentionRule({ period: 'P30D', strategy: 'purge' });
    const provider = new StaticRuleProvider({ notes: purge, tickets: { period: 'P1Y', strategy: 'softDelete' } });
    expect(provider.resolve(question('notes'))).toBe(purge);
    expect(provider.resolve(question('tickets'))).toEqual(new RetentionRule({ period: 'P1Y', strategy: 'softDelete' }));
    expect(provider.getCapabilities('tickets')?.strategies).toEqual(['softDelete']);
  });

  test.each(['signals', 'toString', '__proto__', ''])('knows nothing of the category %p', (category) => {
    const provider = new StaticRuleProvider({ notes: { period: 'P30D', strategy: 'purge' } });
    expect(provider.getCapabilities(category)).toBeNull();
    expect(provider.resolve(question(category))).toBeNull();
  });

  test('is not changed by a later change of the table', () => {
    const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
    const provider = new StaticRuleProvider(rules);
    rules.notes.period = 'P0D';
    expect(provider.resolve(question('notes'))?.period).toBe('P30D');
  });

  // field case C21
  test.each([
    ['0', 0],
    ['-1', -1],
    ['null', null],
    ['NaN', NaN],
    ['undefined', undefined],
    ["'30'", '30'],
    ['1000000000000', 1e12],
    ['an empty string', ''],
  ])('refuses the period %s and names its category', (seen, period) => {
    expect(problemsOf({ notes: { period, strategy: 'purge' } })).toEqual([
      expect.stringContaining(`rules['notes']: rule.period is ${seen}; wanted: `),
    ]);
  });

  // field case C21
  test('takes an explicit P0D', () => {
    expect(problemsOf({ notes: { period: 'P0D', strategy: 'purge' } })).toEqual([]);
  });

  test('names every wrong category in one error', () => {
    expect(
      problemsOf({
        'session-notes': { period: 30, strategy: 'purge' },
        tickets: { period: 'P1Y', strategy: 'delete' },
        signals: null,
        contacts: { period: 'P1Y', strategy: 'anonymise' },
      }),
    ).toEqual([
      expect.stringMatching(/^rules\['session-notes'\]: rule\.period is 30;/),
      expect.stringMatching(/^rules\['signals'\]: rule is null;/),
      expect.stringMatching(/^rules\['tickets'\]: rule\.strategy is 'delete';/),
    ]);
  });

  test.each([null, undefined, 7, 'notes', [], () => ({})])('refuses %p in place of a table', (rules) => {
    expect(problemsOf(rules)).toEqual([expect.stringMatching(/^rules is .*; wanted: /)]);
  });
});
