import { Injectable } from '@nestjs/common';
import { InvalidArgumentError } from '../cohort.errors.js';
import { requireActor, requireOptions, requireSignal } from '../domain/arguments.js';
import { type ErasureScope, requireScope } from '../domain/erasure-scope.js';
import { requireInstant } from '../domain/instant.js';
import { TENANTLESS, type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { type RetentionErasureResult, erase } from '../engine/erasure.js';
import { Readiness } from '../startup/readiness.js';

export interface ErasureOptions {
  /** Who asked: an opaque id, at most 200 characters, kept in the ledger. No personal data. */
  readonly actor?: string;
  /** Stops before the next batch; the batch in progress is rolled back, earlier ones stay. */
  readonly signal?: AbortSignal;
}

/**
 * Erases what is held about a person, or about everybody of a tenant, by the strategies of the rules, now: periods give
 * way, legal minimums and legal holds do not. Waits for rows that others have locked, and judges them again by what they
 * have become. Every call works in transactions of its own on the primary.
 */
@Injectable()
export class RetentionErasure {
  constructor(private readonly readiness: Readiness) {}

  /**
   * Erases within one tenant. Throws before a run exists: InvalidArgumentError (a kind that nobody declares, a value of
   * another type), SoftDeleteErasureError, DryRunOnlyError. Entities that fail are in the result; ask again for those.
   */
  async erase(
    tenant: TenantContext,
    scope: ErasureScope,
    now: Date,
    options: ErasureOptions = {},
  ): Promise<RetentionErasureResult> {
    if (requireTenant(tenant) === TENANTLESS)
      throw new InvalidArgumentError(
        'tenant',
        'TENANTLESS',
        'a tenant of its own: entities without one are not erased',
      );
    const at = requireInstant(now, 'now');
    requireScope(scope);
    requireOptions(options, ['actor', 'signal']);
    const { signal } = options;
    requireSignal(signal);
    const actor = requireActor(options.actor);
    return erase(await this.readiness.context(), { tenant, scope, now: at, actor, signal });
  }
}
