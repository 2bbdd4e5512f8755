import { type EntityMetadata, type EntityProperty, ReferenceKind, types } from '@mikro-orm/core';
import { type Annotations, type PropertyRole, type Scrub, readAnnotations } from '../decorators/annotation-store.js';
import { baseType, isTenantType, isText } from './column-type.js';
import type {
  ColumnScrub,
  FactoryScrub,
  LiteralScrub,
  RetainedColumn,
  RetentionEntry,
  SubjectColumn,
} from './retention-entry.js';

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
  if (meta.embeddable) {
    complain('is an embeddable; retention works on tables.');
    return undefined;
  }
  if (!entityId) complain('@Retain needs @RetentionEntityId with a UUID of its own, which must never change.');
  checkShape(meta, complain);

  const column = (role: PropertyRole) => roleColumn(description, role, complain);
  const anchor = anchorColumn(meta, retain.anchor, complain);
  const recordId = column('recordId');
  const uniqueAcrossPartitions = annotations.roles.some((each) => each.role === 'recordId' && each.acrossPartitions);
  if (recordId) checkRecordId(meta, recordId, uniqueAcrossPartitions, complain);
  const tenant = column('tenant');
  checkTenant(annotations, tenant, complain);
  const entry = {
    entityClass: meta.class,
    entityName: meta.className,
    category: retain.category,
    auditRowDetail: retain.auditRowDetail,
    schema: meta.schema ?? description.defaultSchema,
    table: meta.tableName,
    partitioned: false,
    uniqueAcrossPartitions,
    tenant,
    softDeleteFlag: column('softDelete'),
    deletedAt: column('deletedAt'),
    anonymisedAt: column('anonymisedAt'),
    scrubs: scrubsOf(meta, annotations, complain),
    subjects: subjectsOf(meta, annotations, complain),
  };
  for (const marker of [entry.deletedAt, entry.anonymisedAt]) if (marker) checkTimestamp(marker, complain);
  if (entry.anonymisedAt && !entry.anonymisedAt.nullable) {
    complain(`'${entry.anonymisedAt.property}' must be nullable: NULL means "not anonymised yet".`);
  }
  checkOverlap({ ...entry, anchor, recordId }, complain);
  if (problems.length > before || !anchor || !recordId || !entityId) return undefined;
  return Object.freeze({ ...entry, entityId, anchor, recordId });
}

function checkShape(meta: EntityMetadata, complain: (problem: string) => void): void {
  if (meta.virtual || meta.view || !meta.tableName) complain('has no table of its own.');
  if (meta.schema === '*') complain('has a table in many schemas; retain an entity with one, and one Cohort a schema.');
  // Classes that only share a base class have tables of their own, without rows of others in them.
  if (meta.root.discriminatorColumn || meta.root.inheritanceType || meta.inheritanceType) {
    complain('takes part in an inheritance hierarchy; retention would reach rows of other types.');
  }
}

/** What to do about a role that every entity needs and this one lacks. */
const MISSING: Readonly<Partial<Record<PropertyRole, (name: string) => string>>> = {
  recordId: (name) => `has no record id: mark one property with ${MARKERS.recordId}, or name it '${name}'.`,
  tenant: (name) =>
    `has no tenant: mark a property with ${MARKERS.tenant}, name it '${name}', or mark the class @RetentionTenantless.`,
};

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
  if (!property && marked.length === 0) {
    const missing = role === 'tenant' && annotations.tenantless ? undefined : MISSING[role];
    if (missing) complain(missing(name));
    return null;
  }
  const column = property && toColumn(property);
  if (!column) complain(`'${name}' (${MARKERS[role]} or its default name) is not mapped to one column of the table.`);
  else if (role !== 'recordId') checkConverter(property, complain);
  return column ?? null;
}

