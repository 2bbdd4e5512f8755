import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { CANDIDATE_KINDS, MODEL_DATA_RESIDENCIES, STORE_CLASSES } from '../vocabulary.js';
import { type Candidate, type DecidingRule, evaluateResidency } from './evaluate-residency.js';
import { type AskedResidency, ResidencyRule, readResidency } from './residency-rule.js';

const OFFERED = ['westeurope', 'israelcentral', 'swedencentral'];
const RULE: NonNullable<DecidingRule> = {
  region: 'westeurope',
  allowedRegions: ['westeurope', 'israelcentral'],
  allowedEngines: { runs: ['azure-sql'], vector: ['qdrant'] },
  modelDataResidency: 'same-region',
  pendingRegion: null,
};
const BINDING: Candidate = { kind: 'store-binding', storeClass: 'runs', engine: 'azure-sql', region: 'westeurope' };

const codes = (rule: DecidingRule, candidate: Partial<Candidate>) =>
  evaluateResidency(rule, { ...BINDING, ...candidate }, OFFERED).map(({ code }) => code);

describe('a candidate', () => {
  test.each<[string, Partial<Candidate>, string[]]>([
    ['in the region of the tenant', {}, []],
    ['in another allowed region', { region: 'israelcentral' }, []],
    ['spelt with capitals and blanks', { region: ' WestEurope ', engine: 'Azure-SQL', storeClass: 'Runs' }, []],
    ['in a region that is not allowed', { region: 'swedencentral' }, ['REGION_NOT_ALLOWED']],
    ['in a region that nobody offers', { region: 'atlantis' }, ['UNKNOWN_REGION']],
    ['without a region', { region: '' }, ['UNKNOWN_REGION']],
    ['on another engine', { engine: 'mysql' }, ['ENGINE_NOT_ALLOWED']],
    ['of a store class without engines', { storeClass: 'traces' }, ['ENGINE_NOT_ALLOWED']],
    ['of an unknown store class', { storeClass: 'scrolls' }, ['UNKNOWN_STORE_CLASS']],
    ['that is wrong twice', { region: 'swedencentral', engine: '' }, ['REGION_NOT_ALLOWED', 'ENGINE_NOT_ALLOWED']],
    ['model in the region', { kind: 'model-deployment', storeClass: '', engine: '' }, []],
    ['model in an allowed region', { kind: 'model-deployment', region: 'israelcentral' }, ['MODEL_RESIDENCY']],
    ['connector in an allowed region', { kind: 'connector', region: 'israelcentral', engine: 'mysql' }, []],
    ['connector elsewhere', { kind: 'connector', region: 'swedencentral' }, ['REGION_NOT_ALLOWED']],
  ])('%s is answered %j with %j', (_, candidate, expected) => {
    expect(codes(RULE, candidate)).toEqual(expected);
  });

  test('is told what would have been allowed', () => {
    expect(evaluateResidency(RULE, { ...BINDING, region: 'SwedenCentral' }, OFFERED)).toEqual([
      { code: 'REGION_NOT_ALLOWED', expected: 'westeurope,israelcentral', actual: 'swedencentral' },
    ]);
  });

  test('of a tenant without a rule is refused', () => {
    expect(codes(null, {})).toEqual(['NO_RULE']);
  });

  // G22
  test('in the region that a tenant moves to is refused', () => {
    const moving = { ...RULE, pendingRegion: 'israelcentral' };
    expect(codes(moving, { region: 'israelcentral' })).toEqual(['MOVE_IN_PROGRESS']);
    expect(codes(moving, {})).toEqual([]);
  });

  test('is answered as a model in a few lines answers, for any rule', () => {
    const regions = fc.constantFrom(...OFFERED);
    const engines = fc.constantFrom('azure-sql', 'qdrant', 'mysql');
    const rules = fc
      .record({
        allowedRegions: fc.uniqueArray(regions, { minLength: 1 }),
        allowedEngines: fc.dictionary(fc.constantFrom(...STORE_CLASSES), fc.uniqueArray(engines)),
        modelDataResidency: fc.constantFrom(...MODEL_DATA_RESIDENCIES),
      })
      .map((rule) => ({ ...rule, region: rule.allowedRegions[0] as string, pendingRegion: null }));
    const candidates = fc.record({
      kind: fc.constantFrom(...CANDIDATE_KINDS),
      storeClass: fc.constantFrom(...STORE_CLASSES, 'scrolls'),
      engine: engines,
      region: fc.oneof(regions, fc.constant('atlantis')),
    });
    fc.assert(
      fc.property(rules, fc.array(candidates, { minLength: 5, maxLength: 5 }), (rule, each) => {
        for (const candidate of each) {
          const { kind, storeClass, engine, region } = candidate;
          const mayModel = { 'same-region': [rule.region], 'allowed-regions': rule.allowedRegions, any: OFFERED };
          const places = kind === 'model-deployment' ? mayModel[rule.modelDataResidency] : rule.allowedRegions;
          const hasEngine = (rule.allowedEngines as Record<string, string[]>)[storeClass]?.includes(engine) ?? false;
          const expected = places.includes(region) && (kind !== 'store-binding' || hasEngine);
          expect(evaluateResidency(rule, candidate, OFFERED).length === 0).toBe(expected);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('a residency rule', () => {
  const asked: AskedResidency = {
    region: ' WestEurope',
    allowedRegions: ['IsraelCentral', 'westeurope', 'WESTEUROPE'],
    allowedEngines: { runs: ['Azure-SQL', 'azure-sql'], cache: ['redis'] },
  };
  const problemOf = (change: Partial<AskedResidency>) => {
    try {
      readResidency({ ...asked, ...change }, OFFERED);
      return 'accepted';
    } catch (error) {
      const { code, faults } = error as { code: string; faults: { pointer: string }[] };
      return `${code} ${faults[0]?.pointer}`;
    }
  };

  test('is kept in lower case, with nothing twice', () => {
    expect(readResidency(asked, OFFERED)).toEqual({
      region: 'westeurope',
      allowedRegions: ['israelcentral', 'westeurope'],
      allowedEngines: { runs: ['azure-sql'], cache: ['redis'] },
      modelDataResidency: 'same-region',
    });
  });

  test.each<[string, Partial<AskedResidency>, string]>([
    ['a region that is not offered', { region: 'atlantis' }, 'region-not-offered /region'],
    [
      'an allowed region that is not offered',
      { allowedRegions: ['westeurope', 'x'] },
      'region-not-offered /allowedRegions/1',
    ],
    ['no allowed region', { allowedRegions: [] }, 'validation /allowedRegions'],
    ['allowed regions without the region', { allowedRegions: ['israelcentral'] }, 'validation /allowedRegions'],
    ['an unknown store class', { allowedEngines: { 'a/b': [] } }, 'unknown-store-class /allowedEngines/a~1b'],
  ])('refuses %s', (_, change, expected) => {
    expect(problemOf(change)).toBe(expected);
  });

  test('counts its changes, and knows its own content in another order', () => {
    const rule = new ResidencyRule('acme');
    const now = new Date('2026-01-01T00:00:00Z');
    const terms = readResidency(asked, OFFERED);
    expect(rule.set(terms, now)).toBe(true);
    expect(rule.set({ ...terms, allowedRegions: [...terms.allowedRegions].reverse() }, new Date())).toBe(false);
    expect(rule).toMatchObject({ version: 1, changedAt: now, pendingRegion: null });
    expect(rule.set({ ...terms, modelDataResidency: 'any' }, now)).toBe(true);
    expect(rule.version).toBe(2);
  });

  // G22
  test('does not move to another region', () => {
    const rule = new ResidencyRule('acme');
    const terms = readResidency(asked, OFFERED);
    rule.set(terms, new Date());
    expect(() => rule.set({ ...terms, region: 'israelcentral' }, new Date())).toThrow(/migration order/);
    expect(rule).toMatchObject({ region: 'westeurope', version: 1 });
  });
});
