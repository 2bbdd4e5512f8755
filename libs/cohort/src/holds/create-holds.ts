import { RetentionHoldError } from '../cohort.errors.js';
import { TENANTLESS } from '../domain/tenant-context.js';
import { baseType, fitsType } from '../registry/column-type.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { gateKey, lockKeys, recordKey, setLockTimeout } from '../sql/hold-locks.js';
import { type HoldRow, insertHolds, lockTargets } from '../sql/holds.js';
import type { Executor } from '../sql/transaction.js';
import type { HoldRequest } from './hold-request.js';

/** Longest wait for the gate, which a caller's open transaction may keep closed. */
const GATE_TIMEOUT = '2s';

export interface ResolvedHold {
  readonly request: HoldRequest;
  readonly entry: RetentionEntry;
}

/**
 * Stores holds: all rows first, then all record keys, then all gates, each in one order for every caller, so that no two
 * calls can deadlock. A batch that has one of the rows is waited for; afterwards the row is there to be held, or gone,
 * and then this fails loudly.
 */
export async function createHolds(
  tx: Executor,
  cohortSchema: string,
  holds: readonly ResolvedHold[],
  rowTimeoutMs: number,
): Promise<void> {
  const callersTimeout = await setLockTimeout(tx, `${rowTimeoutMs}ms`);
  const rows = await lockRows(tx, holds);
  await lockKeys(
    tx,
    rows.map((row) => recordKey(row.entityId, row.recordId, row.tenantId)),
  );
  await setLockTimeout(tx, GATE_TIMEOUT);
  await lockKeys(
    tx,
    [...new Set(rows.map((row) => row.entityId))].map((entityId) => gateKey(cohortSchema, entityId)),
  );
  const stored = await insertHolds(tx, cohortSchema, rows);
  if (stored < rows.length) {
    throw new RetentionHoldError(
      'hold-not-stored',
      `The database stored ${stored} of ${rows.length} holds; none is in force. Remove the trigger or rule on ${cohortSchema}.retention_holds that swallows them.`,
    );
  }
  await setLockTimeout(tx, callersTimeout);
}

async function lockRows(tx: Executor, holds: readonly ResolvedHold[]): Promise<HoldRow[]> {
  const byEntity = [...Map.groupBy(holds, (hold) => hold.entry)].sort(([a], [b]) => (a.entityId < b.entityId ? -1 : 1));
  const rows: HoldRow[] = [];
  for (const [entry, group] of byEntity) {
    group.forEach(({ request }) => requireIdOfType(entry, request.recordId));
    const found = await lockTargets(
      tx,
      entry,
      group.map(({ request }) => request.recordId),
      'share',
    );
    const byRequest = new Map(found.map((target) => [target.ord - 1, target]));
    group.forEach(({ request }, index) => {
      const target = byRequest.get(index);
      if (!target) {
        throw new RetentionHoldError(
          'hold-record-missing',
          `There is no ${entry.entityName} '${request.recordId}' to hold; it does not exist, or it is gone since.`,
        );
      }
      requireSameTenant(entry, request, target.tenantId);
      rows.push({
        holdId: request.holdId,
        entityId: entry.entityId,
        recordId: target.recordId,
        tenantId: target.tenantId,
        reason: request.reason,
        createdAt: request.createdAt ?? null,
        expiresAt: request.expiresAt ?? null,
      });
    });
  }
  return rows;
}

/** Tenanted entities need their row's tenant, tenantless ones TENANTLESS. */
export function requireTenantKind(entry: RetentionEntry, request: Pick<HoldRequest, 'tenant'>): void {
  if ((request.tenant === TENANTLESS) === (entry.tenant === null)) return;
  throw new RetentionHoldError(
    'hold-tenant-mismatch',
    entry.tenant
      ? `${entry.entityName} belongs to tenants; name the row's tenant instead of TENANTLESS.`
      : `${entry.entityName} is tenantless; pass TENANTLESS instead of tenant '${request.tenant.id}'.`,
  );
}

/** A row belongs to the tenant that was named for it. */
export function requireSameTenant(
  entry: RetentionEntry,
  request: Pick<HoldRequest, 'recordId' | 'tenant'>,
  tenantId: string | null,
): void {
  if (entry.tenant === null || tenantId?.toLowerCase() === request.tenant.id.toLowerCase()) return;
  throw new RetentionHoldError(
    'hold-tenant-mismatch',
    `${entry.entityName} '${request.recordId}' does not belong to tenant '${request.tenant.id}'; name the tenant of the row.`,
  );
}

/** A UUID in any spelling that PostgreSQL takes. */
const LOOSE_UUID = /^\{?[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}\}?$/i;

/** Found out here, the id can be named; in the database one bad id fails the whole list. */
export function requireIdOfType(entry: RetentionEntry, recordId: string): void {
  const { type } = entry.recordId;
  if (fitsType(type, recordId) || (baseType(type) === 'uuid' && LOOSE_UUID.test(recordId))) return;
  throw new RetentionHoldError(
    'hold-record-id-invalid',
    `'${recordId}' is not an id of ${entry.entityName}, whose key is ${type}.`,
  );
}
