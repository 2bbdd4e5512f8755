import { describe, expect, test } from '@jest/globals';
import { CohortConfigurationError } from '../cohort.errors.js';
import { RetentionRule } from './retention-rule.js';
import { followAlias } from './rule-provider.js';
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

describe('followAlias', () => {
  const start = question('drafts');

  test('asks for the other category and remembers the way', () => {
    expect(followAlias(followAlias(start, 'memos'), 'notes')).toEqual({
      ...start,
      category: 'notes',
      aliasPath: ['drafts', 'memos'],
    });
  });

  // acceptance 209
  test.each([
    ['drafts', ['drafts', 'memos', 'drafts']],
    ['memos', ['memos', 'memos']],
  ])('back to %s is a cycle', (category, path) => {
    expect(() => followAlias(followAlias(start, 'memos'), category)).toThrow(
      expect.objectContaining({ name: 'AliasCycleError', code: 'alias-cycle', path }),
    );
  });
});

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

  test('follows aliases, of aliases too', () => {
    const provider = new StaticRuleProvider({
      drafts: { alias: 'memos' },
      memos: { alias: 'notes' },
      notes: { period: 'P30D', strategy: 'softDelete' },
    });
    expect(provider.resolve(question('drafts'))).toBe(provider.resolve(question('notes')));
    expect(provider.getCapabilities('drafts')?.strategies).toEqual(['softDelete']);
  });

  // acceptance 209
  test('refuses aliases that form a cycle, once a cycle, and those that lead nowhere', () => {
    expect(
      problemsOf({
        memos: { alias: 'notes' },
        drafts: { alias: 'memos' },
        notes: { alias: 'drafts' },
        outside: { alias: 'notes' },
        itself: { alias: 'itself' },
        lost: { alias: 'nowhere' },
        toString: { alias: 'constructor' },
      }),
    ).toEqual([
      'Categories form a cycle of aliases (drafts > memos > notes > drafts); give one of them a rule of its own.',
      'Categories form a cycle of aliases (itself > itself); give one of them a rule of its own.',
      "rules['lost']: alias 'nowhere' has no rule of its own in the table.",
      "rules['toString']: alias 'constructor' has no rule of its own in the table.",
    ]);
  });

  test.each([
    [{ alias: '' }, 'alias is an empty string'],
    [{ alias: null }, 'alias is null'],
    [{ alias: 'notes', period: 'P30D' }, "alias is 'period'; wanted: keys among alias"],
  ])('refuses the alias %p', (given, problem) => {
    expect(problemsOf({ notes: { period: 'P30D', strategy: 'purge' }, memos: given })).toEqual([
      expect.stringContaining(`rules['memos']: ${problem}`),
    ]);
  });

  test.each([null, undefined, 7, 'notes', [], () => ({})])('refuses %p in place of a table', (rules) => {
    expect(problemsOf(rules)).toEqual([expect.stringMatching(/^rules is .*; wanted: /)]);
  });
});
