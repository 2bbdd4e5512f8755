import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { COVERAGE_FILE, coverageOf, exceptedIn, provedBy } from './support/coverage.js';

const document = () => readFileSync(COVERAGE_FILE, 'utf8');

// acceptance 16, 18
test('docs/coverage.md is what the tests say; a change meant so: npm run coverage:update, and commit the file', () => {
  expect(coverageOf(document())).toBe(document());
});

test('no test names a scenario that does not exist, and none that is excepted is proved', () => {
  const numbers = [...provedBy().keys()];
  expect(numbers.filter((number) => number < 1 || number > 462)).toEqual([]);
  const excepted = new Set(exceptedIn(document()));
  expect(numbers.filter((number) => excepted.has(number))).toEqual([]);
});
