import { Problem } from '../problem.js';
import { PLATFORM } from '../vocabulary.js';

export const SCOPES = ['factory.data.read', 'factory.data.admin', 'factory.data.acknowledge'] as const;
export type Scope = (typeof SCOPES)[number];

export const ROLES = ['WorkspaceAdmin', 'PlatformAdmin', 'Operator', 'Observer'] as const;
export type Role = (typeof ROLES)[number];

/** Whom a verified token speaks for. */
export interface Principal {
  readonly clientId: string;
  readonly tenantId: string | null;
  /** Those that we know. */
  readonly roles: readonly Role[];
  /** It has neither a role, known or not, nor a tenant: another service. It acts for the tenant that it names. */
  readonly isService: boolean;
  readonly scopes: readonly string[];
}

/** What a call needs. */
export interface Access {
  readonly scope: Scope;
  /** Clients without a role and a tenant, other services, may call it too. */
  readonly forServices?: boolean;
}

/** What each role may do at all. A token needs the scope besides. */
const SCOPES_OF: Readonly<Record<Role, readonly Scope[]>> = {
  WorkspaceAdmin: ['factory.data.read', 'factory.data.admin'],
  PlatformAdmin: ['factory.data.read', 'factory.data.admin'],
  Operator: ['factory.data.read'],
  Observer: ['factory.data.read'],
};
const FOR_ANY_TENANT: readonly Role[] = ['PlatformAdmin', 'Operator'];

/** Throws `insufficient-scope`. */
export function checkAccess(principal: Principal, { scope, forServices = false }: Access): void {
  if (!principal.scopes.includes(scope)) {
    throw new Problem('insufficient-scope', `The scope ${scope} is needed; the token does not have it.`);
  }
  if (principal.isService ? forServices : principal.roles.some((role) => SCOPES_OF[role].includes(scope))) return;
  const roles = ROLES.filter((role) => SCOPES_OF[role].includes(scope)).join(', ');
  throw new Problem('insufficient-scope', `The token has no role that may do this; one of ${roles} is needed.`);
}

export function isPlatformAdmin({ roles }: Principal): boolean {
  return roles.includes('PlatformAdmin');
}

/**
 * The tenant that a call is for: the token's own, or the one that is named by those who may name any. Nobody names one: the
 * platform. Only a role that has the call's scope may name one: who reads for all and changes for one changes for that one.
 * Throws a Problem for a tenant that the token is not for, and for a name that is none.
 */
export function tenantOf(principal: Principal, scope: Scope, named: string | undefined, pointer: string): string {
  if (named !== undefined) checkTenantId(named, pointer);
  const mayName = (role: Role) => FOR_ANY_TENANT.includes(role) && SCOPES_OF[role].includes(scope);
  if (principal.isService || principal.roles.some(mayName)) {
    return named ?? principal.tenantId ?? PLATFORM;
  }
  if (principal.tenantId === null) {
    throw new Problem('insufficient-scope', 'The token names no tenant (claim tenantId), which its role needs.');
  }
  if (named !== undefined && named !== principal.tenantId) {
    throw new Problem('insufficient-scope', 'The token is for another tenant than the one that is named.');
  }
  return principal.tenantId;
}

const TENANT_ID = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/;

export function isTenantId(text: string): boolean {
  return TENANT_ID.test(text);
}

function checkTenantId(named: string, pointer: string): void {
  if (isTenantId(named)) return;
  const detail = 'This is no tenant id; wanted are 1 to 128 letters, digits and ._:@-, a letter or digit first.';
  throw new Problem('validation', detail, { faults: [{ pointer, detail }], isMalformed: true });
}
