import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError } from '../cohort.errors.js';
import { RetentionCategoryCapabilities, RetentionRule, type RetentionRuleInit } from './retention-rule.js';
import { AnonymiseMethod, AuditRowDetail, Strategy } from './strategy.js';

const rule = (init: Record<string, unknown> = {}) =>
  new RetentionRule({ period: 'P30D', strategy: 'purge', ...init } as unknown as RetentionRuleInit);

describe('RetentionRule', () => {
  // acceptance 58, DOM-01
  test('writes summaries only and has no legal minimum unless told', () => {
    expect({ ...rule() }).toEqual({
      period: 'P30D',
      strategy: 'purge',
      legalMin: undefined,
      auditRowDetail: 'summaryOnly',
      provenance: undefined,
    });
  });

  // acceptance 59, DOM-03
  test('keeps an explicit legal minimum, row detail and provenance', () => {
    const provenance = { source: 'policy 7', reason: 'tax law' };
    expect(rule({ legalMin: 'P6Y', auditRowDetail: 'perRow', provenance })).toMatchObject({
      legalMin: 'P6Y',
      auditRowDetail: 'perRow',
      provenance,
    });
  });

  test.each([{ source: 'policy 7' }, { reason: 'tax law' }, {}])('takes the provenance %p', (provenance) => {
    expect(rule({ provenance }).provenance).toEqual(provenance);
  });

  // acceptance 61
  test.each(Object.values(Strategy))('takes the strategy %s with the period P0D', (strategy) => {
    expect(rule({ period: 'P0D', strategy })).toMatchObject({ period: 'P0D', strategy });
  });

  // acceptance 60, DOM-01, field case C21
  test.each([
    ['period', undefined],
    ['period', null],
    ['period', 0],
    ['period', -1],
    ['period', NaN],
    ['period', 1e12],
    ['period', '30'],
    ['period', ''],
    ['period', '-P1D'],
    ['legalMin', null],
    ['legalMin', 0],
    ['legalMin', -1],
    ['legalMin', NaN],
    ['legalMin', '30'],
    ['legalMin', ''],
    ['legalMin', '-P1D'],
  ])('refuses %s %p, naming the field', (field, value) => {
    const attempt = () => rule({ [field]: value });
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(`rule.${field} is `);
  });

  // acceptance 62
  test.each([undefined, null, 0, '', 'delete', 'Purge', ['purge']])('refuses the strategy %p', (strategy) => {
    const attempt = () => rule({ strategy });
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/rule\.strategy is .*; wanted: one of purge, softDelete, anonymise, exempt\./);
  });

  // acceptance 62, 63, DOM-01
  test.each(['inherit', 'all', '', 1, true])('refuses the row detail %p', (auditRowDetail) => {
    const attempt = () => rule({ auditRowDetail });
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/rule\.auditRowDetail is .*; wanted: 'summaryOnly' or 'perRow'\./);
  });

  // DOM-03
  test.each([null, 'policy 7', 7, [], { source: 7 }, { source: null }, { reason: {} }])(
    'refuses the provenance %p: it holds texts',
    (provenance) => {
      const attempt = () => rule({ provenance });
      expect(attempt).toThrow(InvalidArgumentError);
      expect(attempt).toThrow(/rule\.provenance.* is .*; wanted: /);
    },
  );

  test.each([null, undefined, 'P30D', 30])('refuses %p in place of its parts', (init) => {
    const attempt = () => new RetentionRule(init as never);
    expect(attempt).toThrow(InvalidArgumentError);
    expect(attempt).toThrow(/^rule is /);
  });

  // acceptance 64, DOM-02
  test('cannot be changed, nor through what it was made of', () => {
    const provenance = { source: 'policy 7' };
    const init = { period: 'P30D', strategy: Strategy.Purge, provenance };
    const made = new RetentionRule(init);
    init.period = 'P0D';
    provenance.source = 'nobody';
    expect(() => Object.assign(made, { period: 'P0D' })).toThrow(TypeError);
    expect(() => Object.assign(made, { extra: 1 })).toThrow(TypeError);
    expect(() => Object.assign(made.provenance!, { source: 'nobody' })).toThrow(TypeError);
    expect(made).toMatchObject({ period: 'P30D', provenance: { source: 'policy 7' } });
  });
});

test.each<[string, object, string]>([
  [
    'of a rule',
    { period: 'P30D', strategy: 'purge', legalMinimum: 'P6Y' },
    "rule is 'legalMinimum'; wanted: keys among period",
  ],
  [
    'of its provenance',
    { period: 'P30D', strategy: 'purge', provenance: { source: 'law', author: 'Ann' } },
    "rule.provenance is 'author'; wanted: keys among source, reason",
  ],
])('a key %s that nobody reads is refused: it would be ignored', (_, init, message) => {
  expect(() => new RetentionRule(init as never)).toThrow(message);
});

describe('RetentionCategoryCapabilities', () => {
  // acceptance 54, DOM-04
  test('copies what it is given', () => {
    const given: Strategy[] = [Strategy.Purge];
    const capabilities = new RetentionCategoryCapabilities(given);
    given.push(Strategy.Anonymise);
    expect(capabilities.strategies).toEqual(['purge']);
  });

  test('takes any iterable and names each strategy once', () => {
    expect(new RetentionCategoryCapabilities(new Set([Strategy.Exempt, Strategy.Purge])).strategies).toEqual([
      'exempt',
      'purge',
    ]);
    expect(new RetentionCategoryCapabilities([Strategy.Purge, Strategy.Purge]).strategies).toEqual(['purge']);
  });

  // acceptance 55
  test('refuses none at all', () => {
    expect(() => new RetentionCategoryCapabilities([])).toThrow('wanted: at least one strategy.');
  });

  // acceptance 56
  test.each([['delete'], ['Purge'], [null], [undefined], [0], ['purge', 'delete'], ['purge', undefined]])(
    'refuses %p among the strategies',
    (...strategies) => {
      expect(() => new RetentionCategoryCapabilities(strategies as Strategy[])).toThrow(
        /^strategies is .*; wanted: values among purge, softDelete, anonymise, exempt\./,
      );
    },
  );

  test.each([null, undefined, 7, {}, 'purge'])('refuses %p in place of a list', (strategies) => {
    expect(() => new RetentionCategoryCapabilities(strategies as never)).toThrow(InvalidArgumentError);
  });

  // acceptance 57, DOM-04
  test('cannot be changed by a cast', () => {
    const capabilities = new RetentionCategoryCapabilities([Strategy.Purge]);
    expect(() => (capabilities.strategies as Strategy[]).push(Strategy.Anonymise)).toThrow(TypeError);
    expect(() => Object.assign(capabilities, { strategies: [] })).toThrow(TypeError);
  });
});

// acceptance 65
test('the public vocabularies stay as they are', () => {
  expect(Strategy).toEqual({ Purge: 'purge', SoftDelete: 'softDelete', Anonymise: 'anonymise', Exempt: 'exempt' });
  expect(AuditRowDetail).toEqual({ SummaryOnly: 'summaryOnly', PerRow: 'perRow', Inherit: 'inherit' });
  expect(AnonymiseMethod).toEqual({ Null: 'null', EmptyString: 'emptyString', FixedLiteral: 'fixedLiteral' });
});
