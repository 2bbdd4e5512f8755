import { type EntityMetadata, EntitySchema, type MetadataStorage } from '@mikro-orm/core';
import { RetentionHoldError, describeValue } from '../cohort.errors.js';
import type { TenantContext } from '../domain/tenant-context.js';
import { readAnnotations, retainedBases } from '../decorators/annotation-store.js';
import { COHORT_TABLES, entityName } from '../schema/cohort-entities.js';
import { baseType, canonicalText } from './column-type.js';
import { type ConventionNames, describeEntry } from './describe-entry.js';
import { type RetentionEntry, tableName } from './retention-entry.js';

/** What the registry reads of a MikroORM instance. */
export interface OrmModel {
  getMetadata(): Pick<MetadataStorage, 'getAll'>;
  readonly config: { get(key: 'entities'): readonly unknown[]; get(key: 'schema'): string | undefined };
}

/** Every retained entity of one ORM model, in order of its name, and the schema of Cohort's own tables. */
export interface RetentionRegistry {
  readonly entries: readonly RetentionEntry[];
  readonly cohortSchema: string;
  find(entity: object | string): RetentionEntry | undefined;
}

/** Scans the model once. Every problem of every entity is added to `problems`; entities that have one are left out. */
export function buildRegistry(orm: OrmModel, conventions: ConventionNames, problems: string[]): RetentionRegistry {
  const model = [...orm.getMetadata().getAll().values()] as EntityMetadata[];
  const schemas = schemasByClass(orm.config.get('entities'));
  const defaultSchema = orm.config.get('schema') ?? 'public';

  const entries = model
    .flatMap((meta) => {
      const annotations = readAnnotations(meta.class, schemas.get(meta.class));
      return annotations ? (describeEntry({ meta, annotations, conventions, defaultSchema, problems }) ?? []) : [];
    })
    .sort((a, b) => (a.entityName < b.entityName ? -1 : 1));

  problems.push(
    ...unmarkedHeirs(model, schemas),
    ...sharedIdentities(entries),
    ...sharedTables(entries, model, defaultSchema),
    ...mixedSubjects(entries),
  );
  const cohortSchema = schemaOfCohortTables(model, defaultSchema, problems);
  return Object.freeze({ entries: Object.freeze(entries), cohortSchema, find: finder(entries, schemas) });
}

/** The registry with every entry replaced by the one in its place. */
export function withEntries(registry: RetentionRegistry, entries: readonly RetentionEntry[]): RetentionRegistry {
  const find = (entity: object | string) => {
    const entry = registry.find(entity);
    return entry && entries[registry.entries.indexOf(entry)];
  };
  return Object.freeze({ ...registry, entries: Object.freeze(entries), find });
}

/** The entry of a class, an EntitySchema or an entity id, for calls that name one. */
export function requireEntry(registry: RetentionRegistry, entity: object | string): RetentionEntry {
  const entry = registry.find(entity);
  if (entry) return entry;
  throw new RetentionHoldError(
    'hold-unknown-entity',
    `${describeValue(entity)} is not a retained entity of this model; wanted one of: ${registry.entries
      .map((each) => `${each.entityName} (${each.entityId})`)
      .join(', ')}.`,
  );
}

/**
 * A tenant's id as the database spells it, for comparing and for the ledger: two spellings of one UUID or integer are one
 * tenant where every tenant column is of that type, and two where one of them is a text.
 */
export function tenantIdOf({ entries }: Pick<RetentionRegistry, 'entries'>, tenant: TenantContext): string {
  const spellings = new Set(
    entries.flatMap((entry) => (entry.tenant ? canonicalText(entry.tenant.type, tenant.id) : [])),
  );
  const [only] = spellings;
  return spellings.size === 1 ? only! : tenant.id;
}

function finder(entries: readonly RetentionEntry[], schemas: ReadonlyMap<unknown, object>): RetentionRegistry['find'] {
  const known = new Map<object | string, RetentionEntry>();
  for (const entry of entries) {
    known.set(entry.entityId, entry).set(entry.entityClass, entry);
    const schema = schemas.get(entry.entityClass);
    if (schema) known.set(schema, entry);
  }
  return (entity) => known.get(typeof entity === 'string' ? entity.toLowerCase() : entity);
}

