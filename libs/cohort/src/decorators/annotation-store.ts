import type { AuditRowDetail, AnonymiseMethod } from '../domain/strategy.js';
import type { AnonymiseFactoryClass } from '../domain/anonymise-factory.js';

/** The class or EntitySchema that an annotation was written on. */
export type AnnotationTarget = object;

export type PropertyRole = 'recordId' | 'tenant' | 'softDelete' | 'deletedAt' | 'anonymisedAt';

export interface RoleMarker {
  readonly role: PropertyRole;
  readonly property: string;
  /** Of a record id: its key has the partition columns beside it. */
  readonly acrossPartitions?: boolean;
}

/** How one marked property is scrubbed. A property marked in both ways carries two entries, which start-up refuses. */
export type Scrub =
  | { readonly property: string; readonly method: AnonymiseMethod; readonly literal: string | undefined }
  | { readonly property: string; readonly factory: AnonymiseFactoryClass };

/** A property that identifies a person. */
export interface SubjectMarker {
  readonly property: string;
  readonly kind: string;
  /** How values are made comparable before they are compared. */
  readonly normalise?: 'lowercase';
}

export interface Annotations {
  retain?: { readonly category: string; readonly anchor: string; readonly auditRowDetail: AuditRowDetail };
  entityId?: string;
  exempt?: { readonly reason: string };
  tenantless?: true;
  readonly roles: RoleMarker[];
  readonly scrubs: Scrub[];
  readonly subjects: SubjectMarker[];
}

const store = new WeakMap<AnnotationTarget, Annotations>();

/** The annotations written directly on `target`; made when missing. */
export function ownAnnotations(target: AnnotationTarget): Annotations {
  let annotations = store.get(target);
  if (!annotations) {
    annotations = { roles: [], scrubs: [], subjects: [] };
    store.set(target, annotations);
  }
  return annotations;
}

/**
 * Class markers of `target` itself (they are not inherited) with the property markers of its whole class chain;
 * a subclass that declares a property again replaces what its base said of it. An EntitySchema of the class comes
 * before the class, so that one may carry the rest of what the other begins.
 */
export function readAnnotations(target: AnnotationTarget, schema?: AnnotationTarget): Annotations | undefined {
  const chain = [...(schema ? [schema] : []), ...classChain(target)].flatMap((each) => store.get(each) ?? []);
  if (chain.length === 0) return undefined;
  return {
    ...store.get(target),
    ...(schema && store.get(schema)),
    roles: inheritBy(chain, (each) => each.roles),
    scrubs: inheritBy(chain, (each) => each.scrubs),
    subjects: inheritBy(chain, (each) => each.subjects),
  };
}

/** Base classes of `target` that carry @Retain themselves, the nearest first. */
export function retainedBases(target: AnnotationTarget): { readonly name: string }[] {
  const [, ...bases] = classChain(target);
  return bases.filter((base) => store.get(base)?.retain) as unknown as { readonly name: string }[];
}

function classChain(target: AnnotationTarget): AnnotationTarget[] {
  const chain: AnnotationTarget[] = [target];
  for (
    let base: unknown = Object.getPrototypeOf(target);
    typeof base === 'function';
    base = Object.getPrototypeOf(base)
  )
    chain.push(base);
  return chain;
}

function inheritBy<T extends { readonly property: string }>(
  chain: readonly Annotations[],
  pick: (each: Annotations) => readonly T[],
): T[] {
  const seen = new Set<string>();
  return chain.flatMap((each) => {
    const fresh = pick(each).filter((marker) => !seen.has(marker.property));
    fresh.forEach((marker) => seen.add(marker.property));
    return fresh;
  });
}
