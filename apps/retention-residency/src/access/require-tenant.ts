import { Problem } from '../problem.js';
import { PLATFORM } from '../vocabulary.js';
import type { Caller } from './caller.js';

/** The tenant of a call that is about one. Throws `validation` where none is named. */
export function requireTenant({ tenantId }: Caller): string {
  if (tenantId !== PLATFORM) return tenantId;
  const detail = 'This is about a tenant: name it with the header X-Tenant-Id.';
  throw new Problem('validation', detail, { faults: [{ pointer: 'header:X-Tenant-Id', detail }], isMalformed: true });
}
