import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions, requireText } from './arguments.js';

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
    requireText(id, 'tenant.id');
    if (id === TENANTLESS_ID)
      throw new InvalidArgumentError('tenant.id', id, 'a tenant of its own: the zero UUID stands for TENANTLESS');
    requireOptions(options, ['jurisdiction', 'tags'], 'tenant options');
    const { jurisdiction, tags = {} } = options;
    if (jurisdiction !== undefined) requireText(jurisdiction, 'tenant.jurisdiction');
    this.id = id;
    this.jurisdiction = jurisdiction;
    this.tags = requireTags(tags);
    Object.freeze(this);
  }
}

function requireTags(tags: unknown): Readonly<Record<string, string>> {
  if (tags === null || typeof tags !== 'object' || Array.isArray(tags))
    throw new InvalidArgumentError('tenant.tags', tags, 'an object of strings');
  for (const [tag, value] of Object.entries(tags))
    if (typeof value !== 'string') throw new InvalidArgumentError(`tenant.tags.${tag}`, value, 'a string');
  return Object.freeze({ ...tags });
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
