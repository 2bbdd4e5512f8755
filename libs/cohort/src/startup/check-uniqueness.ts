import type { AnonymiseFactory } from '../domain/anonymise-factory.js';
import { Strategy } from '../domain/strategy.js';
import type { ColumnScrub, RetentionEntry } from '../registry/retention-entry.js';
import type { UniqueIndexRow } from '../sql/columns.js';

/** A hold is placed on an id: if several rows could carry it, one of them would be somebody else's. */
export function checkRecordIdIsUnique(entry: RetentionEntry, indexes: readonly UniqueIndexRow[]): string[] {
  const { name } = entry.recordId;
  const isTheKey = (index: UniqueIndexRow) => {
    if (index.exclusion || index.predicate !== '' || !index.complete) return false;
    const beside = index.columns.filter((column) => column !== name);
    if (beside.length === index.columns.length) return false;
    return (
      beside.length === 0 ||
      (entry.uniqueAcrossPartitions &&
        index.primary &&
        beside.every((column) => column !== null && index.partitionColumns.includes(column)))
    );
  };
  if (indexes.some(isTheKey)) return [];
  return [
    entry.uniqueAcrossPartitions
      ? `${entry.entityName}: record id ${name} is said to be unique across partitions; wanted: a primary key of ${name} and the columns that its table is partitioned by.`
      : `${entry.entityName}: nothing in the database keeps record id ${name} unique; wanted: a primary key or unique constraint of its own.`,
  ];
}

/**
 * Constraints that the second anonymised row would break: one value for all of them, in a column that must differ. What
 * saves it is NULL, a value of its own for every row, or an index that leaves anonymised rows out.
 */
export function checkScrubsStayUnique(
  entry: RetentionEntry,
  indexes: readonly UniqueIndexRow[],
  factories: ReadonlyMap<unknown, AnonymiseFactory>,
): string[] {
  const { anonymisedAt, recordId } = entry;
  return indexes
    .filter((index) => !index.columns.includes(recordId.name))
    .filter((index) => !anonymisedAt || !conjunctsOf(index.predicate).includes(`${anonymisedAt.name} IS NULL`))
    .filter((index) => !entry.scrubs.some((scrub) => setsApart(scrub, index, factories)))
    .flatMap((index) =>
      entry.scrubs
        .filter((scrub) => index.mentions.includes(scrub.column.name) && collides(scrub, index, factories))
        .map(
          ({ column }) =>
            `${entry.entityName}: '${column.property}' would get one value in many rows, which ${index.name} forbids; anonymise it to NULL, with a factory of mode 'perRow', or make that index one WHERE ${anonymisedAt?.name ?? 'the marker'} IS NULL.`,
        ),
    );
}

/** NULLs differ from each other, and a factory asked for every row is there to give each a value of its own. */
function setsApart(
  scrub: ColumnScrub,
  index: UniqueIndexRow,
  factories: ReadonlyMap<unknown, AnonymiseFactory>,
): boolean {
  return !index.exclusion && index.columns.includes(scrub.column.name) && !collides(scrub, index, factories);
}

function collides(
  scrub: ColumnScrub,
  index: UniqueIndexRow,
  factories: ReadonlyMap<unknown, AnonymiseFactory>,
): boolean {
  if ('factory' in scrub) return (factories.get(scrub.factory)?.mode ?? 'static') === 'static';
  return scrub.method !== 'null' || index.nullsEqual;
}

/** Unique values that soft-deleted rows go on holding: nobody else can use them until the rows are purged. */
export function reservedByTrash(
  entry: RetentionEntry,
  indexes: readonly UniqueIndexRow[],
  strategies: readonly Strategy[],
): string[] {
  if (!strategies.includes(Strategy.SoftDelete)) return [];
  const markers = [entry.softDeleteFlag, entry.deletedAt].flatMap((column) => column?.name ?? []);
  return indexes
    .filter((index) => !index.primary && !index.columns.includes(entry.recordId.name))
    .filter((index) => !markers.some((marker) => index.mentions.includes(marker)))
    .map(
      (index) =>
        `${entry.entityName}: soft-deleted rows keep their values of unique index ${index.name}, so that nobody can use them again; make it one WHERE ${
          entry.softDeleteFlag ? `${entry.softDeleteFlag.name} = false` : `${markers[0]} IS NULL`
        }.`,
    );
}

const CONJUNCT = /(?:\([^()]+\)|[\w"]+)/.source;
const CONJUNCTION = new RegExp(`^\\(${CONJUNCT}(?: AND ${CONJUNCT})+\\)$`);

/** The conditions of a predicate that must all hold. None where it is put together in another way, such as by OR or NOT. */
function conjunctsOf(predicate: string): string[] {
  const isOne = /^\([^()]+\)$/.test(predicate);
  const all = isOne || CONJUNCTION.test(predicate) ? (predicate.match(/\([^()]+\)/g) ?? []) : [];
  return all.map((condition) => condition.slice(1, -1).replaceAll('"', ''));
}
