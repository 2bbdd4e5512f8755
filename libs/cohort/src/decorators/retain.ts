import { InvalidArgumentError } from '../cohort.errors.js';
import { requireText } from '../domain/arguments.js';
import { AuditRowDetail, isOneOf } from '../domain/strategy.js';
import { isIdentity } from '../domain/uuid.js';
import { ownAnnotations } from './annotation-store.js';

export interface RetainOptions {
  /** Overrides the rule's setting for this entity. Default 'inherit'. */
  readonly auditRowDetail?: AuditRowDetail;
}

type Retainable<K extends string> = abstract new (...args: never[]) => { [P in K]?: Date | null };
type AnyClass = abstract new (...args: never[]) => object;

/**
 * Puts an entity under retention: rows belong to `category` and age by the property `anchor`, which must be a date
 * of the class. Not inherited. Throws on a blank category or anchor.
 */
export function Retain<const K extends string>(
  category: string,
  anchor: K,
  options: RetainOptions = {},
): <T extends { [P in K]?: Date | null }>(target: abstract new (...args: never[]) => T) => void {
  const retain = retainAnnotation(category, anchor, options);
  return (target: Retainable<K>) => {
    ownAnnotations(target).retain = retain;
  };
}

/** The stable identity of a retained entity: a UUID that survives every rename of class and table. */
export function RetentionEntityId(id: string): (target: AnyClass) => void {
  const entityId = requireEntityId(id);
  return (target) => {
    ownAnnotations(target).entityId = entityId;
  };
}

/** Says in code that an entity is kept for ever, and why. */
export function ExemptFromRetention(reason: string): (target: AnyClass) => void {
  requireText(reason, 'ExemptFromRetention reason');
  return (target) => {
    ownAnnotations(target).exempt = { reason };
  };
}

/** Says that an entity has no tenant on purpose. Its rows are swept by TENANTLESS calls alone. */
export function RetentionTenantless(): (target: AnyClass) => void {
  return (target) => {
    ownAnnotations(target).tenantless = true;
  };
}

/** @internal Checks shared with `retain()`. */
export function retainAnnotation(category: string, anchor: string, options: RetainOptions) {
  requireText(category, 'Retain category');
  requireText(anchor, 'Retain anchor');
  const auditRowDetail: unknown = options.auditRowDetail ?? AuditRowDetail.Inherit;
  if (!isOneOf(AuditRowDetail, auditRowDetail)) {
    throw new InvalidArgumentError(
      'Retain auditRowDetail',
      auditRowDetail,
      `one of ${Object.values(AuditRowDetail).join(', ')}`,
    );
  }
  return { category, anchor, auditRowDetail };
}

/** @internal */
export function requireEntityId(id: unknown): string {
  if (!isIdentity(id)) {
    throw new InvalidArgumentError(
      'RetentionEntityId',
      id,
      'a UUID such as a3f467fe-c5d0-4f17-9897-83c373cc1dc8, not the zero UUID',
    );
  }
  return id.toLowerCase();
}
