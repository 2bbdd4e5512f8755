import { describe, expect, test } from '@jest/globals';
import { RuleResolutionError } from '../cohort.errors.js';
import { RetentionCategoryCapabilities, RetentionRule } from '../domain/retention-rule.js';
import { type RetentionResolutionContext, RetentionRuleProvider } from '../domain/rule-provider.js';
import type { Strategy } from '../domain/strategy.js';
import { TENANTLESS, TenantContext } from '../domain/tenant-context.js';
import { anEntry } from '../../test/support/entries.js';
import { openRuleBook } from './rule-book.js';

const PURGE = new RetentionRule({ period: 'P30D', strategy: 'purge' });
const question = { category: 'notes', tenant: new TenantContext('acme'), now: new Date('2026-06-30T12:00:00Z') };

/** A provider whose answers a test may change. */
class Scripted extends RetentionRuleProvider {
  readonly asked: RetentionResolutionContext[] = [];
  capabilitiesAsked = 0;
  capabilities: (category: string) => unknown = () => new RetentionCategoryCapabilities(['purge']);
  answer: () => unknown = () => PURGE;

  override getCapabilities(category: string): RetentionCategoryCapabilities | null {
    this.capabilitiesAsked++;
    return this.capabilities(category) as RetentionCategoryCapabilities | null;
  }

  override resolve(context: RetentionResolutionContext): Promise<RetentionRule | null> | RetentionRule | null {
    this.asked.push(context);
    return this.answer() as RetentionRule | null;
  }
}

function setup(script: Partial<Pick<Scripted, 'capabilities' | 'answer'>> = {}, categories = ['notes']) {
  const provider = Object.assign(new Scripted(), script);
  const problems: string[] = [];
  const entries = categories.map((category, index) => anEntry(`Entity${index}`, { category }));
  return { provider, problems, book: openRuleBook(provider, { entries }, problems) };
}

describe('openRuleBook', () => {
  // RULE-03, RULE-07, VAL-50 near miss, VAL-51 near miss
  test('asks each used category once for its capabilities', () => {
    const { provider, problems, book } = setup({}, ['notes', 'tickets', 'notes']);
    expect(provider.capabilitiesAsked).toBe(2);
    expect(problems).toEqual([]);
    expect(book.strategiesOf('tickets')).toEqual(['purge']);
    expect(book.strategiesOf('unused')).toEqual([]);
  });

  // acceptance 99, VAL-51
  test.each([null, undefined, ['purge'], { strategies: ['purge'] }])(
    'collects a category that gets %p in place of capabilities',
    (answer) => {
      const { problems } = setup({ capabilities: () => answer });
      expect(problems).toEqual([expect.stringContaining("Category 'notes' is used by an entity")]);
    },
  );

  // acceptance 100, 101, VAL-50
  test('collects what getCapabilities throws, and still asks the other categories', () => {
    const { problems, book } = setup(
      {
        capabilities: (category) => {
          if (category === 'notes') throw new RangeError('policy store is down');
          return category === 'tickets' ? null : new RetentionCategoryCapabilities(['anonymise', 'exempt']);
        },
      },
      ['notes', 'tickets', 'contacts'],
    );
    expect(problems).toEqual([
      "Category 'notes': getCapabilities threw RangeError: policy store is down",
      expect.stringContaining("Category 'tickets' is used by an entity"),
    ]);
    expect(book.strategiesOf('contacts')).toEqual(['anonymise', 'exempt']);
    expect(book.strategiesOf('notes')).toEqual([]);
  });
});

// acceptance 101
test('collects it too when getCapabilities throws something that is no error', () => {
  const { problems } = setup({
    capabilities: () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- what this is about
      throw null;
    },
  });
  expect(problems).toEqual([expect.stringContaining("Category 'notes': getCapabilities threw")]);
});

describe('resolve', () => {
  // acceptance 66, RULE-02, RULE-13
  test.each([question.tenant, TENANTLESS])(
    'passes category, tenant, instant and an empty alias path on: %p',
    async (tenant) => {
      const { provider, book } = setup();
      await book.resolve({ ...question, tenant });
      expect(provider.asked).toEqual([{ ...question, tenant, aliasPath: [] }]);
      expect(provider.asked[0]?.tenant).toBe(tenant);
    },
  );

  // acceptance 208, RULE-01
  test.each([() => PURGE, async () => PURGE])('takes an answer now or later', async (answer) => {
    const { book } = setup({ answer });
    await expect(book.resolve(question)).resolves.toBe(PURGE);
  });

  // acceptance 213, RULE-04
  test.each([null, undefined, 'P30D', { period: 'P30D', strategy: 'purge' }])(
    'refuses %p in place of a rule',
    async (answer) => {
      const { book } = setup({ answer: () => answer });
      await expect(book.resolve(question)).rejects.toThrow(RuleResolutionError);
      await expect(book.resolve(question)).rejects.toThrow("The rule of category 'notes' could not be resolved");
    },
  );

  // acceptance 210, RULE-05
  test('refuses a strategy that was not declared, naming it and those that were', async () => {
    const answer = () => new RetentionRule({ period: 'P30D', strategy: 'anonymise' });
    const { book } = setup({ answer });
    await expect(book.resolve(question)).rejects.toThrow(RuleResolutionError);
    await expect(book.resolve(question)).rejects.toThrow("its strategy 'anonymise' was not declared");
  });

  // RULE-11
  test.each(['purge', 'softDelete', 'exempt'] as Strategy[])(
    'takes any of several declared strategies: %s',
    async (strategy) => {
      const { book } = setup({
        capabilities: () => new RetentionCategoryCapabilities(['purge', 'softDelete', 'exempt']),
        answer: () => new RetentionRule({ period: 'P30D', strategy }),
      });
      await expect(book.resolve(question)).resolves.toMatchObject({ strategy });
    },
  );

  // acceptance 211, 212, RULE-03
  test.each([
    ['others', () => new RetentionCategoryCapabilities(['anonymise'])],
    ['none', () => null],
  ])('holds to the capabilities of the start when the provider now answers %s', async (_, capabilities) => {
    const { provider, book } = setup();
    provider.capabilities = capabilities;
    await expect(book.resolve(question)).resolves.toBe(PURGE);
    expect(book.strategiesOf('notes')).toEqual(['purge']);
    provider.answer = () => new RetentionRule({ period: 'P30D', strategy: 'anonymise' });
    await expect(book.resolve(question)).rejects.toThrow(RuleResolutionError);
  });

  // RULE-09
  test.each([
    [
      'throws',
      () => {
        throw new DOMException('stop', 'AbortError');
      },
    ],
    ['rejects', () => Promise.reject(new DOMException('stop', 'AbortError'))],
  ])('passes on what the provider %s, as it is', async (_, answer) => {
    const { book } = setup({ answer });
    await expect(book.resolve(question)).rejects.toMatchObject({ name: 'AbortError' });
  });
});
