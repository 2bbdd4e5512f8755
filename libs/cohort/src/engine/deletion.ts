import { IsolationLevel, TransactionPropagation } from '@mikro-orm/core';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { DryRunOnlyError, RunLostError } from '../cohort.errors.js';
import { Strategy } from '../domain/strategy.js';
import type { TenantContext } from '../domain/tenant-context.js';
import type { RetentionEntry } from '../registry/retention-entry.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import { lockKeys, recordKey, setLockTimeout } from '../sql/hold-locks.js';
import { type RowReference, canonicalRecordId, lockTargets, selectHeld } from '../sql/holds.js';
import { appendProgress, writeSummaries } from '../sql/ledger.js';
import { type Executor, selectNow } from '../sql/transaction.js';
import { type EngineContext, inLedger } from './context.js';
import { type Pass, withPass } from './pass.js';
import { prepare } from './sweep.js';

/** A row that the host is about to delete. */
export interface ResolvedTarget {
  readonly entry: RetentionEntry;
  readonly recordId: string;
  readonly tenant: TenantContext;
}

export interface DeletionRequest {
  readonly targets: readonly ResolvedTarget[];
  readonly actor: string | null;
  readonly work: (em: SqlEntityManager) => Promise<void>;
  /** Refuses a row whose tenant is another one. */
  readonly requireTenant: (target: ResolvedTarget, tenantId: string | null) => void;
}

export type DeletionOutcome = 'executed' | 'protected';

/** A target and the tenant whose run it is booked under: one, however its id was spelt. */
interface BookedTarget extends ResolvedTarget {
  readonly tenantId: string;
}

/** One of the targets as the database knows it. */
interface LockedTarget extends RowReference {
  readonly entry: RetentionEntry;
  readonly tenantId: string;
  readonly key: string;
  readonly exists: boolean;
}

/**
 * Runs the host's own deletion in a transaction in which none of the targets can come under a hold, and only if none is.
 * The rows are locked first and then their record keys, in the order in which holds take them; holds are looked at in a
 * later statement, hence with a younger snapshot. What went is appended to the ledger in the same transaction.
 */
export async function deleteTargets(ctx: EngineContext, request: DeletionRequest): Promise<DeletionOutcome> {
  if (ctx.settings.dryRun) throw new DryRunOnlyError();
  await prepare(ctx);
  const targets = request.targets.map((each) => ({ ...each, tenantId: tenantIdOf(ctx.registry, each.tenant) }));
  const byTenant = new Map(targets.map(({ tenantId, tenant }) => [tenantId, tenant]));
  const now = await inLedger(ctx, selectNow);
  let outcome: DeletionOutcome = 'protected';
  await withPass(
    ctx,
    {
      trigger: 'deletion',
      dryRun: false,
      now,
      actor: request.actor,
      tenants: [...byTenant.values()],
      signal: undefined,
    },
    async (pass) => {
      await recordTargets(ctx, pass, targets, []);
      const held = await inHostTransaction(ctx, (em) => run(ctx, pass, { ...request, targets }, em));
      if (held.length === 0) outcome = 'executed';
      else await recordTargets(ctx, pass, targets, held);
    },
  );
  return outcome;
}

/** What the host's own code runs in: a new entity manager, in a transaction of its own. */
function inHostTransaction<T>(ctx: EngineContext, work: (em: SqlEntityManager) => Promise<T>): Promise<T> {
  return ctx.orm.em.fork().transactional((em) => work(em as unknown as SqlEntityManager), {
    isolationLevel: IsolationLevel.READ_COMMITTED,
    propagation: TransactionPropagation.REQUIRES_NEW,
  });
}

interface BookedRequest extends DeletionRequest {
  readonly targets: readonly BookedTarget[];
}