function schemasByClass(entities: readonly unknown[]): Map<unknown, object> {
  return new Map(
    entities.filter((entity) => EntitySchema.is(entity)).map((schema) => [schema.meta.class as unknown, schema]),
  );
}

/** A marker on a base class without a table would keep everything of its heirs, and nobody would notice. */
function unmarkedHeirs(model: readonly EntityMetadata[], schemas: ReadonlyMap<unknown, object>): string[] {
  const tables = new Set(model.filter((meta) => !meta.abstract).map((meta) => meta.class as unknown));
  return model.flatMap((meta) => {
    const own = readAnnotations(meta.class, schemas.get(meta.class));
    if (meta.abstract || own?.retain || own?.exempt) return [];
    const base = retainedBases(meta.class).find((each) => !tables.has(each));
    return base
      ? [
          `${meta.className}: its base ${base.name} carries @Retain, which is not inherited; mark ${meta.className} itself, or @ExemptFromRetention.`,
        ]
      : [];
  });
}

function sharedIdentities(entries: readonly RetentionEntry[]): string[] {
  const owners = new Map<string, RetentionEntry>();
  return entries.flatMap((entry) => {
    const owner = owners.get(entry.entityId);
    owners.set(entry.entityId, owner ?? entry);
    return owner
      ? [
          `${entry.entityName}: @RetentionEntityId ${entry.entityId} belongs to ${owner.entityName} already; give it one of its own.`,
        ]
      : [];
  });
}

/** One subject is compared with every column of its kind: as a number here and a text there it would miss rows. */
function mixedSubjects(entries: readonly RetentionEntry[]): string[] {
  const subjects = entries.flatMap((entry) => entry.subjects.map((subject) => ({ entry, ...subject })));
  return [...Map.groupBy(subjects, (subject) => subject.kind)].flatMap(([kind, columns]) => {
    const types = new Set(columns.map(({ column }) => baseType(column.type)));
    if (types.size === 1) return [];
    const seen = columns.map(({ entry, column }) => `${entry.entityName}.${column.property} is ${column.type}`);
    return [
      `Columns of erasure subject '${kind}' differ in type (${seen.join(', ')}); give them one, or kinds of their own.`,
    ];
  });
}

function sharedTables(
  entries: readonly RetentionEntry[],
  model: readonly EntityMetadata[],
  defaultSchema: string,
): string[] {
  return entries.flatMap((entry) =>
    model
      .filter(
        (meta) =>
          meta.class !== entry.entityClass &&
          meta.tableName === entry.table &&
          (meta.schema ?? defaultSchema) === entry.schema,
      )
      .map(
        (meta) =>
          `${entry.entityName}: table ${tableName(entry)} is mapped by ${meta.className} too; a retained entity needs a table of its own.`,
      ),
  );
}

function schemaOfCohortTables(model: readonly EntityMetadata[], defaultSchema: string, problems: string[]): string {
  const roles = Object.keys(COHORT_TABLES) as (keyof typeof COHORT_TABLES)[];
  const found = roles.flatMap((role) => model.find((meta) => meta.className === entityName(role)) ?? []);
  const schemas = [...new Set(found.map((meta) => meta.schema ?? defaultSchema))];
  if (found.length < roles.length || schemas.length > 1) {
    problems.push(
      `Cohort's tables are not in the ORM model as a whole (${found.length} of ${roles.length}, schemas: ${schemas.join(', ') || 'none'}): add ...cohortEntities({ schema }) to the entities of the MikroORM configuration, once.`,
    );
  }
  const names = new Set<string>(Object.values(COHORT_TABLES));
  for (const meta of model) {
    const taken = names.has(meta.tableName) && schemas.includes(meta.schema ?? defaultSchema);
    if (taken && !found.includes(meta))
      problems.push(
        `${meta.className} is mapped to ${meta.schema ?? defaultSchema}.${meta.tableName}, which is Cohort's own; read it by RetentionLedger and RetentionHolds.`,
      );
  }
  return schemas[0] ?? defaultSchema;
}
