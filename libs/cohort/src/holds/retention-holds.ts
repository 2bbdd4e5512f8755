import { Injectable } from '@nestjs/common';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { InvalidArgumentError, RetentionHoldError } from '../cohort.errors.js';
import { requireOptions, requireText } from '../domain/arguments.js';
import { requireInstant } from '../domain/instant.js';
import { TENANTLESS, type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { isIdentity } from '../domain/uuid.js';
import { type EngineContext, inLedger } from '../engine/context.js';
import { sqlStateOf } from '../engine/failure.js';
import { requireEntry, tenantIdOf } from '../registry/retention-registry.js';
import { releaseSavepoint, rollbackToSavepoint, savepoint } from '../sql/hold-locks.js';
import { type StoredHold, canonicalRecordId, releaseHold, selectHolds } from '../sql/holds.js';
import type { Executor } from '../sql/transaction.js';
import { Readiness } from '../startup/readiness.js';
import { createHolds, requireIdOfType, requireTenantKind } from './create-holds.js';
import { type HoldRequest, requireEntityReference, requireHold } from './hold-request.js';

export interface HoldCallOptions {
  /** Joins this entity manager's open transaction. Without one the call has a transaction of its own. */
  readonly em?: SqlEntityManager;
}

/**
 * Legal holds. A hold that was stored protects its row from every strategy until it expires or is released; a call that
 * fails stored nothing. Inside a caller's transaction create holds last: their locks last as long as it does.
 */
@Injectable()
export class RetentionHolds {
  constructor(private readonly readiness: Readiness) {}

  /**
   * Places one hold or a list of them, all or none. Throws RetentionHoldError: unknown entity, missing row, wrong tenant,
   * a row or gate that stays busy, a serialisation failure under repeatable read. Pass several holds as one list: two
   * transactions that each place several, one by one, can deadlock.
   */
  async create(holds: HoldRequest | readonly HoldRequest[], options: HoldCallOptions = {}): Promise<void> {
    requireCallOptions(options);
    const requests = Array.isArray(holds)
      ? (holds as readonly HoldRequest[]).map((hold, index) => requireHold(hold, `holds[${index}]`))
      : [requireHold(holds as HoldRequest, 'hold')];
    const ctx = await this.readiness.context();
    const resolved = requests.map((request) => ({ request, entry: requireEntry(ctx.registry, request.entity) }));
    resolved.forEach(({ entry, request }) => requireTenantKind(entry, request));
    if (resolved.length === 0) return;
    await this.#inTransaction(ctx, options, (tx) =>
      createHolds(tx, ctx.registry.cohortSchema, resolved, ctx.settings.batchTimeoutMs),
    );
  }

  /** Ends a hold at `at`, or now by the database's clock. Throws when it does not exist or was released before. */
  async release(holdId: string, at?: Date, options: HoldCallOptions = {}): Promise<void> {
    requireCallOptions(options);
    if (!isIdentity(holdId)) throw new InvalidArgumentError('holdId', holdId, 'the UUID of a hold');
    if (at !== undefined) requireInstant(at, 'at');
    const ctx = await this.readiness.context();
    const released = await this.#inTransaction(ctx, options, (tx) =>
      releaseHold(tx, ctx.registry.cohortSchema, holdId, at ?? null),
    );
    if (!released)
      throw new RetentionHoldError(
        'hold-not-active',
        `There is no hold ${holdId} to release: it does not exist, or was released before.`,
      );
  }

  /** Holds active as of an instant, by entity id, record id and hold id. */
  async list(
    filter: { readonly activeAsOf: Date; readonly tenant?: TenantContext; readonly entity?: object | string },
    options: HoldCallOptions = {},
  ): Promise<StoredHold[]> {
    requireCallOptions(options);
    if (filter === null || typeof filter !== 'object')
      throw new InvalidArgumentError('filter', filter, 'an object with activeAsOf');
    const asOf = requireInstant(filter.activeAsOf, 'filter.activeAsOf');
    if (filter.tenant !== undefined) requireTenant(filter.tenant, 'filter.tenant');
    if (filter.entity !== undefined) requireEntityReference(filter.entity, 'filter.entity');
    const ctx = await this.readiness.context();
    const entityId = filter.entity === undefined ? undefined : requireEntry(ctx.registry, filter.entity).entityId;
    const tenantId = filter.tenant === TENANTLESS ? null : filter.tenant && tenantIdOf(ctx.registry, filter.tenant);
    return this.#inTransaction(ctx, options, (tx) =>
      selectHolds(tx, ctx.registry.cohortSchema, { asOf, entityId, tenantId }),
    );
  }

  /** Whether a row is held as of an instant; without one, now by the database's clock. */
  async hasActive(
    target: {
      readonly entity: object | string;
      readonly recordId: string;
      readonly tenant: TenantContext;
      readonly asOf?: Date;
    },
    options: HoldCallOptions = {},
  ): Promise<boolean> {
    requireCallOptions(options);
    if (target === null || typeof target !== 'object')
      throw new InvalidArgumentError('target', target, 'an object with entity, recordId and tenant');
    requireEntityReference(target.entity, 'target.entity');
    requireText(target.recordId, 'target.recordId');
    requireTenant(target.tenant, 'target.tenant');
    if (target.asOf !== undefined) requireInstant(target.asOf, 'target.asOf');
    const ctx = await this.readiness.context();
    const entry = requireEntry(ctx.registry, target.entity);
    requireTenantKind(entry, target);
    requireIdOfType(entry, target.recordId);
    const holds = await this.#inTransaction(ctx, options, async (tx) => {
      const recordId = await canonicalRecordId(tx, entry, target.recordId);
      return selectHolds(tx, ctx.registry.cohortSchema, {
        asOf: target.asOf ?? null,
        entityId: entry.entityId,
        recordId,
      });
    });
    return holds.length > 0;
  }

  /** Joins the caller's transaction under a savepoint, so that a refused hold leaves it usable, or owns one. */
  async #inTransaction<T>(ctx: EngineContext, { em }: HoldCallOptions, work: (tx: Executor) => Promise<T>): Promise<T> {
    try {
      if (em && em.getDriver() !== ctx.orm.em.getDriver())
        throw new InvalidArgumentError('options.em', em, "an EntityManager of Cohort's own MikroORM");
      if (!em?.isInTransaction()) return await inLedger(ctx, work);
      const tx = em.getKysely() as unknown as Executor;
      return await inTurn(em.getTransactionContext() as object, () => underSavepoint(tx, work));
    } catch (error) {
      throw translate(error);
    }
  }
}

