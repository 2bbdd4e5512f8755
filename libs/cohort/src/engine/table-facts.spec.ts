import { describe, expect, test } from '@jest/globals';
import { CohortConfigurationError } from '../cohort.errors.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { aForeignKey, anEntry, factsFor } from '../../test/support/entries.js';
import { orderByForeignKeys, unindexedKeys } from './table-facts.js';

/** Facts from a picture: each entity with those whose rows point at it. */
function world(picture: Record<string, readonly string[]>) {
  const entries = new Map(Object.keys(picture).map((name) => [name, anEntry(name)] as const));
  return new Map<RetentionEntry, ReturnType<typeof factsFor>>(
    Object.entries(picture).map(([name, dependents]) => {
      const entry = entries.get(name)!;
      return [
        entry,
        factsFor(
          entry,
          dependents.map((each) => entries.get(each)!),
        ),
      ];
    }),
  );
}
const orderOf = (picture: Record<string, readonly string[]>) =>
  orderByForeignKeys(world(picture)).map((entry) => entry.entityName);

describe('orderByForeignKeys', () => {
  // acceptance 259, 260
  test.each([
    ['unrelated entities by name', { c: [], a: [], b: [] }, ['a', 'b', 'c']],
    ['a child before its parent', { a: ['z'], z: [] }, ['z', 'a']],
    ['a whole chain from its end', { a: ['b'], b: ['c'], c: [] }, ['c', 'b', 'a']],
    ['children of one parent by name', { a: ['z', 'y'], y: [], z: [] }, ['y', 'z', 'a']],
    ['a child of two parents before both', { a: ['z'], b: ['z'], z: [] }, ['z', 'a', 'b']],
    ['a diamond, each entity once', { a: ['b', 'c'], b: ['d'], c: ['d'], d: [] }, ['d', 'b', 'c', 'a']],
  ])('puts %s', (_, picture, expected) => {
    expect(orderOf(picture)).toEqual(expected);
  });

  // acceptance 260, VAL-11
  test.each([
    ['two', { a: ['b'], b: ['a'] }, 'a < b < a'],
    ['three', { a: ['b'], b: ['c'], c: ['a'] }, 'a < b < c < a'],
    ['two behind an entity that is not part of it', { a: ['b'], b: ['c'], c: ['b'] }, 'b < c < b'],
  ])('refuses a cycle of %s and names it', (_, picture, cycle) => {
    expect(() => orderOf(picture)).toThrow(CohortConfigurationError);
    expect(() => orderOf(picture)).toThrow(`Retained entities form a cycle of foreign keys (${cycle})`);
  });

  test('of nothing is nothing', () => {
    expect(orderOf({})).toEqual([]);
  });
});

test('unindexedKeys names the keys that make a delete scan their table', () => {
  const facts = factsFor(
    anEntry('Note'),
    [],
    [
      aForeignKey('indexed_fk'),
      aForeignKey('bare_fk', { childSchema: 'crm', childTable: 'orders', childIndexed: false }),
    ],
  );
  expect(unindexedKeys([facts, factsFor(anEntry('Ticket'))])).toEqual(['crm.orders.bare_fk']);
});
