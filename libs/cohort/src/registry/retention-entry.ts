import type { AuditRowDetail, AnonymiseMethod } from '../domain/strategy.js';

/** A mapped column. `type` is the store type as the ORM model has it, without schema of its own. */
export interface RetainedColumn {
  readonly property: string;
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
}

/** How a column reads after anonymising. */
export interface ColumnScrub {
  readonly column: RetainedColumn;
  readonly method: AnonymiseMethod;
  /** As it is stored: a converter of the property has been applied. Undefined for NULL. */
  readonly literal: string | undefined;
}

/** All that the engine needs to know of one retained entity. Physical names come from the ORM model alone. */
export interface RetentionEntry {
  readonly entityClass: object;
  /** Class name: a label for people. */
  readonly entityName: string;
  /** The durable identity. */
  readonly entityId: string;
  readonly category: string;
  readonly auditRowDetail: AuditRowDetail;
  readonly schema: string;
  readonly table: string;
  readonly recordId: RetainedColumn;
  /** Null: the entity is tenantless. */
  readonly tenant: RetainedColumn | null;
  readonly anchor: RetainedColumn;
  readonly softDeleteFlag: RetainedColumn | null;
  readonly deletedAt: RetainedColumn | null;
  readonly anonymisedAt: RetainedColumn | null;
  readonly scrubs: readonly ColumnScrub[];
}

/** `schema.table`, for messages. */
export function tableName(entry: RetentionEntry): string {
  return `${entry.schema}.${entry.table}`;
}
