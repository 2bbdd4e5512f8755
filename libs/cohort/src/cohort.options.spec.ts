import { describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { type CohortOptions, resolveOptions } from './cohort.options.js';

const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
const resolve = (options: object) => {
  const problems: string[] = [];
  return { problems, ...resolveOptions({ rules, ...options } as CohortOptions, problems) };
};
/** Options with `value` at a path such as 'conventions.tenantProperty'. */
const at = (path: string, value: unknown): object =>
  path.split('.').reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as object;

const SECTIONS = ['rowHandlerDispatch', 'conventions', 'worker', 'auditObservers', 'historyPruning'];

describe('resolveOptions', () => {
  test('has a default for everything but the rules', () => {
    expect(resolve({})).toEqual({
      problems: [],
      settings: {
        sweepBatchSize: 5000,
        parallelism: 1,
        batchTimeoutMs: 30_000,
        lockTimeoutMs: 500,
        idleTimeoutMs: 30_000,
        sweepSettleTimeoutMs: 3_600_000,
        observerTimeoutMs: 5000,
        dryRun: false,
        listenUrl: null,
        dispatch: {
          pollIntervalMs: 10_000,
          batchSize: 50,
          maxParallelism: 4,
          maxAttempts: 10,
          baseBackoffMs: 1000,
          maxBackoffMs: 3_600_000,
          claimTimeoutMs: 300_000,
          payloadRetentionMs: 30 * 86_400_000,
          deadLetterPayloadRetentionMs: 0,
        },
      },
      worker: { schedule: null, killSwitch: false, slotLeaseMs: 30_000, shutdownTimeoutMs: 30_000 },
      pruning: { succeededRuns: null, failedRuns: null, inactiveHolds: null },
      metrics: null,
      conventions: {
        recordId: 'id',
        tenant: 'tenantId',
        softDelete: 'isDeleted',
        deletedAt: 'deletedAt',
        anonymisedAt: 'anonymisedAt',
      },
    });
  });

  test('takes undefined for what was left out', () => {
    const keys = ['sweepBatchSize', 'parallelism', 'batchTimeout', 'lockTimeout', 'idleInTransactionTimeout', 'dryRun'];
    const nothing = Object.fromEntries(
      [...keys, ...SECTIONS, 'contextName', 'schedule', 'killSwitch', 'tenants', 'metrics'].map((key) => [
        key,
        undefined,
      ]),
    );
    expect(resolve(nothing)).toEqual(resolve({}));
    expect(resolve(Object.fromEntries(SECTIONS.map((key) => [key, {}])))).toEqual(resolve({}));
  });

  test.each([
    ['dryrun', true, /dryrun is no option; wanted: one of rules, tenants, schedule, killSwitch, contextName, dryRun/],
    ['rowHandlerDispatch.sweepSettleTimout', 'PT2H', /rowHandlerDispatch\.sweepSettleTimout is no option/],
    [
      'conventions.tenant',
      'orgId',
      /conventions\.tenant is no option; wanted: one of recordIdProperty, tenantProperty/,
    ],
  ])('refuses %s, which nobody would read', (path, value, problem) => {
    expect(resolve(at(path, value)).problems).toEqual([expect.stringMatching(problem)]);
  });

  test.each([null, undefined, 'postgresql://localhost/app'])('takes %p for listenUrl', (listenUrl) => {
    expect(resolve({ listenUrl })).toMatchObject({ problems: [], settings: { listenUrl: listenUrl ?? null } });
  });

  test('does not repeat a listenUrl that is none: it may hold a password', () => {
    expect(resolve({ listenUrl: 'user:secret@' }).problems).toEqual([
      'listenUrl is no url; wanted: postgresql://…, or null.',
    ]);
    expect(resolve({ listenUrl: 5 }).problems).toEqual(['listenUrl is 5; wanted: postgresql://…, or null.']);
  });

  // acceptance 11
  test.each(SECTIONS)('refuses null for %s', (section) => {
    expect(resolve({ [section]: null }).problems).toEqual([
      expect.stringMatching(`^${section} is null; wanted: an object`),
    ]);
  });

  // acceptance 12, field case C21
  test.each(['sweepBatchSize', 'parallelism'])('refuses for %s all but whole numbers of its range', (key) => {
    for (const value of [null, NaN, -1, 0, 1.5, Infinity, 1e12, '', '5', true, 5n, [], {}]) {
      expect(resolve(at(key, value)).problems).toEqual([
        expect.stringMatching(`^${key} is .*; wanted: a whole number`),
      ]);
    }
  });

  test.each([
    ['batchTimeout', 'batchTimeoutMs'],
    ['lockTimeout', 'lockTimeoutMs'],
    ['idleInTransactionTimeout', 'idleTimeoutMs'],
    ['rowHandlerDispatch.sweepSettleTimeout', 'sweepSettleTimeoutMs'],
  ] as const)('refuses for %s all but durations of its range', (key, setting) => {
    const defaults = resolve({}).settings[setting];
    for (const value of [
      null,
      NaN,
      -1,
      0,
      Infinity,
      1e12,
      '',
      '30',
      '30s',
      'PT',
      'P1M',
      'P1Y',
      '-PT30S',
      true,
      [],
      {},
    ]) {
      const { problems, settings } = resolve(at(key, value));
      expect(problems).toEqual([expect.stringMatching(`^${key} is .*; wanted: an ISO-8601 duration or milliseconds`)]);
      expect(settings[setting]).toBe(defaults);
    }
  });

  test.each([
    [{ batchTimeout: 'PT45S' }, { batchTimeoutMs: 45_000 }],
    [{ batchTimeout: 45_000 }, { batchTimeoutMs: 45_000 }],
    [{ batchTimeout: 'PT1H' }, { batchTimeoutMs: 3_600_000 }],
    [{ lockTimeout: 'PT0.01S' }, { lockTimeoutMs: 10 }],
    [{ idleInTransactionTimeout: 'PT1M' }, { idleTimeoutMs: 60_000 }],
    [{ rowHandlerDispatch: { sweepSettleTimeout: 'PT1M' } }, { sweepSettleTimeoutMs: 60_000 }],
    [{ rowHandlerDispatch: { sweepSettleTimeout: 'P7D' } }, { sweepSettleTimeoutMs: 604_800_000 }],
    [{ dryRun: true }, { dryRun: true }],
  ])('reads %j', (options, settings) => {
    expect(resolve(options)).toMatchObject({ problems: [], settings });
  });

  test.each([
    ['dryRun', [null, 0, 1, '', 'true', {}]],
    ['contextName', [null, '', 7, {}]],
    // acceptance 11
    ['rowHandlerDispatch', [null, 0, 'PT1H', true, []]],
    ['auditObservers', [null, 0, 'PT1H', true, []]],
    ['historyPruning', [null, 0, 'P30D', true, []]],
    ['worker', [null, 0, 'PT1H', true, []]],
    ['metrics', [null, 0, 'register', true, []]],
    ['metrics.registry', [null, 0, 'register', true, [], {}]],
    ['killSwitch', [null, 0, 1, '', 'true', {}]],
    ['schedule', [0, true, 'daily', '* * * *', '0 0 30 2 *', {}]],
    ['conventions', [null, 0, 'id', true, []]],
  ])('refuses a %s of the wrong kind', (key, values) => {
    for (const value of values) {
      expect(resolve(at(key, value)).problems).toEqual([expect.stringMatching(`^${key} is .*; `)]);
    }
  });

  // acceptance 8, 9, 10, 12, 13, 14, 139, 197, 301
  test.each([
    ['sweepBatchSize', 'settings.sweepBatchSize', 1, 100_000],
    ['parallelism', 'settings.parallelism', 1, 16],
    ['batchTimeout', 'settings.batchTimeoutMs', 1000, 3_600_000],
    ['lockTimeout', 'settings.lockTimeoutMs', 10, 10_000],
    ['idleInTransactionTimeout', 'settings.idleTimeoutMs', 1000, 3_600_000],
    ['auditObservers.timeout', 'settings.observerTimeoutMs', 1, 3_600_000],
    ['worker.slotLease', 'worker.slotLeaseMs', 1000, 3_600_000],
    ['worker.shutdownTimeout', 'worker.shutdownTimeoutMs', 0, 3_600_000],
    ['rowHandlerDispatch.sweepSettleTimeout', 'settings.sweepSettleTimeoutMs', 60_000, 604_800_000],
    ['rowHandlerDispatch.pollInterval', 'settings.dispatch.pollIntervalMs', 1, 86_400_000],
    ['rowHandlerDispatch.batchSize', 'settings.dispatch.batchSize', 1, 10_000],
    ['rowHandlerDispatch.maxParallelism', 'settings.dispatch.maxParallelism', 1, 256],
    ['rowHandlerDispatch.maxAttempts', 'settings.dispatch.maxAttempts', 1, 1000],
    ['rowHandlerDispatch.baseBackoff', 'settings.dispatch.baseBackoffMs', 1, 86_400_000],
    ['rowHandlerDispatch.maxBackoff', 'settings.dispatch.maxBackoffMs', 1, 30 * 86_400_000],
    ['rowHandlerDispatch.claimTimeout', 'settings.dispatch.claimTimeoutMs', 30_000, 86_400_000],
    ['rowHandlerDispatch.payloadRetention', 'settings.dispatch.payloadRetentionMs', 3_600_000, 3650 * 86_400_000],
    [
      'rowHandlerDispatch.deadLetterPayloadRetention',
      'settings.dispatch.deadLetterPayloadRetentionMs',
      0,
      30 * 86_400_000,
    ],
  ] as const)('takes %s from the least to the most, and nothing else', (key, path, min, max) => {
    for (const value of [min, max]) {
      const resolved = resolve(at(key, value));
      expect(resolved.problems).toEqual([]);
      expect(resolved).toHaveProperty(path, value);
    }
    for (const value of [min - 1, max + 1, -1, null, NaN, Infinity, 1e15, '', '30', 'P1M', true, {}]) {
      expect(resolve(at(key, value)).problems).toEqual([
        expect.stringMatching(new RegExp(`^${key.replace('.', '\\.')} is .*; wanted: .*from ${min}\\b.* to ${max}\\b`)),
      ]);
    }
  });

  test('lets a dead letter keep its snapshot no longer than any snapshot is kept', () => {
    const keeping = (payloadRetention: string) =>
      resolve({ rowHandlerDispatch: { payloadRetention, deadLetterPayloadRetention: 'P90D' } }).problems;
    expect(keeping('P90D')).toEqual([]);
    expect(keeping('P89D')).toEqual([
      expect.stringMatching(/^rowHandlerDispatch\.deadLetterPayloadRetention is 'P90D'; .*payloadRetention.*raise/),
    ]);
  });

  // PRN-01
  test.each([
    ['succeededRunRetention', 'succeededRuns'],
    ['failedRunRetention', 'failedRuns'],
    ['inactiveHoldRetention', 'inactiveHolds'],
  ])('takes for %s null or at least a day, in calendar units too', (key, setting) => {
    for (const [value, period] of [
      [null, null],
      ['P1D', 'P1D'],
      ['PT24H', 'PT24H'],
      ['P1M', 'P1M'],
      ['P7Y', 'P7Y'],
      [86_400_000, 'PT86400S'],
    ]) {
      const { problems, pruning } = resolve(at(`historyPruning.${key}`, value));
      expect(problems).toEqual([]);
      expect(pruning).toHaveProperty(setting, period);
    }
    for (const value of [0, -1, 86_399_999, 'PT23H59M59S', '-P1M', 'P0D', '', '30', NaN, Infinity, true, {}, []]) {
      expect(resolve(at(`historyPruning.${key}`, value)).problems).toEqual([
        expect.stringMatching(`^historyPruning\\.${key} is .*; wanted: .*at least one day`),
      ]);
    }
  });

  test('takes a registry of prom-client for the metrics', () => {
    const registry = new Registry();
    expect(resolve({ metrics: { registry } })).toMatchObject({
      problems: [],
      metrics: { tenantLabel: false, probeIntervalMs: 60_000 },
    });
    expect(resolve({ metrics: { registry, tenantLabel: true, probeInterval: 'PT5M' } }).metrics).toEqual({
      registry,
      tenantLabel: true,
      probeIntervalMs: 300_000,
    });
    expect(resolve({ metrics: { registry, tenantLabel: 'yes', labels: [] } }).problems).toHaveLength(2);
  });

  // acceptance 154, 157, META-08
  test('takes names for the conventions, one or all of them', () => {
    const conventions = {
      recordIdProperty: 'key',
      tenantProperty: 'owner',
      softDeleteProperty: 'hidden',
      deletedAtProperty: 'hiddenAt',
      anonymisedAtProperty: 'scrubbedAt',
    };
    expect(resolve({ conventions }).conventions).toEqual({
      recordId: 'key',
      tenant: 'owner',
      softDelete: 'hidden',
      deletedAt: 'hiddenAt',
      anonymisedAt: 'scrubbedAt',
    });
    expect(resolve({ conventions: { tenantProperty: 'owner' } }).conventions).toMatchObject({
      recordId: 'id',
      tenant: 'owner',
    });
  });

  // acceptance 15
  test.each(['recordIdProperty', 'tenantProperty', 'softDeleteProperty', 'deletedAtProperty', 'anonymisedAtProperty'])(
    'refuses a blank %s',
    (key) => {
      for (const value of [null, '', ' ', 7, {}]) {
        expect(resolve({ conventions: { [key]: value } }).problems).toEqual([
          expect.stringMatching(`^conventions\\.${key} is .*; wanted: the name of a property\\.$`),
        ]);
      }
    },
  );

  test('collects every problem', () => {
    const { problems } = resolve({
      sweepBatchSize: 0,
      parallelism: 17,
      batchTimeout: 'soon',
      lockTimeout: -1,
      idleInTransactionTimeout: null,
      rowHandlerDispatch: { sweepSettleTimeout: 'PT59S' },
      dryRun: 'yes',
      contextName: '',
      conventions: { tenantProperty: '', recordIdProperty: ' ' },
    });
    expect(problems.map((problem) => problem.split(' is ')[0]).sort()).toEqual([
      'batchTimeout',
      'contextName',
      'conventions.recordIdProperty',
      'conventions.tenantProperty',
      'dryRun',
      'idleInTransactionTimeout',
      'lockTimeout',
      'parallelism',
      'rowHandlerDispatch.sweepSettleTimeout',
      'sweepBatchSize',
    ]);
  });

  test.each([null, undefined, 7, 'rules', () => ({})])('refuses %p in place of options', (options) => {
    const problems: string[] = [];
    resolveOptions(options as never, problems);
    expect(problems).toEqual([
      expect.stringMatching(/^The options of CohortModule are .*; wanted: an object with rules/),
    ]);
  });
});