function checkConverter(property: EntityProperty, complain: (problem: string) => void): void {
  if (!property.customType || isPlainType(property)) return;
  complain(
    `'${property.name}' has a custom type; Cohort compares and writes this column in SQL, so it must be stored as it is.`,
  );
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
  checkConverter(property, complain);
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
  /^(timestamp|timestamptz|date|time|timetz|interval|real|float|float4|float8|double precision|money|bytea)\b/i;

function checkRecordId(
  meta: EntityMetadata,
  column: RetainedColumn,
  acrossPartitions: boolean,
  complain: (problem: string) => void,
): void {
  if (column.nullable) complain(`record id '${column.property}' is nullable; a hold needs an id on every row.`);
  if (!acrossPartitions && !isUniqueByItself(meta, column.property)) {
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
  complain: (problem: string) => void,
): void {
  if (annotations.tenantless && tenant) {
    complain(`is marked @RetentionTenantless and has the tenant property '${tenant.property}'; keep one.`);
  } else if (tenant?.nullable) {
    complain(`tenant '${tenant.property}' is nullable; rows without a tenant would never be swept.`);
  } else if (tenant && !isTenantType(tenant.type)) {
    complain(`tenant '${tenant.property}' is ${tenant.type}; wanted: uuid, a text or an integer.`);
  }
}

function scrubsOf(meta: EntityMetadata, annotations: Annotations, complain: (problem: string) => void): ColumnScrub[] {
  const seen = new Set<string>();
  return [...annotations.scrubs, ...embeddedScrubs(meta, annotations, complain)].flatMap((scrub): ColumnScrub[] => {
    const property = propertyNamed(meta, scrub.property);
    const column = property && toColumn(property);
    if (!column) {
      complain(`'${scrub.property}' is marked for anonymising, but not mapped to one column of the table.`);
      return [];
    }
    if (seen.has(column.name)) complain(`'${scrub.property}' is marked for anonymising twice; keep one.`);
    seen.add(column.name);
    return [
      'factory' in scrub
        ? factoryScrub(property, column, scrub.factory, complain)
        : literalScrub(property, column, scrub, complain),
    ];
  });
}

function subjectsOf(
  meta: EntityMetadata,
  annotations: Annotations,
  complain: (problem: string) => void,
): SubjectColumn[] {
  const seen = new Set<string>();
  return [...annotations.subjects]
    .sort((a, b) => (a.property < b.property ? -1 : 1))
    .flatMap(({ property: name, kind, normalise }): SubjectColumn[] => {
      const property = propertyNamed(meta, name);
      const column = property && toColumn(property);
      if (!column) complain(`'${name}' is marked @ErasureSubject, but not mapped to one column of the table.`);
      if (seen.has(name)) complain(`'${name}' is marked @ErasureSubject twice; a property has one kind.`);
      seen.add(name);
      if (!column) return [];
      if (normalise && !isText(column.type))
        complain(`'${name}' is an erasure subject in lower case, but its type is ${column.type}; wanted: a text.`);
      if (property!.hasConvertToDatabaseValueSQL || property!.hasConvertToJSValueSQL)
        complain(
          `'${name}' is an erasure subject with a custom type that converts in SQL, which a subject does not pass.`,
        );
      return [{ kind, column, foldCase: normalise === 'lowercase', toStored: storing(property!) }];
    });
}

/** A property of the entity, or one of an embeddable that is stored in columns: 'address.street'. */
function propertyNamed(meta: EntityMetadata, name: string): EntityProperty | undefined {
  return (
    (meta.properties[name as never] as EntityProperty | undefined) ??
    propertiesOf(meta).find((each) => each.embedded && pathOf(meta, each) === name)
  );
}

function propertiesOf(meta: EntityMetadata): EntityProperty[] {
  return Object.values(meta.properties);
}

function pathOf(meta: EntityMetadata, property: EntityProperty): string {
  if (!property.embedded) return property.name;
  const [owner, name] = property.embedded;
  return `${pathOf(meta, meta.properties[owner as never]!)}.${name}`;
}

/** What an embeddable's own class says of its properties. Inside of JSON nothing can be scrubbed but the whole. */
function embeddedScrubs(meta: EntityMetadata, annotations: Annotations, complain: (problem: string) => void): Scrub[] {
  return propertiesOf(meta).flatMap((property): Scrub[] => {
    if (!property.embedded) return [];
    const owner: EntityProperty = meta.properties[property.embedded[0] as never]!;
    const marks = readAnnotations(owner.embeddable)?.scrubs.filter((scrub) => scrub.property === property.embedded![1]);
    if (!marks?.length) return [];
    const path = pathOf(meta, property);
    if (property.persist !== false) return marks.map((scrub) => ({ ...scrub, property: path }));
    let stored = property;
    while (stored.embedded && stored.persist === false) stored = meta.properties[stored.embedded[0] as never]!;
    const whole = pathOf(meta, stored);
    if (!annotations.scrubs.some((scrub) => scrub.property === whole)) {
      complain(`'${path}' is marked for anonymising, but stored inside of JSON; mark '${whole}' as a whole.`);
    }
    return [];
  });
}

/** The property's own converter to what the database stores. */
function storing({ customType }: EntityProperty): (value: unknown) => unknown {
  return (value) =>
    value === null || !customType?.platform
      ? value
      : (customType.convertToDatabaseValue(value, customType.platform) as unknown);
}

function factoryScrub(
  property: EntityProperty,
  column: RetainedColumn,
  factory: FactoryScrub['factory'],
  complain: (problem: string) => void,
): FactoryScrub {
  const { customType, name } = property;
  if (property.hasConvertToDatabaseValueSQL || property.hasConvertToJSValueSQL) {
    complain(`'${name}' has a custom type that converts in SQL, which the value of a factory does not pass.`);
  }
  return {
    column,
    factory,
    toStored: storing(property),
    fromStored: (stored) => {
      if (stored === null) return null;
      if (customType?.platform) return customType.convertToJSValue(stored, customType.platform) as unknown;
      return property.runtimeType === 'Date' ? new Date(stored as string) : stored;
    },
  };
}

function literalScrub(
  property: EntityProperty,
  column: RetainedColumn,
  { method, literal }: Extract<Scrub, { method: unknown }>,
  complain: (problem: string) => void,
): LiteralScrub {
  if (method === 'null') {
    if (!column.nullable) complain(`'${property.name}' is anonymised to NULL, but not nullable.`);
    return { column, method, literal: undefined };
  }
  if (property.runtimeType !== 'string') {
    complain(`'${property.name}' is anonymised to a text, but its type is ${property.runtimeType}.`);
  }
  return { column, method, literal: storedText(property, literal ?? '', complain) };
}

/** What the application itself would store for a text: a converter of the property has its say, or nobody could read it. */
function storedText(property: EntityProperty, text: string, complain: (problem: string) => void): string {
  const { customType } = property;
  if (!customType?.platform) return text;
  let stored: unknown;
  try {
    stored = customType.convertToDatabaseValue(text, customType.platform);
  } catch {
    stored = undefined;
  }
  if (typeof stored === 'string' && !property.hasConvertToDatabaseValueSQL) return stored;
  complain(`'${property.name}' has a custom type that does not store '${text}' as a text; anonymise it to NULL.`);
  return text;
}

function checkOverlap(
  entry: Omit<RetentionEntry, 'entityId' | 'anchor' | 'recordId'> & {
    readonly anchor: RetainedColumn | undefined;
    readonly recordId: RetainedColumn | null;
  },
  complain: (problem: string) => void,
): void {
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

function toColumn(property: EntityProperty): RetainedColumn | undefined {
  const name = property.fieldNames?.[0];
  const type = property.columnTypes?.[0];
  const inColumns = property.kind === ReferenceKind.EMBEDDED && !property.object;
  if (property.persist === false || inColumns || property.fieldNames?.length !== 1 || !name || !type) return undefined;
  return { property: property.name, name, type, cast: type, nullable: property.nullable === true };
}

/** MikroORM's own types for scalars: they only change the JavaScript side, never what is stored. A host's may share a name. */
const PLAIN_TYPES: ReadonlySet<unknown> = new Set([
  ...[types.uuid, types.string, types.text, types.character, types.enum, types.boolean],
  ...[types.bigint, types.integer, types.smallint, types.mediumint, types.tinyint, types.decimal],
  ...[types.datetime, types.date, types.time],
]);

function isPlainType({ customType }: EntityProperty): boolean {
  return PLAIN_TYPES.has(customType?.constructor);
}
