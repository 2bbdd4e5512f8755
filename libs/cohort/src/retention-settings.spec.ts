import { describe, expect, test } from '@jest/globals';
import { CohortConfigurationError } from './cohort.errors.js';
import { RetentionSettings } from './retention-settings.js';

const rules = { notes: { period: 'P30D', strategy: 'purge' as const } };
const settingsWith = (options: object = {}) => new RetentionSettings({ rules, ...options });
const problemsOf = (change: () => void): readonly string[] => {
  try {
    change();
  } catch (error) {
    expect(error).toBeInstanceOf(CohortConfigurationError);
    return (error as CohortConfigurationError).problems;
  }
  return [];
};

describe('RetentionSettings.update', () => {
  // 1.18: options are live
  test('changes what is named and nothing else', () => {
    const settings = settingsWith({ sweepBatchSize: 7, rowHandlerDispatch: { batchSize: 9, maxAttempts: 3 } });
    const { settings: engine } = settings.inForce;
    settings.update({ schedule: '0 2 * * *', dryRun: true, rowHandlerDispatch: { maxAttempts: 4 } });
    expect(settings.inForce).toMatchObject({
      settings: { sweepBatchSize: 7, dryRun: true, dispatch: { batchSize: 9, maxAttempts: 4 } },
      worker: { schedule: { source: '0 2 * * *' }, killSwitch: false },
    });
    // Whoever was handed the engine's settings at start sees the change.
    expect(engine).toMatchObject({ sweepBatchSize: 7, dryRun: true });
    expect(settings.inForce.settings).toBe(engine);
  });

  test('takes null for what may be never, and undefined for nothing', () => {
    const settings = settingsWith({ schedule: '0 2 * * *', historyPruning: { failedRunRetention: 'P7Y' } });
    settings.update({ killSwitch: undefined, historyPruning: { failedRunRetention: undefined } } as never);
    expect(settings.inForce).toMatchObject({ worker: { killSwitch: false }, pruning: { failedRuns: 'P7Y' } });
    settings.update({ schedule: null, historyPruning: { failedRunRetention: null } });
    expect(settings.inForce).toMatchObject({ worker: { schedule: null }, pruning: { failedRuns: null } });
  });

  // WRK-05; trap 67, 68
  test('refuses a wrong change with every problem, and the last valid options stay in force', () => {
    const settings = settingsWith({ schedule: '0 2 * * *' });
    let calls = 0;
    settings.onChange(() => calls++);
    const before = JSON.stringify(settings.inForce);
    const problems = problemsOf(() =>
      settings.update({
        schedule: 'sometimes',
        dryRun: true,
        sweepBatchSize: 0,
        killswitch: true,
        rowHandlerDispatch: { maxParallelism: 1e9 },
        historyPruning: { succeededRunRetention: 'PT23H' },
        parallelism: 2,
      } as never),
    );
    expect(problems.map((problem) => problem.split(' is ')[0])).toEqual([
      'historyPruning.succeededRunRetention',
      'killswitch',
      'parallelism',
      'rowHandlerDispatch.maxParallelism',
      'schedule',
      'sweepBatchSize',
    ]);
    expect(JSON.stringify(settings.inForce)).toBe(before);
    expect(calls).toBe(0);
  });

  test.each([null, undefined, 7, 'schedule', []])('refuses %p', (change) => {
    expect(problemsOf(() => settingsWith().update(change as never))).toEqual([
      expect.stringMatching(/^The change is .*; wanted: an object/),
    ]);
  });

  test.each(['rules', 'tenants', 'contextName', 'conventions', 'metrics', 'parallelism', 'lockTimeout'])(
    'refuses %s, which is fixed at start',
    (key) => {
      expect(problemsOf(() => settingsWith().update({ [key]: {} } as never))).toEqual([
        `${key} is fixed at start; change it in the options of CohortModule and restart.`,
      ]);
    },
  );

  test('is held to what the model demands', () => {
    const settings = settingsWith();
    const needsTenants = () => settings.require(({ worker }) => (worker.schedule ? ['tenants are missing'] : []));
    expect(needsTenants()).toEqual([]);
    expect(problemsOf(() => settings.update({ schedule: '0 2 * * *' }))).toEqual(['tenants are missing']);
    expect(settings.inForce.worker.schedule).toBeNull();
  });

  test('tells those who listen, until they stop', () => {
    const settings = settingsWith();
    const seen: boolean[] = [];
    const stop = settings.onChange(() => seen.push(settings.inForce.worker.killSwitch));
    settings.update({ killSwitch: true });
    settings.update({ killSwitch: false });
    stop();
    settings.update({ killSwitch: true });
    expect(seen).toEqual([true, false]);
  });
});
