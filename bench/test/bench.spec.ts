import { NATS_MISSING, createTestDatabase } from 'local-stack/testing';
import { afterEach, describe, expect, test } from '@jest/globals';
import { bench } from '../src/bench.js';
import { readOptions } from '../src/options.js';
import { type Report, isReached } from '../src/report.js';

const dropping: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const drop of dropping.splice(0)) await drop();
});

/** Runs the bench on the server of this test run; it makes a database of its own there. */
async function run(...argv: string[]): Promise<{ exitCode: number; text: string }> {
  const { url, drop } = await createTestDatabase({ name: 'bench' });
  dropping.push(drop);
  const printed: string[] = [];
  const exitCode = await bench(readOptions(argv), url, (text) => printed.push(text));
  return { exitCode, text: printed.join('\n') };
}

describe('the bench', () => {
  test('measures every row of the library and prints one JSON object', async () => {
    const purges = [
      'locked-vs-ported',
      'locked-vs-delete',
      'detail-vs-delete',
      'anonymise-vs-update',
      'two-lanes-vs-one',
    ];
    const rows = [...purges, 'handlers-vs-graphile'].flatMap((name) => ['--only', name]);
    const { exitCode, text } = await run('--rows', '2000', '--rounds', '1', '--json', ...rows);

    const report = JSON.parse(text) as Report & { results: Report['results'][number][] };
    expect(exitCode).toBe(0);
    const work = report.results.pop();
    expect(work).toMatchObject({ name: 'handlers-vs-graphile', tenants: 1, removed: 40, wanted: 1 });
    expect(report).toMatchObject({ rows: 2000, rounds: 1 });
    expect(
      report.results.map(({ name, tenants, wanted, awaitsWalks }) => [name, tenants, wanted, awaitsWalks]),
    ).toEqual([
      ['locked-vs-ported', 20, 1.5, false],
      ['locked-vs-delete', 20, 0.45, true],
      ['detail-vs-delete', 20, 0.15, true],
      ['anonymise-vs-update', 20, 1.5, true],
      ['two-lanes-vs-one', 20, 1.3, true],
    ]);
    for (const result of report.results) {
      expect(result).toMatchObject({ removed: 700, held: 500, passed: isReached(result) });
      expect(result.a.times).toHaveLength(1);
      expect(result.ratio).toBeCloseTo(result.b.median / result.a.median);
    }
  });

  test.each([
    ['evaluate-vs-echo', 'calls', 0.8],
    ['batches-vs-single', 'calls', 10],
  ])('measures %s of the governance service', async (name, counts, wanted) => {
    const { text } = await run('--rows', '5000', '--rounds', '1', '--json', '--only', name);
    expect((JSON.parse(text) as Report).results).toMatchObject([{ name, counts, wanted, removed: 100 }]);
  });

  (NATS_MISSING ? test.skip : test).each([
    ['outbox-vs-publish', 'events', 0.5, /k events\/s/],
    ['outbox-lag', null, 1, /p99 at 500 events\/s: \d+ ms .* allowed: 1000 ms/],
  ])('measures %s of the governance service', async (name, _, wanted, figure) => {
    const { text } = await run('--rows', '5000', '--rounds', '1', '--only', name);
    expect(text).toMatch(figure);
    expect(text).toMatch(new RegExp(`^${name} .*×  ${wanted} ×`, 'm'));
  });

  test('measures one row on another shape of table and prints a table', async () => {
    const { text } = await run(
      ...['--rows', '2000', '--rounds', '2', '--only', 'locked-vs-delete', '--tenants', '1', '--index', 'none'],
    );
    expect(text).toMatch(/^PostgreSQL .*; 2000 rows; medians of 2;/);
    expect(text).toMatch(/^locked-vs-delete +1 +none +purge, locked batches: \d+ k rows\/s/m);
    expect(text).not.toContain('locked-vs-ported');
  });

  test.each([
    [['--only', 'nothing'], '--only is nothing'],
    [['--rows', '10'], '--rows is 10'],
    [['--rounds', '1.5'], '--rounds is 1.5'],
  ])('refuses %j', (argv, message) => {
    expect(() => readOptions(argv)).toThrow(message);
  });
});

test.each([
  [1.5, 1.5, false, true],
  [1.28, 1.5, false, true],
  [1.27, 1.5, false, false],
  [0.01, 1.5, true, true],
])('a ratio of %d where %d is wanted (for later: %j) passes --check: %j', (ratio, wanted, awaitsWalks, passed) => {
  expect(isReached({ ratio, wanted, awaitsWalks })).toBe(passed);
});