async function underSavepoint<T>(tx: Executor, work: (tx: Executor) => Promise<T>): Promise<T> {
  await savepoint(tx);
  try {
    const result = await work(tx);
    await releaseSavepoint(tx);
    return result;
  } catch (error) {
    await rollbackToSavepoint(tx).catch(() => undefined);
    throw error;
  }
}

/** The last call of each transaction that is open. */
const turns = new WeakMap<object, Promise<unknown>>();

/** One after the other: going back to the savepoint of a call that is refused would undo those that began after it. */
async function inTurn<T>(transaction: object, work: () => Promise<T>): Promise<T> {
  const before = turns.get(transaction);
  const turn = before ? before.then(work, work) : work();
  turns.set(transaction, turn);
  return turn;
}

function requireCallOptions(options: HoldCallOptions): void {
  requireOptions(options, ['em']);
  const em: Partial<SqlEntityManager> | null | undefined = options.em;
  if (em !== undefined && typeof em?.isInTransaction !== 'function') {
    throw new InvalidArgumentError('options.em', em, 'an EntityManager of @mikro-orm/postgresql');
  }
}

/** What the database refused, in words. */
function translate(error: unknown): unknown {
  const sqlState = sqlStateOf(error);
  if (error instanceof RetentionHoldError || sqlState === undefined) return error;
  const wrap = (code: ConstructorParameters<typeof RetentionHoldError>[0], message: string) =>
    new RetentionHoldError(code, message, { cause: error, sqlState });
  if (sqlState === '55P03')
    return wrap(
      'hold-busy',
      'The hold was not stored: its row, or the gate of its entity, stayed locked by others. Try again.',
    );
  if (sqlState === '40P01')
    return wrap(
      'hold-deadlock',
      'The hold was not stored: a deadlock with another transaction. Pass several holds as one list, and try again.',
    );
  if (sqlState === '40001')
    return wrap(
      'hold-serialization',
      'The hold was not stored: its row was changed or removed since this transaction began. Start it again.',
    );
  if (sqlState === '23505')
    return wrap('hold-exists', 'A hold with this holdId exists already; holds are never overwritten.');
  if (sqlState === '23514')
    return wrap('hold-not-active', 'expiresAt lies before the hold would begin, so it would never be active.');
  if (sqlState.startsWith('22'))
    return wrap('hold-record-id-invalid', 'A record id cannot be read as the type of its key.');
  return error;
}
