import { describe, expect, test } from '@jest/globals';
import { InvalidArgumentError, RuleResolutionError } from '../cohort.errors.js';
import { RetentionRule } from '../domain/retention-rule.js';
import type { RetentionResolutionContext } from '../domain/rule-provider.js';
import { TENANTLESS, TenantContext } from '../domain/tenant-context.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { anEntry, column } from '../../test/support/entries.js';
import { planWalks } from './plan.js';

const NOW = new Date('2026-06-30T12:00:00.000Z');
type Question = Omit<RetentionResolutionContext, 'aliasPath'>;
type Answer = (question: Question) => RetentionRule | Promise<RetentionRule>;
const rule = (strategy: RetentionRule['strategy'], period = 'P30D', more: object = {}) =>
  new RetentionRule({ period, strategy, ...more });
const runOf = (id: string) => ({ sweepId: `run-${id}`, tenant: new TenantContext(id), tenantId: id });
const tenantlessRun = { sweepId: 'run-tenantless', tenant: TENANTLESS, tenantId: TENANTLESS.id };

function setup(answer: Answer = () => rule('purge')) {
  const asked: Question[] = [];
  const rules = {
    strategiesOf: () => [],
    resolve: async (question: Question) => {
      asked.push(question);
      return answer(question);
    },
  };
  return {
    asked,
    plan: (entries: readonly RetentionEntry[], runs: Parameters<typeof planWalks>[2], now = NOW) =>
      planWalks({ rules }, entries, runs, { now, signal: undefined }),
  };
}

const note = anEntry('Note', { category: 'notes' });
const ticket = anEntry('Ticket', { category: 'tickets' });
const signal = anEntry('Signal', { category: 'signals', tenant: null });

