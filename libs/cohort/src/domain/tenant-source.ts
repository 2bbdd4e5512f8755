import type { TenantContext } from './tenant-context.js';

/**
 * Whom the worker sweeps. Asked once for every slot that this replica sweeps, and read to its end before anything is
 * swept: a tenant that is none fails the slot, a tenant named twice counts once.
 */
export abstract class RetentionTenantSource {
  abstract tenants(): Iterable<TenantContext> | AsyncIterable<TenantContext> | Promise<Iterable<TenantContext>>;
}
