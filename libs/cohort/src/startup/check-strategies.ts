import { Strategy } from '../domain/strategy.js';
import { baseType } from '../registry/column-type.js';
import type { RetentionEntry } from '../registry/retention-entry.js';

/** What each strategy that a category may ever use needs of an entity. */
export function checkStrategies(entry: RetentionEntry, strategies: readonly Strategy[]): string[] {
  const needs = (strategy: Strategy, problem: string) =>
    `${entry.entityName}: category '${entry.category}' may ${verb(strategy)}, but ${problem}`;
  const problems: string[] = [];
  if (strategies.includes(Strategy.SoftDelete) && !entry.softDeleteFlag && !entry.deletedAt) {
    problems.push(
      needs(
        Strategy.SoftDelete,
        'it has neither a soft-delete flag (@RetentionSoftDelete) nor a date (@RetentionDeletedAt).',
      ),
    );
  }
  if (
    strategies.includes(Strategy.SoftDelete) &&
    !entry.softDeleteFlag &&
    entry.deletedAt &&
    !entry.deletedAt.nullable
  ) {
    problems.push(
      needs(
        Strategy.SoftDelete,
        `'${entry.deletedAt.property}' is not nullable, and without a flag NULL is what says "not deleted".`,
      ),
    );
  }
  if (strategies.includes(Strategy.SoftDelete) && entry.softDeleteFlag) {
    const { property, type, nullable } = entry.softDeleteFlag;
    if (!['boolean', 'bool'].includes(baseType(type))) {
      problems.push(needs(Strategy.SoftDelete, `its flag '${property}' is ${type}; wanted: boolean.`));
    }
    if (nullable) {
      problems.push(
        needs(Strategy.SoftDelete, `its flag '${property}' is nullable; a row where it is NULL would never go.`),
      );
    }
  }
  if (strategies.includes(Strategy.Anonymise) && entry.scrubs.length === 0) {
    problems.push(needs(Strategy.Anonymise, 'no property is marked with @Anonymise.'));
  }
  if (strategies.includes(Strategy.Anonymise) && !entry.anonymisedAt) {
    problems.push(needs(Strategy.Anonymise, 'it has no nullable date that says so (@RetentionAnonymisedAt).'));
  }
  return problems;
}

function verb(strategy: Strategy): string {
  return { purge: 'purge', softDelete: 'soft-delete', anonymise: 'anonymise', exempt: 'be exempt' }[strategy];
}
