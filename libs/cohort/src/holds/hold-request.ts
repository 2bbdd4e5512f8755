import { InvalidArgumentError } from '../cohort.errors.js';
import { requireText } from '../domain/arguments.js';
import { requireInstant } from '../domain/instant.js';
import { type TenantContext, requireTenant } from '../domain/tenant-context.js';
import { isIdentity } from '../domain/uuid.js';

/** A legal hold on one row. Nothing can be purged, soft-deleted or anonymised while one is active. */
export interface HoldRequest {
  /** UUID of the hold, chosen by the caller. */
  readonly holdId: string;
  /** The class, the EntitySchema or the @RetentionEntityId. */
  readonly entity: object | string;
  /** Any spelling that the key's type accepts; the database's own is stored. */
  readonly recordId: string;
  /** The row's tenant, or TENANTLESS for an entity without one. */
  readonly tenant: TenantContext;
  /** Why. No personal data. */
  readonly reason: string;
  /** Stored as the earlier of this and the database's clock. Default: the database's clock. */
  readonly createdAt?: Date;
  /** Not before createdAt. Default: never. */
  readonly expiresAt?: Date;
}

/**
 * Checks the shape of a request; what only the database knows is checked while it is created. Returns a copy: what the
 * caller does with his own object afterwards must not change what is held.
 */
export function requireHold(given: HoldRequest, argument: string): HoldRequest {
  if (given === null || typeof given !== 'object') throw new InvalidArgumentError(argument, given, 'a hold');
  const { holdId, entity, recordId, tenant, reason, createdAt, expiresAt } = given;
  const hold = {
    ...{ holdId, entity, recordId, tenant, reason },
    ...(createdAt !== undefined && { createdAt: requireInstant(createdAt, `${argument}.createdAt`) }),
    ...(expiresAt !== undefined && { expiresAt: requireInstant(expiresAt, `${argument}.expiresAt`) }),
  };
  if (!isIdentity(hold.holdId))
    throw new InvalidArgumentError(`${argument}.holdId`, hold.holdId, 'a UUID, not the zero UUID');
  requireText(hold.recordId, `${argument}.recordId`);
  requireText(hold.reason, `${argument}.reason`);
  requireEntityReference(hold.entity, `${argument}.entity`);
  requireTenant(hold.tenant, `${argument}.tenant`);
  if (hold.createdAt && hold.expiresAt && hold.expiresAt < hold.createdAt) {
    throw new InvalidArgumentError(
      `${argument}.expiresAt`,
      hold.expiresAt,
      `createdAt (${hold.createdAt.toISOString()}) or later`,
    );
  }
  return hold;
}

export function requireEntityReference(entity: unknown, argument: string): void {
  if (typeof entity === 'function' || (typeof entity === 'object' && entity !== null) || isIdentity(entity)) return;
  throw new InvalidArgumentError(argument, entity, 'a class, an EntitySchema or the UUID of a retained entity');
}
