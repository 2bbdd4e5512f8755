import type { AnonymiseFactoryClass } from '../domain/anonymise-factory.js';
import { InvalidArgumentError } from '../cohort.errors.js';
import { AnonymiseMethod, isOneOf } from '../domain/strategy.js';
import { type PropertyRole, type SubjectMarker, ownAnnotations } from './annotation-store.js';
import { requireOptions, requireText } from '../domain/arguments.js';

type PropertyMarker = (target: object, property: string) => void;

export interface RecordIdOptions {
  /**
   * The primary key of a partitioned table is this id and the columns that it is partitioned by: the database cannot
   * keep the id unique by itself, and the application says that it is. Default false.
   */
  readonly uniqueAcrossPartitions?: boolean;
}

/** The property that identifies a row, unique by itself. Default: `id`. */
export function RetentionRecordId(options: RecordIdOptions = {}): PropertyMarker {
  requireOptions(options, ['uniqueAcrossPartitions'], 'RetentionRecordId options');
  const { uniqueAcrossPartitions: acrossPartitions = false } = options;
  if (typeof acrossPartitions !== 'boolean')
    throw new InvalidArgumentError('RetentionRecordId uniqueAcrossPartitions', acrossPartitions, 'true or false');
  return (target, property) => {
    ownAnnotations(target.constructor).roles.push({
      role: 'recordId',
      property,
      ...(acrossPartitions && { acrossPartitions }),
    });
  };
}
/** The property that names a row's tenant. Default: `tenantId`. */
export const RetentionTenant = (): PropertyMarker => roleMarker('tenant');
/** The boolean that soft deletion sets. Default: `isDeleted`. */
export const RetentionSoftDelete = (): PropertyMarker => roleMarker('softDelete');
/** The date that soft deletion stamps. Default: `deletedAt`. */
export const RetentionDeletedAt = (): PropertyMarker => roleMarker('deletedAt');
/** The nullable date that says a row was anonymised. Default: `anonymisedAt`. */
export const RetentionAnonymisedAt = (): PropertyMarker => roleMarker('anonymisedAt');

/** Scrubs a property when its row is anonymised. Only 'fixedLiteral' takes (and needs) a literal. */
export function Anonymise(method: AnonymiseMethod, literal?: string): PropertyMarker {
  const scrub = requireScrub(method, literal);
  return (target, property) => {
    ownAnnotations(target.constructor).scrubs.push({ property, ...scrub });
  };
}

/** Scrubs a property with the value of a registered factory. */
export function AnonymiseWith(factory: AnonymiseFactoryClass): PropertyMarker {
  if (typeof factory !== 'function')
    throw new InvalidArgumentError('AnonymiseWith factory', factory, 'a class that makes values');
  return (target, property) => {
    ownAnnotations(target.constructor).scrubs.push({ property, factory });
  };
}

export interface ErasureSubjectOptions {
  /** `lowercase`: values that differ in case alone, as the database folds it, are one. Default: as the column compares. */
  readonly normalise?: 'lowercase';
}

/** Marks a property that identifies the person a row is about, by a kind of identifier; several may have the same. */
export function ErasureSubject(kind = 'default', options: ErasureSubjectOptions = {}): PropertyMarker {
  const marker = requireSubject(kind, options, 'ErasureSubject');
  return (target, property) => {
    ownAnnotations(target.constructor).subjects.push({ property, ...marker });
  };
}

/** @internal Checks shared with `retain()`. */
export function requireSubject(kind: unknown, options: unknown, argument: string): Omit<SubjectMarker, 'property'> {
  requireText(kind, `${argument} kind`);
  requireOptions(options, ['normalise'], `${argument} options`);
  const { normalise } = options as ErasureSubjectOptions;
  if (normalise !== undefined && normalise !== 'lowercase')
    throw new InvalidArgumentError(`${argument} normalise`, normalise, `'lowercase', or nothing`);
  return { kind, ...(normalise && { normalise }) };
}

/** @internal Checks shared with `retain()`. */
export function requireScrub(
  method: unknown,
  literal: unknown,
): { method: AnonymiseMethod; literal: string | undefined } {
  if (!isOneOf(AnonymiseMethod, method)) {
    throw new InvalidArgumentError('Anonymise method', method, `one of ${Object.values(AnonymiseMethod).join(', ')}`);
  }
  if (method !== AnonymiseMethod.FixedLiteral) {
    if (literal !== undefined)
      throw new InvalidArgumentError('Anonymise literal', literal, `no literal with method '${method}'`);
    return { method, literal: undefined };
  }
  requireText(literal, 'Anonymise literal');
  return { method, literal };
}

function roleMarker(role: PropertyRole): PropertyMarker {
  return (target, property) => {
    ownAnnotations(target.constructor).roles.push({ role, property });
  };
}
