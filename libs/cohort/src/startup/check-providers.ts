import { isAuditObserver } from '../decorators/audit-observer.js';
import { type RowHandlerMark, readRowHandlers } from '../decorators/row-handler.js';
import type { RetentionAuditObserver } from '../domain/audit-observer.js';
import type { HandlerBook, RegisteredHandler, RetentionRowHandler } from '../domain/row-handler.js';
import type { RetentionRegistry } from '../registry/retention-registry.js';

/** One of the host's providers. */
export interface HostProvider {
  readonly type: abstract new (...args: never[]) => unknown;
  /** Undefined where it lives for a request, or is made for each who injects it: there is no one instance then. */
  readonly instance: unknown;
}

/** The one instance of each class that `isMarked`, in the order in which the host registered them. */
function singletonsOf(
  providers: readonly HostProvider[],
  isMarked: (type: object) => boolean,
  what: string,
  problems: string[],
): object[] {
  const byType = Map.groupBy(
    providers.filter(({ type }) => isMarked(type)),
    ({ type }) => type,
  );
  return [...byType].flatMap(([type, found]): object[] => {
    const instances = [...new Set(found.map(({ instance }) => instance))];
    if (instances.includes(undefined)) {
      problems.push(`${what} ${type.name} lives for a request or for whoever injects it; use the default scope.`);
    } else if (instances.length > 1) {
      problems.push(`${what} ${type.name} is registered ${instances.length} times; register it once.`);
    } else return [instances[0] as object];
    return [];
  });
}

type MarkedHandler = RegisteredHandler & Pick<RowHandlerMark, 'priority'>;

/** Handlers of the host by entity, in order of priority, then of their names. */
export function resolveHandlers(
  registry: RetentionRegistry,
  providers: readonly HostProvider[],
  problems: string[],
): HandlerBook {
  const byEntity = new Map<string, MarkedHandler[]>();
  for (const instance of singletonsOf(providers, (type) => readRowHandlers(type).length > 0, 'Row handler', problems)) {
    const { constructor: type } = instance;
    if (!hasOneOf(instance, 'onBefore', 'onAfter')) {
      problems.push(`Row handler ${type.name} has neither onBefore nor onAfter; wanted: a RetentionRowHandler.`);
      continue;
    }
    for (const { entity, identity = type.name, phase, priority } of readRowHandlers(type)) {
      const entry = registry.find(entity);
      if (!entry) {
        const name = (entity as { name?: string }).name ?? 'an object';
        problems.push(`Row handler ${type.name} names ${name}, which is not a retained entity of this model.`);
        continue;
      }
      if (identity === '') problems.push(`A row handler of ${entry.entityName} has no name; give it an identity.`);
      const handlers = byEntity.get(entry.entityId) ?? [];
      const namesake = handlers.find((each) => each.identity === identity);
      if (namesake) {
        problems.push(
          `${entry.entityName}: row handlers ${namesake.typeName} and ${type.name} share the identity ${identity}; give each one of its own.`,
        );
      }
      const handler = { identity, typeName: type.name, phase, priority, instance: instance as RetentionRowHandler };
      byEntity.set(entry.entityId, [...handlers, handler]);
    }
  }
  return new Map([...byEntity].map(([entityId, handlers]) => [entityId, handlers.sort(byPriority)]));
}

function byPriority(a: MarkedHandler, b: MarkedHandler): number {
  return a.priority - b.priority || (a.typeName < b.typeName ? -1 : 1);
}

/** Observers of the host, in the order in which it registered them. */
export function resolveObservers(providers: readonly HostProvider[], problems: string[]): RetentionAuditObserver[] {
  return singletonsOf(providers, isAuditObserver, 'Audit observer', problems).flatMap((instance) => {
    if (hasOneOf(instance, 'onCommitted')) return [instance as RetentionAuditObserver];
    problems.push(
      `Audit observer ${instance.constructor.name} has no method onCommitted; wanted: a RetentionAuditObserver.`,
    );
    return [];
  });
}

function hasOneOf(instance: object, ...methods: string[]): boolean {
  return methods.some((method) => typeof (instance as Record<string, unknown>)[method] === 'function');
}
