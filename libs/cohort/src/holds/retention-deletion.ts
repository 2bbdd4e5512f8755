import { Injectable } from '@nestjs/common';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { InvalidArgumentError, RetentionDeletionError, RetentionHoldError } from '../cohort.errors.js';
import { requireActor, requireOptions, requireText } from '../domain/arguments.js';
import { type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { type DeletionOutcome, type ResolvedTarget, deleteTargets } from '../engine/deletion.js';
import { sqlStateOf } from '../engine/failure.js';
import { requireIdOfType, requireSameTenant, requireTenantKind } from './create-holds.js';
import { requireEntityReference } from './hold-request.js';
import { requireEntry } from '../registry/retention-registry.js';
import { Readiness } from '../startup/readiness.js';

/** A row that the application wants to delete by its own means. */
export interface DeletionTarget {
  /** The class, the EntitySchema or the @RetentionEntityId. */
  readonly entity: object | string;
  /** Any spelling that the key's type accepts. The row need not exist. */
  readonly recordId: string;
  /** The row's tenant, or TENANTLESS for an entity without one. */
  readonly tenant: TenantContext;
}

export interface DeletionOptions {
  /** Who asked: an opaque id, at most 200 characters, kept in the ledger. No personal data. */
  readonly actor?: string;
}

/** Deletions that the application does itself, kept apart from legal holds and told to the ledger. */
@Injectable()
export class RetentionDeletion {
  constructor(private readonly readiness: Readiness) {}

  /**
   * Runs `work` in a transaction in which none of the targets can come under a hold. 'protected': at least one is held;
   * `work` was not called. 'executed': it was, and the transaction is committed. Begins and ends the transaction itself,
   * hands `work` the entity manager that is in it, and rethrows what `work` throws, with everything rolled back. The
   * ledger keeps a run of trigger 'deletion' a tenant, which counts the targets that are gone, or held. Runs no row
   * handlers. Throws RetentionDeletionError.
   */
  async execute(
    targets: readonly DeletionTarget[],
    work: (em: SqlEntityManager) => Promise<void>,
    options: DeletionOptions = {},
  ): Promise<DeletionOutcome> {
    const copies = requireTargets(targets);
    if (typeof work !== 'function') throw new InvalidArgumentError('work', work, 'a function that deletes the targets');
    requireOptions(options, ['actor']);
    const actor = requireActor(options.actor);
    const ctx = await this.readiness.context();
    if (ctx.orm.em.isInTransaction())
      throw new RetentionDeletionError(
        'deletion-in-transaction',
        'A deletion was asked for inside of an open transaction, whose locks and snapshot are older; call it outside, it has its own.',
      );
    let working = false;
    try {
      return await deleteTargets(ctx, {
        targets: copies.map((target) => resolve(requireEntry(ctx.registry, target.entity), target)),
        actor,
        work: async (em) => {
          working = true;
          await work(em);
          working = false;
        },
        requireTenant: (target, tenantId) => requireSameTenant(target.entry, target, tenantId),
      });
    } catch (error) {
      throw working ? error : translate(error);
    }
  }
}

function resolve(entry: ResolvedTarget['entry'], { recordId, tenant }: DeletionTarget): ResolvedTarget {
  requireTenantKind(entry, { tenant });
  requireIdOfType(entry, recordId);
  return { entry, recordId, tenant };
}

function requireTargets(targets: unknown): DeletionTarget[] {
  if (!Array.isArray(targets) || targets.length === 0)
    throw new InvalidArgumentError('targets', targets, 'a list with at least one target');
  return (targets as unknown[]).map((target, index) => {
    const argument = `targets[${index}]`;
    if (target === null || typeof target !== 'object')
      throw new InvalidArgumentError(argument, target, '{ entity, recordId, tenant }');
    requireOptions(target, ['entity', 'recordId', 'tenant'], argument);
    const { entity, recordId, tenant } = target as DeletionTarget;
    requireEntityReference(entity, `${argument}.entity`);
    requireText(recordId, `${argument}.recordId`);
    return { entity, recordId, tenant: requireTenant(tenant, `${argument}.tenant`) };
  });
}

/** The checks of a target are those of a hold; what the database refused, in words. */
function translate(error: unknown): unknown {
  if (error instanceof RetentionHoldError) {
    const code = error.code.replace('hold-', 'deletion-') as ConstructorParameters<typeof RetentionDeletionError>[0];
    return new RetentionDeletionError(code, error.message, { cause: error });
  }
  const refused = (code: ConstructorParameters<typeof RetentionDeletionError>[0], why: string) =>
    new RetentionDeletionError(code, `Nothing was deleted: ${why}`, { cause: error });
  const sqlState = sqlStateOf(error);
  if (sqlState === '55P03') return refused('deletion-busy', 'a target stayed locked by others. Try again.');
  if (sqlState === '40P01')
    return refused(
      'deletion-deadlock',
      'a deadlock with another transaction. Pass all targets as one list, and try again.',
    );
  return error;
}
