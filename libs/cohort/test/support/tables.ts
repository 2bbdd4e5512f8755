import { type EntitySchema, defineEntity, p } from '@mikro-orm/core';
import { type Strategy, retain } from 'nestjs-cohort';
import type { Host } from './host.js';
import { LONG_AGO } from './seed.js';
import { daysBefore } from './notes.js';

let next = 0x10;

/**
 * A retained table as plain as can be: id int, tenant_id, created_at, and a column `parent_id` to hang keys on.
 * The entity class is new in every call, so that tests do not share annotations.
 */
export function retainedTable(name: string): EntitySchema {
  const schema = defineEntity({
    name,
    tableName: name.toLowerCase(),
    properties: {
      id: p.integer().primary().autoincrement(false),
      tenantId: p.text(),
      createdAt: p.datetime().nullable(),
      parentId: p.integer().nullable(),
      note: p.text().nullable(),
      anonymisedAt: p.datetime().nullable(),
      isDeleted: p.boolean().default(false),
    },
  });
  retain(schema, {
    category: name.toLowerCase(),
    anchor: 'createdAt',
    entityId: `00000000-0000-4000-8000-0000000000${(next++).toString(16)}`,
    anonymise: { note: 'null' },
  });
  return schema as unknown as EntitySchema;
}

/** One rule for each of the tables, 30 days. */
export function rulesFor(strategy: Strategy, ...names: string[]) {
  return Object.fromEntries(names.map((name) => [name.toLowerCase(), { period: 'P30D', strategy }]));
}

interface Row {
  readonly id: number;
  readonly parent?: number | null;
  readonly days?: number | null;
  readonly tenant?: string;
}

export async function addRows(host: Host, table: string, rows: readonly Row[]): Promise<void> {
  await host.query(
    `insert into ${table}(id, tenant_id, created_at, parent_id, note)
     select i.id, i.tenant, i.at, i.parent, 'personal' from unnest($1::int[], $2::text[], $3::timestamptz[], $4::int[]) as i(id, tenant, at, parent)`,
    [
      rows.map((row) => row.id),
      rows.map((row) => row.tenant ?? 'acme'),
      rows.map(({ days = LONG_AGO }) => (days === null ? null : daysBefore(days).toISOString())),
      rows.map((row) => row.parent ?? null),
    ],
  );
}

export async function idsOf(host: Host, table: string): Promise<number[]> {
  return (await host.query<{ id: number }>(`select id from ${table} order by id`)).map((row) => row.id);
}