/** Returns the targets that are held; then nothing was done. */
async function run(
  ctx: EngineContext,
  pass: Pass,
  request: BookedRequest,
  em: SqlEntityManager,
): Promise<LockedTarget[]> {
  const tx = em.getKysely() as unknown as Executor;
  const { cohortSchema } = ctx.registry;
  const callersTimeout = await setLockTimeout(tx, `${ctx.settings.batchTimeoutMs}ms`);
  const targets = await lockAll(tx, request);
  await setLockTimeout(tx, callersTimeout);
  const keys = new Set((await selectHeld(tx, cohortSchema, targets)).map(keyOf));
  const held = targets.filter((target) => keys.has(keyOf(target)));
  if (held.length > 0) return held;
  await request.work(em);
  await em.flush();
  const gone = await goneOf(tx, targets);
  const rows = [...Map.groupBy(gone, bookedUnder)].map(([, group]) => ({
    sweepId: runOf(pass, group[0]!.tenantId).sweepId,
    tenantId: group[0]!.tenantId,
    entityId: group[0]!.entityId,
    category: group[0]!.entry.category,
    strategy: Strategy.Purge,
    affected: group.length,
  }));
  if (!(await appendProgress(tx, cohortSchema, pass.fences[0]!, rows))) throw new RunLostError(pass.passId);
  return [];
}

const keyOf = ({ entityId, recordId }: RowReference) => `${entityId}:${recordId}`;
const bookedUnder = ({ entityId, tenantId }: LockedTarget) => `${entityId}:${tenantId}`;

function runOf(pass: Pass, tenantId: string) {
  return pass.runs.find((each) => each.tenantId === tenantId)!;
}

/** Rows by entity and id, then all record keys. A target named twice, in whatever spelling, is one. */
async function lockAll(tx: Executor, { targets, requireTenant }: BookedRequest): Promise<LockedTarget[]> {
  const locked = new Map<string, LockedTarget>();
  for (const [entry, group] of byEntity(targets)) {
    const ids = group.map((target) => target.recordId);
    const found = new Map((await lockTargets(tx, entry, ids, 'update')).map((row) => [row.ord - 1, row]));
    for (const [index, target] of group.entries()) {
      const row = found.get(index);
      if (row) requireTenant(target, row.tenantId);
      const recordId = row?.recordId ?? (await canonicalRecordId(tx, entry, target.recordId));
      const { entityId } = entry;
      // A hold goes by the row's own spelling of its tenant.
      const key = recordKey(entityId, recordId, entry.tenant ? (row?.tenantId ?? target.tenantId) : null);
      const one = { entry, tenantId: target.tenantId, entityId, recordId, key, exists: row !== undefined };
      locked.set(keyOf(one), one);
    }
  }
  const all = [...locked.values()];
  await lockKeys(
    tx,
    all.map(({ key }) => key),
  );
  return all;
}

function byEntity<T extends { readonly entry: RetentionEntry }>(targets: readonly T[]): [RetentionEntry, T[]][] {
  return [...Map.groupBy(targets, (target) => target.entry)].sort(([a], [b]) => (a.entityId < b.entityId ? -1 : 1));
}

/** Targets that were there and are not any more. */
async function goneOf(tx: Executor, targets: readonly LockedTarget[]): Promise<LockedTarget[]> {
  const gone: LockedTarget[] = [];
  for (const [entry, group] of byEntity(targets.filter((target) => target.exists))) {
    const ids = group.map((target) => target.recordId);
    const left = new Set((await lockTargets(tx, entry, ids, 'update')).map((row) => row.ord - 1));
    gone.push(...group.filter((_, index) => !left.has(index)));
  }
  return gone;
}

/** Summaries of the targets by entity and tenant: zeros at first, so that there is something to fold into. */
async function recordTargets(
  ctx: EngineContext,
  pass: Pass,
  targets: readonly BookedTarget[],
  held: readonly LockedTarget[],
): Promise<void> {
  for (const [entry, group] of byEntity(targets)) {
    const summaries = [...new Set(group.map(({ tenantId }) => tenantId))].map((tenantId) => ({
      sweepId: runOf(pass, tenantId).sweepId,
      tenantId,
      strategy: Strategy.Purge,
      cutoff: null,
      resolvedPeriod: 'P0D',
      period: 'P0D',
      legalMin: null,
      ruleSource: null,
      ruleReason: null,
      affected: 0,
      held: held.filter((each) => each.entry === entry && each.tenantId === tenantId).length,
      skipped: 0,
      nullAnchor: 0,
      skippedByCause: {},
    }));
    const fenced = await inLedger(ctx, (tx) =>
      writeSummaries(tx, ctx.registry.cohortSchema, pass.fences[0]!, entry, summaries),
    );
    if (!fenced) throw new RunLostError(pass.passId);
  }
}