describe('planWalks', () => {
  // RULE-06
  test('asks once for every entity and tenant, for the instant of the call', async () => {
    const { asked, plan } = setup();
    await plan([note, ticket], [runOf('acme'), runOf('globex')]);
    expect(asked.map(({ category, tenant }) => `${category} ${tenant.id}`)).toEqual([
      'notes acme',
      'notes globex',
      'tickets acme',
      'tickets globex',
    ]);
    expect(asked.every(({ now }) => now === NOW)).toBe(true);
  });

  // RULE-07
  test('asks for two entities of one category apart', async () => {
    const { asked, plan } = setup();
    await plan([note, anEntry('Memo', { category: 'notes' })], [runOf('acme')]);
    expect(asked).toHaveLength(2);
  });

  test('plans one walk an entity and strategy, with what differs between tenants in its slices', async () => {
    const { plan } = setup(({ tenant }) =>
      tenant.id === 'acme' ? rule('purge', 'P30D') : rule('purge', 'P1M', { legalMin: 'P2M' }),
    );
    const { walks, failures } = await plan([note], [runOf('acme'), runOf('globex')]);
    expect(failures).toEqual([]);
    expect(walks).toEqual([
      {
        entry: note,
        strategy: 'purge',
        slices: [
          {
            tenantId: 'acme',
            sweepId: 'run-acme',
            cutoff: new Date('2026-05-31T12:00:00.000Z'),
            resolvedPeriod: 'P30D',
            rowDetail: false,
            rule: rule('purge', 'P30D'),
          },
          {
            tenantId: 'globex',
            sweepId: 'run-globex',
            cutoff: new Date('2026-04-30T12:00:00.000Z'),
            resolvedPeriod: 'P2M',
            rowDetail: false,
            rule: rule('purge', 'P1M', { legalMin: 'P2M' }),
          },
        ],
      },
    ]);
  });

  // RULE-11
  test('plans a walk for each strategy when tenants differ in it, in order of its name', async () => {
    const strategies = { a: 'softDelete', b: 'exempt', c: 'anonymise', d: 'softDelete' } as const;
    const { plan } = setup(({ tenant }) => rule(strategies[tenant.id as keyof typeof strategies]));
    const { walks } = await plan([note], [runOf('a'), runOf('b'), runOf('c'), runOf('d')]);
    expect(walks.map((walk) => [walk.strategy, walk.slices.map((slice) => slice.tenantId)])).toEqual([
      ['anonymise', ['c']],
      ['exempt', ['b']],
      ['softDelete', ['a', 'd']],
    ]);
  });

  test('keeps the order of the entities', async () => {
    const { plan } = setup();
    const { walks } = await plan([ticket, note], [runOf('acme')]);
    expect(walks.map((walk) => walk.entry)).toEqual([ticket, note]);
  });

  // acceptance 266-268, RULE-13
  test('takes tenantless entities for the tenantless run alone, and tenanted ones for tenants alone', async () => {
    const { asked, plan } = setup();
    const { walks } = await plan([note, signal], [runOf('acme'), tenantlessRun]);
    expect(walks.map((walk) => [walk.entry.entityName, walk.slices.map((slice) => slice.sweepId)])).toEqual([
      ['Note', ['run-acme']],
      ['Signal', ['run-tenantless']],
    ]);
    expect(asked.map(({ tenant }) => tenant.id)).toEqual(['acme', TENANTLESS.id]);
    expect(walks[1]?.slices[0]?.tenantId).toBe(TENANTLESS.id);
  });

  // RULE-08, acceptance 292, 461
  test('fails an entity for one tenant and nothing else when its rule cannot be resolved', async () => {
    const error = new RuleResolutionError('notes', 'none');
    const { plan } = setup(({ category, tenant }) => {
      if (category === 'notes' && tenant.id === 'acme') throw error;
      return rule('purge');
    });
    const { walks, failures } = await plan([note, ticket], [runOf('acme'), runOf('globex')]);
    expect(failures).toEqual([{ entry: note, sweepId: 'run-acme', error }]);
    expect(walks.map((walk) => [walk.entry.entityName, walk.slices.map((slice) => slice.tenantId)])).toEqual([
      ['Note', ['globex']],
      ['Ticket', ['acme', 'globex']],
    ]);
  });

  test('plans no walk for an entity whose every rule failed', async () => {
    const { plan } = setup(() => Promise.reject(new Error('down')));
    const { walks, failures } = await plan([note], [runOf('acme'), runOf('globex')]);
    expect(walks).toEqual([]);
    expect(failures.map((failure) => failure.sweepId)).toEqual(['run-acme', 'run-globex']);
  });

  // RULE-12, acceptance 290
  test.each([
    ['inherit', 'summaryOnly', false],
    ['inherit', 'perRow', true],
    ['perRow', 'summaryOnly', true],
    ['summaryOnly', 'perRow', false],
  ] as const)('with %s on the entity and %s in the rule, row detail is %p', async (ofEntity, ofRule, expected) => {
    const { plan } = setup(() => rule('purge', 'P30D', { auditRowDetail: ofRule }));
    const { walks } = await plan([anEntry('Note', { auditRowDetail: ofEntity })], [runOf('acme')]);
    expect(walks[0]?.slices[0]?.rowDetail).toBe(expected);
  });

  const UUID = 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8';
  test.each([
    ['uuid', UUID],
    ['uuid', UUID.toUpperCase()],
    ['int', '42'],
    ['integer', '-42'],
    ['bigint', '123456789012345678'],
    ['text', 'anything'],
    ['varchar(10)', 'anything'],
    ['citext', 'Anything'],
  ])('takes a tenant id that fits a column of type %s: %s', async (type, id) => {
    const { plan } = setup();
    const { walks, failures } = await plan([anEntry('Note', { tenant: column('owner', type) })], [runOf(id)]);
    expect(failures).toEqual([]);
    expect(walks[0]?.slices[0]?.tenantId).toBe(id);
  });

  test.each([
    ['int', '2147483647'],
    ['integer', '-2147483648'],
    ['bigint', '9223372036854775807'],
  ])('takes every tenant id that a column of type %s can hold: %s', async (type, id) => {
    const { plan } = setup();
    const { failures } = await plan([anEntry('Note', { tenant: column('owner', type) })], [runOf(id)]);
    expect(failures).toEqual([]);
  });

  // One id that cannot be cast fails the statement of every other tenant.
  test.each(['smallint', 'int8'])('fails the entity alone for a text where the column is %s', async (type) => {
    const { plan } = setup();
    const { failures } = await plan([anEntry('Note', { tenant: column('owner', type) })], [runOf('acme'), runOf('7')]);
    expect(failures).toMatchObject([{ sweepId: 'run-acme' }]);
  });

  test.each([
    ['uuid', 'acme'],
    ['uuid', `{${UUID}}`],
    ['int', '4.2'],
    ['int', '99999999999'],
    ['integer', UUID],
    ['bigint', '1e3'],
    ['bigint', '99999999999999999999'],
  ])('fails the entity alone for a tenant id that no column of type %s can hold: %s', async (type, id) => {
    const { asked, plan } = setup();
    const typed = anEntry('Note', { tenant: column('owner', type) });
    const { walks, failures } = await plan([typed, ticket], [runOf(id), runOf(type === 'uuid' ? UUID : '7')]);
    expect(failures).toMatchObject([{ entry: typed, sweepId: `run-${id}` }]);
    expect(failures[0]?.error).toBeInstanceOf(InvalidArgumentError);
    expect((failures[0]?.error as Error).message).toContain(`a value of Note.owner, which is ${type}`);
    expect(walks.map((walk) => walk.slices.length)).toEqual([1, 2]);
    expect(asked).toHaveLength(3);
  });

  test('plans nothing for no run and for no entity', async () => {
    const { plan } = setup();
    expect(await plan([note], [])).toEqual({ walks: [], failures: [] });
    expect(await plan([], [runOf('acme')])).toEqual({ walks: [], failures: [] });
  });
});
