import { Strategy } from '../domain/strategy.js';
import { isTenantType } from '../registry/column-type.js';
import { type RetainedColumn, type RetentionEntry, tableName } from '../registry/retention-entry.js';
import type { ColumnRow } from '../sql/columns.js';

/** Every column of an entity that Cohort reads or writes. */
export function columnsOf(entry: RetentionEntry): RetainedColumn[] {
  const roles = [entry.recordId, entry.tenant, entry.anchor, entry.softDeleteFlag, entry.deletedAt, entry.anonymisedAt];
  const marked = [...entry.scrubs, ...entry.subjects].map(({ column }) => column);
  return [...roles.filter((column) => column !== null), ...marked];
}

/** The entry with its columns as they are installed: the catalog knows their types and whether they take NULL. */
export function withInstalled(
  entry: RetentionEntry,
  installed: ReadonlyMap<string, ColumnRow>,
  partitioned: boolean,
): RetentionEntry {
  const here = <C extends RetainedColumn | null>(column: C): C => {
    const row = column && installed.get(column.name);
    return row ? { ...column, type: row.type, cast: row.cast, nullable: row.nullable } : column;
  };
  return Object.freeze({
    ...entry,
    partitioned,
    recordId: here(entry.recordId),
    tenant: here(entry.tenant),
    anchor: here(entry.anchor),
    softDeleteFlag: here(entry.softDeleteFlag),
    deletedAt: here(entry.deletedAt),
    anonymisedAt: here(entry.anonymisedAt),
    scrubs: entry.scrubs.map((scrub) => ({ ...scrub, column: here(scrub.column) })),
    subjects: entry.subjects.map((subject) => ({ ...subject, column: here(subject.column) })),
  });
}

/** What the installed columns of an entity lack, whatever the ORM model says of them. */
export function checkColumns(
  entry: RetentionEntry,
  installed: ReadonlyMap<string, ColumnRow>,
  strategies: readonly Strategy[],
): string[] {
  const missing = columnsOf(entry).filter((column) => !installed.has(column.name));
  if (missing.length > 0) {
    return missing.map(
      ({ name }) =>
        `${entry.entityName}: table ${tableName(entry)} has no column ${name}; apply the pending migrations.`,
    );
  }
  return [
    ...recordIdProblems(entry, installed),
    ...typeProblems(entry, installed, strategies.includes(Strategy.SoftDelete)),
    ...writeProblems(entry, installed, strategies),
  ];
}

function recordIdProblems(entry: RetentionEntry, installed: ReadonlyMap<string, ColumnRow>): string[] {
  const { name, type, cast, nullable, sessionDependent } = {
    ...entry.recordId,
    ...installed.get(entry.recordId.name)!,
  };
  return [
    ...(sessionDependent
      ? [
          `${entry.entityName}: record id ${name} is ${type}, whose text depends on the session; wanted: uuid, an integer or text.`,
        ]
      : []),
    // There is no array of arrays to pass several ids in; there is one of a domain over an array.
    ...((type.endsWith('[]') || type.startsWith('_')) && /[."]_[^.]+$/.test(cast)
      ? [`${entry.entityName}: record id ${name} is an array (${type}); wanted: uuid, an integer or text.`]
      : []),
    ...(nullable ? [`${entry.entityName}: record id ${name} takes NULL in the database; wanted: NOT NULL.`] : []),
  ];
}

function typeProblems(
  entry: RetentionEntry,
  installed: ReadonlyMap<string, ColumnRow>,
  softDeletes: boolean,
): string[] {
  const problem = (column: RetainedColumn | null, isRight: (type: string) => boolean, wanted: string) => {
    const type = column && installed.get(column.name)!.type;
    return type && !isRight(type)
      ? [`${entry.entityName}: column ${column.name} is ${type} in the database; wanted: ${wanted}.`]
      : [];
  };
  return [
    ...[entry.anchor, entry.deletedAt, entry.anonymisedAt].flatMap((column) =>
      problem(column, (type) => type === 'timestamp with time zone', 'timestamptz'),
    ),
    ...problem(softDeletes ? entry.softDeleteFlag : null, (type) => type === 'boolean', 'boolean'),
    ...problem(entry.tenant, isTenantType, 'uuid, a text or an integer'),
  ];
}

/** Columns that a strategy of the category writes. */
function writeProblems(
  entry: RetentionEntry,
  installed: ReadonlyMap<string, ColumnRow>,
  strategies: readonly Strategy[],
): string[] {
  const anonymises = strategies.includes(Strategy.Anonymise);
  const written = [
    ...(strategies.includes(Strategy.SoftDelete) ? [entry.softDeleteFlag, entry.deletedAt] : []),
    ...(anonymises ? [entry.anonymisedAt, ...entry.scrubs.map((scrub) => scrub.column)] : []),
  ].filter((column) => column !== null);
  const toNull = anonymises
    ? entry.scrubs.flatMap((scrub) => ('method' in scrub && scrub.method === 'null' ? [scrub.column] : []))
    : [];
  const marker = anonymises && entry.anonymisedAt ? [entry.anonymisedAt] : [];
  const { softDeleteFlag: flag, deletedAt } = entry;
  const softDeletes = strategies.includes(Strategy.SoftDelete);
  return [
    ...written
      .filter(({ name }) => installed.get(name)!.generated)
      .map(({ name }) => `${entry.entityName}: column ${name} is generated by the database and cannot be written.`),
    ...[...toNull, ...marker]
      .filter(({ name }) => !installed.get(name)!.nullable)
      .map(
        ({ name }) => `${entry.entityName}: column ${name} is NOT NULL in the database; anonymising needs NULL in it.`,
      ),
    ...(softDeletes && flag && installed.get(flag.name)!.nullable
      ? [
          `${entry.entityName}: column ${flag.name} takes NULL in the database, which is neither deleted nor not; wanted: NOT NULL.`,
        ]
      : []),
    ...(softDeletes && !flag && deletedAt && !installed.get(deletedAt.name)!.nullable
      ? [`${entry.entityName}: column ${deletedAt.name} is NOT NULL in the database; NULL means "not deleted yet".`]
      : []),
  ];
}
