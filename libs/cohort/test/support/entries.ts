import type { RetainedColumn, RetentionEntry } from '../../src/registry/retention-entry.js';
import type { TableFacts } from '../../src/engine/table-facts.js';
import type { ForeignKey } from '../../src/sql/foreign-keys.js';

export const column = (property: string, type: string, nullable = false): RetainedColumn => ({
  property,
  name: property,
  type,
  cast: `pg_catalog.${type}`,
  nullable,
});

/** An entry as the registry would describe it: a tenanted entity that can be purged. */
export function anEntry(entityName: string, change: Partial<RetentionEntry> = {}): RetentionEntry {
  return {
    entityClass: class {},
    entityName,
    entityId: 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8',
    category: 'notes',
    auditRowDetail: 'inherit',
    schema: 'public',
    table: entityName.toLowerCase(),
    partitioned: false,
    recordId: column('id', 'uuid'),
    uniqueAcrossPartitions: false,
    tenant: column('tenantId', 'text'),
    anchor: column('createdAt', 'timestamptz'),
    softDeleteFlag: null,
    deletedAt: null,
    anonymisedAt: null,
    scrubs: [],
    subjects: [],
    ...change,
  };
}

/** A key from `child_table` to a retained table, as the catalog would have it. */
export function aForeignKey(constraint: string, change: Partial<ForeignKey> = {}): ForeignKey {
  return {
    constraint,
    action: 'noAction',
    updateAction: 'noAction',
    childPlain: true,
    lockable: true,
    childSchema: 'public',
    childTable: 'child_table',
    childColumns: ['parent_id'],
    parentColumns: ['id'],
    parentSources: [],
    comparisons: ['operator(pg_catalog.=)'],
    readable: true,
    childIndexed: true,
    child: undefined,
    ...change,
  };
}

/** Facts about a table whose rows the given keys keep. */
export function factsFor(
  entry: RetentionEntry,
  dependents: readonly RetentionEntry[] = [],
  keys: readonly ForeignKey[] = [],
): TableFacts {
  return {
    entry,
    dependents,
    blocking: keys.map((key) => [key]),
    oneLane: false,
    isServed: () => false,
    hasTriggers: false,
    knownKeys: { tables: [], keys: [] },
    problems: [],
  };
}
