import { sql } from 'kysely';
import type { RetentionEntry } from '../registry/retention-entry.js';
import {
  type Fragment,
  castType,
  cohortTable,
  columnOf,
  eq,
  equality,
  fromMillis,
  millis,
  recordIdText,
  retainedTable,
} from './fragments.js';
import type { Executor } from './transaction.js';

/** Neither released nor expired. */
function isActive(alias: string): Fragment {
  const [removed, expires] = [sql.id(alias, 'removed_at'), sql.id(alias, 'expires_at')];
  return sql`(${removed} is null or ${removed} operator(pg_catalog.>) pg_catalog.statement_timestamp())
      and (${expires} is null or ${expires} operator(pg_catalog.>) pg_catalog.statement_timestamp())`;
}

/**
 * The one definition of "held": the record ids of an entity under an active hold. Matched without the tenant, since a
 * record id is unique by itself and a tenant could only lose protection. A hold that is visible protects whatever its
 * created_at says (the clock of a failed-over primary may have been ahead); expiry and release are judged by
 * statement_timestamp(), because now() stands still inside a transaction. Its operators are the catalog's: one of another
 * schema that came first in the search_path could say that nothing is held.
 */
export function heldRecords(cohortSchema: string, entityId: string): Fragment {
  return sql`select h.record_id
    from ${cohortTable(cohortSchema, 'holds')} as h
    where h.retention_entity_id ${eq} ${entityId}::pg_catalog.uuid
      and h.scope_kind ${eq} 'record'
      and ${isActive('h')}`;
}

/** True for a row of `alias` that an active hold covers. */
export function isHeld(cohortSchema: string, entry: RetentionEntry, alias: string): Fragment {
  return sql`exists (select 1 from (${heldRecords(cohortSchema, entry.entityId)}) as held where held.record_id ${eq} ${recordIdText(alias, entry)})`;
}

export interface LockedTarget {
  readonly ord: number;
  readonly recordId: string;
  readonly tenantId: string | null;
}

/**
 * The rows that somebody names, locked in the order of their ids; those that do not exist are left out. For a hold they
 * are locked against every mutation, FOR SHARE and not by a plain read: a row deleted since the caller's snapshot must
 * raise 40001 under repeatable read.
 */
export async function lockTargets(
  tx: Executor,
  entry: RetentionEntry,
  recordIds: readonly string[],
  strength: 'share' | 'update',
): Promise<LockedTarget[]> {
  const tenant = entry.tenant ? sql`${columnOf('t', entry.tenant)}::pg_catalog.text` : sql`null::pg_catalog.text`;
  const { rows } = await sql<{ ord: string; record_id: string; tenant_id: string | null }>`
    select i.ord, ${recordIdText('t', entry)} as record_id, ${tenant} as tenant_id
    from pg_catalog.unnest(${recordIds}::${castType(entry.recordId)}[]) with ordinality as i(id, ord)
    join ${retainedTable(entry)} as t on ${columnOf('t', entry.recordId)} ${equality(entry.recordId)} i.id
    order by ${columnOf('t', entry.recordId)}
    for ${strength === 'share' ? sql`share` : sql`update`} of t`.execute(tx);
  return rows.map((row) => ({ ord: Number(row.ord), recordId: row.record_id, tenantId: row.tenant_id }));
}

export interface HoldRow {
  readonly holdId: string;
  readonly entityId: string;
  readonly recordId: string;
  readonly tenantId: string | null;
  readonly reason: string;
  readonly createdAt: Date | null;
  readonly expiresAt: Date | null;
}

/**
 * created_at is the earlier of the requested instant and the database's: an application clock ahead opens no gap. In
 * milliseconds, since a Date of the same millisecond would otherwise ask as of before it. Returns how many were stored: a
 * trigger or a rule of the host's may swallow them.
 */
export async function insertHolds(tx: Executor, cohortSchema: string, holds: readonly HoldRow[]): Promise<number> {
  const { numAffectedRows } = await sql`
    insert into ${cohortTable(cohortSchema, 'holds')}
      (hold_id, scope_kind, retention_entity_id, record_id, tenant_id, reason, created_at, expires_at)
    select h.hold_id, 'record', h.entity_id, h.record_id, h.tenant_id, h.reason,
      pg_catalog.date_trunc('milliseconds', least(h.created_at, pg_catalog.statement_timestamp())), h.expires_at
    from pg_catalog.jsonb_to_recordset(${JSON.stringify(
      holds.map((hold) => ({
        hold_id: hold.holdId,
        entity_id: hold.entityId,
        record_id: hold.recordId,
        tenant_id: hold.tenantId,
        reason: hold.reason,
        created_at: hold.createdAt,
        expires_at: hold.expiresAt,
      })),
    )}::pg_catalog.jsonb) as h(hold_id pg_catalog.uuid, entity_id pg_catalog.uuid, record_id pg_catalog.text, tenant_id pg_catalog.text,
      reason pg_catalog.text, created_at pg_catalog.timestamptz, expires_at pg_catalog.timestamptz)`.execute(tx);
  return Number(numAffectedRows);
}

