import { type EntityMetadata, type EntityProperty, ReferenceKind } from '@mikro-orm/core';
import type { Annotations, PropertyRole } from '../decorators/annotation-store.js';
import type { ColumnScrub, RetainedColumn, RetentionEntry } from './retention-entry.js';

/** Property names that play a role where no marker says otherwise. */
export type ConventionNames = Readonly<Record<PropertyRole, string>>;

export const DEFAULT_CONVENTIONS: ConventionNames = {
  recordId: 'id',
  tenant: 'tenantId',
  softDelete: 'isDeleted',
  deletedAt: 'deletedAt',
  anonymisedAt: 'anonymisedAt',
};

interface Description {
  readonly meta: EntityMetadata;
  readonly annotations: Annotations;
  readonly conventions: ConventionNames;
  readonly defaultSchema: string;
  readonly problems: string[];
}

const MARKERS: Readonly<Record<PropertyRole, string>> = {
  recordId: '@RetentionRecordId',
  tenant: '@RetentionTenant',
  softDelete: '@RetentionSoftDelete',
  deletedAt: '@RetentionDeletedAt',
  anonymisedAt: '@RetentionAnonymisedAt',
};

/** Reads one annotated entity. Undefined where it is not retained, or where a problem keeps it from being described. */
export function describeEntry(description: Description): RetentionEntry | undefined {
  const { meta, annotations, problems } = description;
  const before = problems.length;
  const complain = (problem: string) => problems.push(`${meta.className}: ${problem}`);

  if (annotations.retain && annotations.exempt) {
    complain('carries both @Retain and @ExemptFromRetention; keep one.');
    return undefined;
  }
  const { retain, entityId } = annotations;
  if (!retain) return undefined;
  if (!entityId) complain('@Retain needs @RetentionEntityId with a UUID of its own, which must never change.');
  checkShape(meta, complain);

  const column = (role: PropertyRole) => roleColumn(description, role, complain);
  const anchor = anchorColumn(meta, retain.anchor, complain);
  const recordId = column('recordId');
  if (!recordId)
    complain(
      `has no record id: mark one property with ${MARKERS.recordId}, or name it '${description.conventions.recordId}'.`,
    );
  else checkRecordId(meta, recordId, complain);
  const tenant = column('tenant');
  checkTenant(annotations, tenant, description.conventions, complain);
  const entry = {
    entityClass: meta.class,
    entityName: meta.className,
    category: retain.category,
    auditRowDetail: retain.auditRowDetail,
    schema: meta.schema ?? description.defaultSchema,
    table: meta.tableName,
    tenant,
    softDeleteFlag: column('softDelete'),
    deletedAt: column('deletedAt'),
    anonymisedAt: column('anonymisedAt'),
    scrubs: scrubsOf(meta, annotations, complain),
  };
  for (const marker of [entry.deletedAt, entry.anonymisedAt]) if (marker) checkTimestamp(marker, complain);
  if (entry.softDeleteFlag && baseType(entry.softDeleteFlag.type) !== 'boolean') {
    complain(`soft-delete flag '${entry.softDeleteFlag.property}' is ${entry.softDeleteFlag.type}; wanted: boolean.`);
  }
  if (entry.anonymisedAt && !entry.anonymisedAt.nullable) {
    complain(`'${entry.anonymisedAt.property}' must be nullable: NULL means "not anonymised yet".`);
  }
  if (problems.length > before || !anchor || !recordId || !entityId) return undefined;
  const described: RetentionEntry = { ...entry, entityId, anchor, recordId };
  checkOverlap(described, complain);
  return problems.length > before ? undefined : Object.freeze(described);
}

function checkShape(meta: EntityMetadata, complain: (problem: string) => void): void {
  if (meta.embeddable) complain('is an embeddable; retention works on tables.');
  if (meta.virtual || meta.view || !meta.tableName) complain('has no table of its own.');
  if (
    meta.discriminatorColumn ||
    meta.inheritanceType ||
    meta.root.discriminatorColumn ||
    (meta.extends && !isAbstractBase(meta))
  ) {
    complain('takes part in an inheritance hierarchy; retention would reach rows of other types.');
  }
}

function isAbstractBase(meta: EntityMetadata): boolean {
  return meta.root === meta;
}

/** A marker wins over the name. A marker on several properties is refused, naming them. */
function roleColumn(
  { meta, annotations, conventions }: Description,
  role: PropertyRole,
  complain: (problem: string) => void,
): RetainedColumn | null {
  const marked = [
    ...new Set(annotations.roles.filter((each) => each.role === role).map((each) => each.property)),
  ].sort();
  if (marked.length > 1) {
    complain(`${MARKERS[role]} marks ${marked.join(', ')}; mark one.`);
    return null;
  }
  const name = marked[0] ?? conventions[role];
  const property = meta.properties[name] as EntityProperty | undefined;
  if (!property && marked.length === 0) return null;
  const column = property && toColumn(property);
  if (!column) complain(`'${name}' (${MARKERS[role]} or its default name) is not mapped to one column of the table.`);
  else if (role !== 'recordId' && property.customType && !isPlainType(property)) {
    complain(
      `'${name}' has a custom type; Cohort compares and writes this column in SQL, so it must be stored as it is.`,
    );
  }
  return column ?? null;
}

function anchorColumn(
  meta: EntityMetadata,
  name: string,
  complain: (problem: string) => void,
): RetainedColumn | undefined {
  const property = meta.properties[name] as EntityProperty | undefined;
  const column = property && toColumn(property);
  if (!column) {
    complain(`anchor '${name}' is not a mapped property with one column.`);
    return undefined;
  }
  checkTimestamp(column, complain);
  return column;
}

