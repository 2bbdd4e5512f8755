import type { AnonymiseFactoryClass } from '../domain/anonymise-factory.js';
import type { EntitySchema } from '@mikro-orm/core';
import { InvalidArgumentError } from '../cohort.errors.js';
import type { AnonymiseMethod, AuditRowDetail } from '../domain/strategy.js';
import { type PropertyRole, type RoleMarker, type Scrub, ownAnnotations } from './annotation-store.js';
import { type ErasureSubjectOptions, requireScrub, requireSubject } from './properties.js';
import { requireOptions, requireText } from '../domain/arguments.js';
import { requireEntityId, retainAnnotation } from './retain.js';

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
  /** A property, or one whose key has the partition columns beside it. */
  readonly recordId?: Property<T> | { readonly property: Property<T>; readonly uniqueAcrossPartitions: boolean };
  readonly tenant?: Property<T>;
  readonly softDelete?: Property<T>;
  readonly deletedAt?: DateProperty<T>;
  readonly anonymisedAt?: DateProperty<T>;
  /** A method, `['fixedLiteral', text]`, or a factory class, by property; `'address.street'` inside of an embeddable. */
  readonly anonymise?: {
    readonly [P in Property<T> | `${Property<T>}.${string}`]?:
      AnonymiseMethod | readonly ['fixedLiteral', string] | AnonymiseFactoryClass;
  };
  /** The kind of subject, or the kind with how its values are normalised, by property. */
  readonly erasureSubjects?: {
    readonly [P in Property<T>]?: string | (ErasureSubjectOptions & { readonly kind: string });
  };
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
  if (options === null || typeof options !== 'object') {
    throw new InvalidArgumentError('retain options', options, 'an object with category, anchor and entityId');
  }
  // Everything is checked before anything is kept: an entity that was refused is not under half a retention.
  const retained = retainAnnotation(options.category, options.anchor, options);
  const entityId = requireEntityId(options.entityId);
  const roles = rolesOf(options);
  const scrubs = Object.entries(options.anonymise ?? {}).map(([property, how]) => scrubOf(property, how));
  const subjects = Object.entries(options.erasureSubjects ?? {}).map(([property, given]: [string, unknown]) => ({
    property,
    ...subjectOf(given),
  }));

  const annotations = ownAnnotations(entity);
  annotations.retain = retained;
  annotations.entityId = entityId;
  if (options.tenantless) annotations.tenantless = true;
  annotations.roles.push(...roles);
  annotations.scrubs.push(...scrubs);
  annotations.subjects.push(...subjects);
}

function rolesOf(options: Partial<Record<PropertyRole, unknown>>): RoleMarker[] {
  return ROLES.flatMap((role) => {
    const given = options[role];
    if (given === undefined) return [];
    if (role === 'recordId' && typeof given === 'object') return [recordIdMarker(given)];
    requireText(given, `retain ${role}`);
    return [{ role, property: given }];
  });
}

function recordIdMarker(given: object | null): RoleMarker {
  requireOptions(given, ['property', 'uniqueAcrossPartitions'], 'retain recordId');
  const { property, uniqueAcrossPartitions: acrossPartitions } = given as Record<string, unknown>;
  requireText(property, 'retain recordId.property');
  if (typeof acrossPartitions !== 'boolean')
    throw new InvalidArgumentError('retain recordId.uniqueAcrossPartitions', acrossPartitions, 'true or false');
  return { role: 'recordId', property, acrossPartitions };
}

function subjectOf(given: unknown) {
  if (given === null || typeof given !== 'object') return requireSubject(given, {}, 'ErasureSubject');
  const { kind, ...options } = given as { readonly kind?: unknown };
  return requireSubject(kind, options, 'ErasureSubject');
}

function scrubOf(property: string, how: unknown): Scrub {
  if (typeof how === 'function') return { property, factory: how as AnonymiseFactoryClass };
  return { property, ...(Array.isArray(how) ? requireScrub(how[0], how[1]) : requireScrub(how, undefined)) };
}