/** Stamps removed_at once. False: no such hold, or released before. */
export async function releaseHold(
  tx: Executor,
  cohortSchema: string,
  holdId: string,
  at: Date | null,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${cohortTable(cohortSchema, 'holds')}
    set removed_at = coalesce(${at?.toISOString() ?? null}::pg_catalog.timestamptz, pg_catalog.statement_timestamp())
    where hold_id ${eq} ${holdId}::pg_catalog.uuid and removed_at is null`.execute(tx);
  return numAffectedRows === 1n;
}

export interface StoredHold {
  readonly holdId: string;
  readonly entityId: string;
  readonly recordId: string;
  readonly tenantId: string | null;
  readonly reason: string;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly removedAt: Date | null;
}

export interface HoldFilter {
  readonly asOf: Date | null;
  readonly entityId?: string | undefined;
  readonly tenantId?: string | null | undefined;
  readonly recordId?: string | undefined;
}

/**
 * Holds active as of an instant: created at or before it, not yet expired or released at it. Without an instant the
 * database's own is taken, and a visible hold counts whatever its created_at says.
 */
export async function selectHolds(tx: Executor, cohortSchema: string, filter: HoldFilter): Promise<StoredHold[]> {
  const asOf = filter.asOf
    ? sql`${filter.asOf.toISOString()}::pg_catalog.timestamptz`
    : sql`pg_catalog.statement_timestamp()`;
  const { rows } = await sql<Record<string, string | null>>`
    select h.hold_id as "holdId", h.retention_entity_id as "entityId", h.record_id as "recordId", h.tenant_id as "tenantId",
      h.reason, ${millis(sql`h.created_at`)} as "createdAt", ${millis(unlessInfinite('expires_at'))} as "expiresAt",
      ${millis(unlessInfinite('removed_at'))} as "removedAt"
    from ${cohortTable(cohortSchema, 'holds')} as h
    where h.scope_kind ${eq} 'record'
      ${filter.asOf ? sql`and h.created_at operator(pg_catalog.<=) ${asOf}` : sql``}
      and (h.removed_at is null or h.removed_at operator(pg_catalog.>) ${asOf})
      and (h.expires_at is null or h.expires_at operator(pg_catalog.>) ${asOf})
      ${filter.entityId === undefined ? sql`` : sql`and h.retention_entity_id ${eq} ${filter.entityId}::pg_catalog.uuid`}
      ${filter.tenantId === undefined ? sql`` : tenantIs(filter.tenantId)}
      ${filter.recordId === undefined ? sql`` : sql`and h.record_id ${eq} ${filter.recordId}`}
    order by h.retention_entity_id, h.record_id, h.hold_id`.execute(tx);
  return rows.map(
    (row) =>
      ({
        ...row,
        createdAt: fromMillis(row.createdAt),
        expiresAt: fromMillis(row.expiresAt),
        removedAt: fromMillis(row.removedAt),
      }) as StoredHold,
  );
}

/** A hold may be imported with 'infinity' for "never". */
function unlessInfinite(column: string): Fragment {
  const instant = sql.id('h', column);
  return sql`case when pg_catalog.isfinite(${instant}) then ${instant} end`;
}

/** A row by its entity and the database's spelling of its id. */
export interface RowReference {
  readonly entityId: string;
  readonly recordId: string;
}

/** Which of the rows are under an active hold. */
export async function selectHeld(
  tx: Executor,
  cohortSchema: string,
  rows: readonly RowReference[],
): Promise<RowReference[]> {
  const { rows: held } = await sql<RowReference>`
    select r.entity_id as "entityId", r.record_id as "recordId"
    from rows from (
      pg_catalog.unnest(${rows.map((row) => row.entityId)}::pg_catalog.uuid[]),
      pg_catalog.unnest(${rows.map((row) => row.recordId)}::pg_catalog.text[])
    ) as r(entity_id, record_id)
    where exists (
      select 1 from ${cohortTable(cohortSchema, 'holds')} as h
      where h.retention_entity_id ${eq} r.entity_id and h.record_id ${eq} r.record_id and h.scope_kind ${eq} 'record' and ${isActive('h')}
    )`.execute(tx);
  return held;
}

/** Scopes of active holds that this version does not know: it cannot tell which rows they cover. */
export async function selectUnknownScopes(tx: Executor, cohortSchema: string): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`
    select distinct h.scope_kind as scope from ${cohortTable(cohortSchema, 'holds')} as h
    where h.scope_kind operator(pg_catalog.<>) 'record'
      and ${isActive('h')}
    order by scope`.execute(tx);
  return rows.map((row) => row.scope);
}

function tenantIs(tenantId: string | null): Fragment {
  return tenantId === null ? sql`and h.tenant_id is null` : sql`and h.tenant_id ${eq} ${tenantId}`;
}

/** The database's own spelling of a record id: that of the row, or of the text itself where there is no row. */
export async function canonicalRecordId(tx: Executor, entry: RetentionEntry, recordId: string): Promise<string> {
  const asked = sql`${recordId}::${castType(entry.recordId)}`;
  const { rows } = await sql<{ id: string }>`
    select coalesce(
      (select ${recordIdText('t', entry)} from ${retainedTable(entry)} as t where ${columnOf('t', entry.recordId)} ${equality(entry.recordId)} ${asked}),
      (${asked})::pg_catalog.text
    ) as id`.execute(tx);
  return rows[0]!.id;
}
