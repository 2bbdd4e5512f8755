import { randomUUID } from 'node:crypto';
import { EntitySchema } from '@mikro-orm/core';
import { type RetainOptionsOf, retain } from 'nestjs-cohort';

type Property = Record<string, unknown>;

export const uuidKey: Property = { type: 'uuid', primary: true };
export const text: Property = { type: 'text' };
export const date: Property = { type: 'Date', columnType: 'timestamptz' };
export const dateOrNull: Property = { ...date, nullable: true };
export const textOrNull: Property = { type: 'text', nullable: true };
export const flag: Property = { type: 'boolean' };

export interface Model {
  readonly name?: string;
  readonly table?: string;
  /** Added to `id`, `tenantId` and `createdAt`, or in their place; null leaves one out. */
  readonly properties?: Readonly<Record<string, Property | null>>;
  /** Changes what `retain()` is told; null: the entity is not retained at all. */
  readonly retain?: Readonly<Record<string, unknown>> | null;
  /** More for the EntitySchema. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** An entity that may be purged, category 'notes', under the default names; a test says what is different about it. */
export function model(input: Model = {}): EntitySchema {
  const properties = { id: uuidKey, tenantId: text, createdAt: date, ...input.properties };
  const schema = new EntitySchema({
    name: input.name ?? 'Note',
    tableName: input.table ?? (input.name ?? 'Note').toLowerCase(),
    // Copied: the ORM writes into what it is given.
    properties: Object.fromEntries(
      Object.entries(properties).flatMap(([name, property]) => (property === null ? [] : [[name, { ...property }]])),
    ),
    ...input.meta,
  } as never);
  if (input.retain !== null) {
    retain(schema, {
      category: 'notes',
      anchor: 'createdAt',
      entityId: randomUUID(),
      ...input.retain,
    } as RetainOptionsOf<object>);
  }
  return schema;
}

/** `model()` with all that soft deletion needs. */
export const softDeletable = (input: Model = {}): EntitySchema =>
  model({ ...input, properties: { isDeleted: flag, deletedAt: dateOrNull, ...input.properties } });

/** `model()` with all that anonymising needs. */
export const anonymisable = (input: Model = {}): EntitySchema =>
  model({
    ...input,
    properties: { anonymisedAt: dateOrNull, email: textOrNull, ...input.properties },
    retain: { anonymise: { email: 'null' }, ...input.retain },
  });
