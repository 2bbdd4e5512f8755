import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { COVERAGE_FILE, coverageOf, exceptionsIn, lostFrom, readSpecs } from './support/coverage.js';
import { claimsIn } from './support/scenario-claims.js';

const document = () => readFileSync(COVERAGE_FILE, 'utf8');

describe('docs/coverage.md', () => {
  const { proved, malformed } = readSpecs();

  test('loses no scenario that was proved: it is proved again, or excepted with the reason', () => {
    expect(lostFrom(document(), proved)).toEqual([]);
  });

  // acceptance 16, 18
  test('is what the tests say; a change meant so: npm run coverage:update, and commit the file', () => {
    expect(coverageOf(document(), proved)).toBe(document());
  });

  // acceptance 16
  test('has nothing malformed in it, nor in the specs, and excepts nothing that is proved', () => {
    expect(malformed).toEqual([]);
    const excepted = exceptionsIn(document());
    expect(excepted.malformed).toEqual([]);
    expect(excepted.numbers.filter((number) => proved.has(number))).toEqual([]);
  });
});

/** A comment that names scenarios; put together, so that this file does not name them. */
const named = (numbers: string) => `// ${'acceptance'} ${numbers}`;

describe('a spec', () => {
  test.each([
    ['a comment beside a test', `${named('4, 7-9')}\ntest('x', () => {});`],
    ['a title', `test('x (${named('4, 7-9').slice(3)})', () => {});`],
    ['a comment inside of a test', `it('x', () => { ${named('4, 7-9')}\n});`],
    [
      'a comment beside a suite with a test',
      `${named('4, 7-9')}\ndescribe.each([1])('x', () => { test('y', () => {}); });`,
    ],
    [
      'a table of cases',
      `const cases = [\n${named('4, 7-9')}\n1];\nconst all = [...cases];\ntest.each(all)('x', () => {});`,
    ],
    [
      'a test that runs where it can',
      `const testHere = no ? test.skip : test;\n${named('4, 7-9')}\ntestHere('x', () => {});`,
    ],
    ['a test that is skipped where it cannot run', `if (no) {\n${named('4, 7-9')}\ntest.skip('x', () => {});\n}`],
  ])('proves what it names in %s', (_, text) => {
    expect(claimsIn(text)).toEqual({ proved: [4, 7, 8, 9], skipped: [], malformed: [] });
  });

  test.each([
    ['a skipped test', `${named('4')}\ntest.skip('x', () => {});`],
    ['a skipped table', `${named('4')}\ntest.skip.each([1])('x', () => {});`],
    ['a test with another name for it', `${named('4')}\nxit('x', () => {});`],
    ['a test that is still to be written', `${named('4')}\nit.todo('x');`],
    ['a test that is known to fail', `${named('4')}\ntest.failing('x', () => {});`],
    ['a skipped suite', `describe.skip('x', () => {\n${named('4')}\ntest('y', () => {}); });`],
    ['a suite with nothing but skipped tests', `${named('4')}\ndescribe('x', () => { test.skip('y', () => {}); });`],
    ['the cases of a skipped test', `const cases = [\n${named('4')}\n1];\ntest.skip.each(cases)('x', () => {});`],
  ])('proves nothing by %s', (_, text) => {
    expect(claimsIn(text)).toEqual({ proved: [], skipped: [4], malformed: [] });
  });

  // acceptance 17
  test.each([
    ['no number', `${named('of all')}\ntest('x', () => {});`, 'names no scenario'],
    ['a scenario that does not exist', `${named('463')}\ntest('x', () => {});`, '463 is outside of 1-462'],
    ['scenario 0', `${named('0-2')}\ntest('x', () => {});`, '0-2 is outside of 1-462'],
    ['numbers backwards', `${named('9-7')}\ntest('x', () => {});`, '9-7 runs backwards'],
    ['no test', `test('x', () => {});\n${named('4')}\nexport {};`, 'stands beside no test'],
    ['an empty suite', `${named('4')}\ndescribe('x', () => {});`, 'stands beside no test'],
    ['the end of a suite', `describe('x', () => { test('y', () => {});\n${named('4')}\n});`, 'stands beside no test'],
    ['cases that no test takes', `const cases = [\n${named('4')}\n1];`, 'stands beside no test'],
  ])('is malformed where it names %s', (_, text, why) => {
    const claims = claimsIn(text);
    expect(claims).toMatchObject({ proved: [], skipped: [], malformed: [expect.stringMatching(/^line \d: /)] });
    expect(claims.malformed[0]).toContain(why);
  });
});

describe('an exception', () => {
  const withExceptions = (...lines: string[]) => `## Exceptions\n\n${lines.join('\n')}\n\n## Open\n`;
  const reason = 'a reason that says something';

  test('names scenarios and a reason', () => {
    const text = withExceptions(`- 4, 7-8: ${reason}`, `- 9: ${reason}`);
    expect(exceptionsIn(text)).toEqual({ numbers: [4, 7, 8, 9], malformed: [] });
  });

  // acceptance 17
  test.each([
    ['without a reason', '- 4: none.'],
    ['without a number', `- ${reason}`],
    ['of a scenario that does not exist', `- 463: ${reason}`],
    ['that is said twice', `- 9: ${reason}\n- 9: ${reason}`],
  ])('%s is malformed', (_, line) => {
    expect(exceptionsIn(withExceptions(line)).malformed).toEqual([expect.stringContaining(line.split('\n')[0]!)]);
  });
});

describe('a scenario that was proved', () => {
  const before =
    '## Proved\n\n| 4-6 | a.spec.ts |\n| 9 | b.spec.ts |\n\n## Exceptions\n\n- 6: a reason that says something\n\n## Open\n';

  test('is lost when no test names it and no exception does', () => {
    expect(lostFrom(before, new Map([[9, ['b.spec.ts']]]))).toEqual([4, 5]);
    expect(lostFrom(before, new Map([4, 5, 9].map((number) => [number, ['c.spec.ts']])))).toEqual([]);
  });
});
