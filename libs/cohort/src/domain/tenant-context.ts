import { InvalidArgumentError } from '../cohort.errors.js';

/** Stands for "no tenant" in the ledger. Never a tenant's own id. */
export const TENANTLESS_ID = '00000000-0000-0000-0000-000000000000';

export interface TenantContextOptions {
  readonly jurisdiction?: string;
  readonly tags?: Readonly<Record<string, string>>;
}

/** Whose rows a call is about. The id is compared as the tenant column's own type. */
export class TenantContext {
  readonly id: string;
  readonly jurisdiction: string | undefined;
  readonly tags: Readonly<Record<string, string>>;

  constructor(id: string, options: TenantContextOptions = {}) {
    if (typeof id !== 'string' || id.trim() === '')
      throw new InvalidArgumentError('tenant.id', id, 'a string that is not blank');
    if (id === TENANTLESS_ID)
      throw new InvalidArgumentError('tenant.id', id, 'a tenant of its own: the zero UUID stands for TENANTLESS');
    if (options.tags === null) throw new InvalidArgumentError('tenant.tags', null, 'an object of strings');
    this.id = id;
    this.jurisdiction = options.jurisdiction;
    this.tags = Object.freeze({ ...options.tags });
    Object.freeze(this);
  }
}

/** The context of entities marked @RetentionTenantless: no jurisdiction, no tags, the zero UUID in the ledger. */
export const TENANTLESS: TenantContext = Object.freeze(
  Object.assign(Object.create(TenantContext.prototype) as object, {
    id: TENANTLESS_ID,
    jurisdiction: undefined,
    tags: Object.freeze({}),
  }),
) as TenantContext;

/** Takes a TenantContext or TENANTLESS. */
export function requireTenant(value: unknown, argument = 'tenant'): TenantContext {
  if (value instanceof TenantContext) return value;
  throw new InvalidArgumentError(argument, value, 'a TenantContext or TENANTLESS');
}
