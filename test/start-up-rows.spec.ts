import { describe, expect, test } from '@jest/globals';
import { marksInSpecs, marksOf } from './support/start-up-rows.js';

/** What start-up refuses, a row each: of the model (VAL) and of readiness (READY). */
const ROWS = [
  ...['VAL-01', 'VAL-02', 'VAL-03', 'VAL-04', 'VAL-05', 'VAL-06', 'VAL-07', 'VAL-08', 'VAL-09', 'VAL-10', 'VAL-11'],
  ...['VAL-12', 'VAL-20', 'VAL-21', 'VAL-22', 'VAL-23', 'VAL-30', 'VAL-31', 'VAL-32', 'VAL-33', 'VAL-34', 'VAL-35'],
  ...['VAL-36', 'VAL-40', 'VAL-41', 'VAL-42', 'VAL-43', 'VAL-44', 'VAL-50', 'VAL-51', 'VAL-52', 'VAL-53', 'VAL-54'],
  ...['VAL-55', 'VAL-56', 'VAL-57', 'VAL-58', 'VAL-59', 'VAL-60', 'VAL-61', 'VAL-62', 'VAL-63', 'VAL-64', 'VAL-65'],
  ...['VAL-66', 'VAL-67', 'VAL-68', 'VAL-70', 'VAL-71', 'VAL-72', 'VAL-73'],
  ...['READY-01', 'READY-02', 'READY-03', 'READY-04', 'READY-05', 'READY-06', 'READY-07', 'READY-08', 'READY-09'],
  ...['READY-10', 'READY-11', 'READY-12', 'READY-13', 'READY-14'],
];

/** Rows that no test can have here, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'VAL-05': 'MikroORM cannot split an entity over tables; joined inheritance, its nearest, is VAL-03',
  'VAL-71': 'superseded by VAL-72, which compares the columns of a kind over all entities, hence within one too',
  'VAL-73': 'MikroORM gives every mapped property a column type, or its discovery fails before Cohort is asked',
  'READY-04': 'one statement reads the shape of our tables, hence one moment; for its names see search-path.spec.ts',
};

const required = ROWS.filter((row) => !(row in EXCEPTIONS));
const missing = (marks: readonly string[]) => marks.filter((mark) => !marksInSpecs().has(mark));

test('every row has a test that is refused', () => {
  expect(missing(required)).toEqual([]);
});

test('every row has a near miss that passes', () => {
  expect(missing(required.map((row) => `${row} near miss`))).toEqual([]);
});

test('no test names a row that does not exist, and none that is excepted is marked', () => {
  const marked = [...marksInSpecs()].map((mark) => mark.replace(' near miss', ''));
  expect(marked.filter((row) => !required.includes(row))).toEqual([]);
  expect(Object.keys(EXCEPTIONS).filter((row) => !ROWS.includes(row))).toEqual([]);
});

describe('a mark', () => {
  test.each([
    ['above a test', "// VAL-90, META-01\n  test('x', () => {", ['VAL-90']],
    ['above a table of tests', '// VAL-90\n// and why\ntest.each([', ['VAL-90']],
    ['above a case', '  // VAL-90 near miss, VAL-91\n  {\n    title: 1', ['VAL-90 near miss', 'VAL-91']],
    ['above a tuple', '  // VAL-90\n  [\n', ['VAL-90']],
    ['above a test that is skipped', "// VAL-90\ntest.skip('x', () => {", []],
    ['above a group', "// VAL-90\ndescribe('x', () => {", []],
    ['above nothing', '// VAL-90\n\ntest(', []],
    ['in code', "const row = 'VAL-90';\ntest(", []],
  ])('%s', (_, text, marks) => {
    expect(marksOf(text)).toEqual(marks);
  });
});
