import type { EntitySchema } from '@mikro-orm/core';
import { InvalidArgumentError } from '../cohort.errors.js';
import type { AnonymiseMethod, AuditRowDetail } from '../domain/strategy.js';
import { type AnonymiseFactoryClass, type PropertyRole, ownAnnotations } from './annotation-store.js';
import { requireScrub } from './properties.js';
import { requireEntityId, requireText, retainAnnotation } from './retain.js';

type Class<T> = abstract new (...args: never[]) => T;
type Property<T> = Extract<keyof T, string>;
type DateProperty<T> = { [P in Property<T>]: T[P] extends Date | null | undefined ? P : never }[Property<T>];

/** What the decorators say, as data: for EntitySchema, `defineEntity` and classes one cannot edit. */
export interface RetainOptionsOf<T> {
  readonly category: string;
  readonly anchor: DateProperty<T>;
  readonly entityId: string;
  readonly auditRowDetail?: AuditRowDetail;
  readonly tenantless?: boolean;
  readonly recordId?: Property<T>;
  readonly tenant?: Property<T>;
  readonly softDelete?: Property<T>;
  readonly deletedAt?: DateProperty<T>;
  readonly anonymisedAt?: DateProperty<T>;
  /** A method, `['fixedLiteral', text]`, or a factory class, by property. */
  readonly anonymise?: {
    readonly [P in Property<T>]?: AnonymiseMethod | readonly ['fixedLiteral', string] | AnonymiseFactoryClass;
  };
  /** The kind of subject, by property. */
  readonly erasureSubjects?: { readonly [P in Property<T>]?: string };
}

const ROLES = [
  'recordId',
  'tenant',
  'softDelete',
  'deletedAt',
  'anonymisedAt',
] as const satisfies readonly PropertyRole[];

/** Puts a class, an EntitySchema or the result of `defineEntity` under retention. The same checks as the decorators. */
export function retain<T extends object>(
  entity: Class<T> | EntitySchema<T>,
  options: RetainOptionsOf<NoInfer<T>>,
): void {
  if (entity === null || (typeof entity !== 'function' && typeof entity !== 'object')) {
    throw new InvalidArgumentError('retain entity', entity, 'a class, an EntitySchema or the result of defineEntity');
  }
  const annotations = ownAnnotations(entity);
  annotations.retain = retainAnnotation(options.category, options.anchor, options);
  annotations.entityId = requireEntityId(options.entityId);
  if (options.tenantless) annotations.tenantless = true;
  for (const role of ROLES) {
    const property = options[role];
    if (property !== undefined) annotations.roles.push({ role, property });
  }
  for (const [property, how] of Object.entries(options.anonymise ?? {}) as [string, unknown][]) {
    if (typeof how === 'function') annotations.scrubs.push({ property, factory: how as AnonymiseFactoryClass });
    else
      annotations.scrubs.push({
        property,
        ...(Array.isArray(how) ? requireScrub(how[0], how[1]) : requireScrub(how, undefined)),
      });
  }
  for (const [property, kind] of Object.entries(options.erasureSubjects ?? {}) as [string, unknown][]) {
    requireText(kind, 'ErasureSubject kind');
    annotations.subjects.push({ property, kind });
  }
}