function checkTimestamp(column: RetainedColumn, complain: (problem: string) => void): void {
  if (!['timestamptz', 'timestamp with time zone'].includes(baseType(column.type))) {
    complain(
      `'${column.property}' is ${column.type}; wanted: timestamptz. A timestamp without a zone drifts with the session.`,
    );
  }
}

const SESSION_DEPENDENT =
  /^(timestamp|timestamptz|date|time|timetz|interval|real|float4|float8|double precision|money|bytea)\b/;

function checkRecordId(meta: EntityMetadata, column: RetainedColumn, complain: (problem: string) => void): void {
  if (column.nullable) complain(`record id '${column.property}' is nullable; a hold needs an id on every row.`);
  if (!isUniqueByItself(meta, column.property)) {
    complain(
      `record id '${column.property}' is not unique by itself; it needs a primary key or a unique constraint of its own.`,
    );
  }
  if (SESSION_DEPENDENT.test(column.type)) {
    complain(
      `record id '${column.property}' is ${column.type}, whose text depends on the session; wanted: uuid, an integer or text.`,
    );
  }
}

function isUniqueByItself(meta: EntityMetadata, property: string): boolean {
  if (meta.primaryKeys.length === 1 && meta.primaryKeys[0] === property) return true;
  if (meta.properties[property as never] && (meta.properties[property as never] as EntityProperty).unique) return true;
  return meta.uniques.some((unique) => {
    const properties = [unique.properties ?? []].flat() as string[];
    return properties.length === 1 && properties[0] === property && !unique.where;
  });
}

function checkTenant(
  annotations: Annotations,
  tenant: RetainedColumn | null,
  conventions: ConventionNames,
  complain: (problem: string) => void,
): void {
  if (annotations.tenantless && tenant) {
    complain(`is marked @RetentionTenantless and has the tenant property '${tenant.property}'; keep one.`);
  } else if (!annotations.tenantless && !tenant) {
    complain(
      `has no tenant: mark a property with ${MARKERS.tenant}, name it '${conventions.tenant}', or mark the class @RetentionTenantless.`,
    );
  } else if (tenant?.nullable) {
    complain(`tenant '${tenant.property}' is nullable; rows without a tenant would never be swept.`);
  }
}

function scrubsOf(meta: EntityMetadata, annotations: Annotations, complain: (problem: string) => void): ColumnScrub[] {
  const seen = new Set<string>();
  return annotations.scrubs.flatMap((scrub): ColumnScrub[] => {
    const property = meta.properties[scrub.property as never] as EntityProperty | undefined;
    const column = property && toColumn(property);
    if (seen.has(scrub.property)) complain(`'${scrub.property}' is marked for anonymising twice; keep one.`);
    seen.add(scrub.property);
    if (!column) {
      complain(`'${scrub.property}' is marked for anonymising, but not mapped to one column of the table.`);
      return [];
    }
    if ('factory' in scrub) {
      complain(`'${scrub.property}' is anonymised by a factory; this version scrubs with @Anonymise methods alone.`);
      return [];
    }
    if (scrub.method === 'null' && !column.nullable)
      complain(`'${scrub.property}' is anonymised to NULL, but not nullable.`);
    if (scrub.method !== 'null' && property.runtimeType !== 'string') {
      complain(`'${scrub.property}' is anonymised to a text, but its type is ${property.runtimeType}.`);
    }
    return [{ column, method: scrub.method, literal: scrub.literal }];
  });
}

function checkOverlap(entry: RetentionEntry, complain: (problem: string) => void): void {
  const structural = new Map(
    [
      ['the record id', entry.recordId],
      ['the tenant', entry.tenant],
      ['the anchor', entry.anchor],
      ['the soft-delete flag', entry.softDeleteFlag],
      ['the soft-delete date', entry.deletedAt],
      ['the anonymised-at marker', entry.anonymisedAt],
    ].flatMap(([role, column]) => (column ? [[(column as RetainedColumn).property, role as string] as const] : [])),
  );
  for (const { column } of entry.scrubs) {
    const role = structural.get(column.property);
    if (role) complain(`'${column.property}' is ${role} and cannot be anonymised.`);
  }
}

/** Spellings of a column's definition that are no types: they cannot stand in a cast. */
const SERIALS: Readonly<Record<string, string>> = { smallserial: 'smallint', serial: 'int', bigserial: 'bigint' };

function toColumn(property: EntityProperty): RetainedColumn | undefined {
  const name = property.fieldNames?.[0];
  const type = property.columnTypes?.[0];
  if (
    property.persist === false ||
    property.kind === ReferenceKind.EMBEDDED ||
    property.fieldNames?.length !== 1 ||
    !name ||
    !type
  )
    return undefined;
  return {
    property: property.name,
    name,
    type: SERIALS[type.toLowerCase()] ?? type,
    nullable: property.nullable === true,
  };
}

/** MikroORM's own types for uuid and bigint only change the JavaScript side, never what is stored. */
function isPlainType(property: EntityProperty): boolean {
  return [
    'UuidType',
    'BigIntType',
    'TextType',
    'StringType',
    'IntegerType',
    'BooleanType',
    'DateTimeType',
    'CharacterType',
  ].includes(property.customType?.constructor.name ?? '');
}

/** `varchar(255)` and `timestamptz(3)` without the part in brackets. */
export function baseType(type: string): string {
  return type.replace(/\s*\([^)]*\)/, '').toLowerCase();
}
