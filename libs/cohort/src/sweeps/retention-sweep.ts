import { Injectable } from '@nestjs/common';
import { InvalidArgumentError } from '../cohort.errors.js';
import { requireActor, requireOptions, requireSignal } from '../domain/arguments.js';
import { requireInstant } from '../domain/instant.js';
import { type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import { Readiness } from '../startup/readiness.js';
import { type RetentionSweepResult, type SweepRequest, sweepTenants } from '../engine/sweep.js';

export interface SweepOptions {
  /** Count and write to the ledger, change nothing. Default false. */
  readonly dryRun?: boolean;
  /** Who asked: an opaque id, at most 200 characters, kept in the ledger. No personal data. */
  readonly actor?: string;
  /** Stops before the next batch; the batch in progress is rolled back, earlier ones stay. */
  readonly signal?: AbortSignal;
}

/**
 * Applies the rules. Every call works in transactions of its own on the primary: the caller's entity manager and
 * transaction never take part. Rules and cutoffs are computed once, for `now`; holds are judged by the database's clock.
 */
@Injectable()
export class RetentionSweep {
  constructor(private readonly readiness: Readiness) {}

  /** Sweeps one tenant, or the tenantless entities. Entities that fail are in the result; anything wider is thrown. */
  async sweep(tenant: TenantContext, now: Date, options: SweepOptions = {}): Promise<RetentionSweepResult> {
    const request = toRequest([requireTenant(tenant)], now, options);
    const [result] = await sweepTenants(await this.readiness.context(), request);
    return result!;
  }

  /**
   * Sweeps a set of tenants in one pass: statements grow with entities, not with tenants. The pass starts with the
   * iteration; results come when it is settled, one a tenant, in the order given. A tenant named twice is swept once.
   */
  async *sweepMany(
    tenants: Iterable<TenantContext> | AsyncIterable<TenantContext>,
    now: Date,
    options: SweepOptions = {},
  ): AsyncGenerator<RetentionSweepResult, void, undefined> {
    requireTenants(tenants);
    const at = requireInstant(now, 'now');
    const all: TenantContext[] = [];
    for await (const tenant of tenants) all.push(requireTenant(tenant, `tenants[${all.length}]`));
    const request = toRequest(all, at, options);
    const ctx = await this.readiness.context();
    const distinct = new Map<string, TenantContext>();
    for (const tenant of all) {
      const id = tenantIdOf(ctx.registry, tenant);
      if (!distinct.has(id)) distinct.set(id, tenant);
    }
    if (all.length > 0) yield* await sweepTenants(ctx, { ...request, tenants: [...distinct.values()] });
  }
}

function requireTenants(tenants: unknown): void {
  const source = tenants as Partial<Iterable<unknown> & AsyncIterable<unknown>> | null | undefined;
  if (typeof (source?.[Symbol.asyncIterator] ?? source?.[Symbol.iterator]) === 'function') return;
  throw new InvalidArgumentError('tenants', tenants, 'an iterable or async iterable of TenantContext');
}

function toRequest(tenants: readonly TenantContext[], now: Date, options: SweepOptions): SweepRequest {
  requireOptions(options, ['dryRun', 'actor', 'signal']);
  const { dryRun = false, actor, signal } = options;
  if (typeof dryRun !== 'boolean') throw new InvalidArgumentError('options.dryRun', dryRun, 'true or false');
  requireSignal(signal);
  return { tenants, now: requireInstant(now, 'now'), dryRun, actor: requireActor(actor), signal };
}
