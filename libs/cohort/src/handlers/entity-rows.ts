import { type EntityMetadata, type EntityProperty, ReferenceKind } from '@mikro-orm/core';
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { ENTITY_ALIAS, type EntityColumn, type EntityRow } from '../sql/entity-rows.js';

/** Every column that the entity's own mapping reads. */
export function entityColumns(orm: MikroORM, entityClass: object): EntityColumn[] {
  const meta = orm.getMetadata().get(entityClass as never) as EntityMetadata;
  const { platform } = orm.em.getDriver() as unknown as { platform: never };
  const stored = (Object.values(meta.properties) as EntityProperty[]).filter(isStored);
  const columns = stored.flatMap((property) =>
    property.fieldNames.map((name): [string, EntityColumn] => {
      const quoted = `"${ENTITY_ALIAS}"."${name.replaceAll('"', '""')}"`;
      return [name, { name, expression: property.customType?.convertToJSValueSQL?.(quoted, platform) }];
    }),
  );
  return [...new Map(columns).values()];
}

function isStored(property: EntityProperty): boolean {
  const inColumns = property.kind === ReferenceKind.EMBEDDED && !property.object;
  return property.persist !== false && !property.formula && !inColumns && (property.fieldNames?.length ?? 0) > 0;
}

/** The row as an entity of the application. `em` belongs to one batch: nothing that is loaded here is tracked any longer. */
export function toEntity(em: EntityManager, entityClass: object, row: EntityRow): object {
  return em.map(entityClass as never, { ...row.columns } as never);
}
