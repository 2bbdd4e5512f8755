import type { AnonymiseFactoryClass } from '../domain/anonymise-factory.js';
import type { AuditRowDetail, AnonymiseMethod } from '../domain/strategy.js';

/** A mapped column: as the ORM model has it while start-up checks the model, then as it is installed. */
export interface RetainedColumn {
  readonly property: string;
  readonly name: string;
  /** Installed: through domains, without schema or length, such as 'bigint' or 'citext'. */
  readonly type: string;
  /** The type for a cast of a parameter: SQL, qualified, without length. */
  readonly cast: string;
  readonly nullable: boolean;
}

/** How a column reads after anonymising. */
export type ColumnScrub = LiteralScrub | FactoryScrub;

export interface LiteralScrub {
  readonly column: RetainedColumn;
  readonly method: AnonymiseMethod;
  /** As it is stored: a converter of the property has been applied. Undefined for NULL. */
  readonly literal: string | undefined;
}

export interface FactoryScrub {
  readonly column: RetainedColumn;
  readonly factory: AnonymiseFactoryClass;
  /** What the application's value is stored as, by the property's own converter. */
  readonly toStored: (value: unknown) => unknown;
  /** The application's value of what the driver read. */
  readonly fromStored: (stored: unknown) => unknown;
}

/** A column that identifies the person a row is about, by one kind of identifier. */
export interface SubjectColumn {
  readonly kind: string;
  readonly column: RetainedColumn;
  /** Whether upper and lower case are the same. */
  readonly foldCase: boolean;
  /** What the application's value is stored as, by the property's own converter. */
  readonly toStored: (value: unknown) => unknown;
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
  /** Installed: whether its rows lie in partitions. */
  readonly partitioned: boolean;
  readonly recordId: RetainedColumn;
  /** Whether the id is unique by itself only in what the host says; its key has the partition columns beside it. */
  readonly uniqueAcrossPartitions: boolean;
  /** Null: the entity is tenantless. */
  readonly tenant: RetainedColumn | null;
  readonly anchor: RetainedColumn;
  readonly softDeleteFlag: RetainedColumn | null;
  readonly deletedAt: RetainedColumn | null;
  readonly anonymisedAt: RetainedColumn | null;
  readonly scrubs: readonly ColumnScrub[];
  /** Columns that identify a person, in order of their properties. */
  readonly subjects: readonly SubjectColumn[];
}

/** `schema.table`, for messages. */
export function tableName(entry: RetentionEntry): string {
  return `${entry.schema}.${entry.table}`;
}
