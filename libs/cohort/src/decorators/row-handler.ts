import { InvalidArgumentError } from '../cohort.errors.js';
import { requireOptions } from '../domain/arguments.js';
import { DispatchPhase, type RetentionRowHandler } from '../domain/row-handler.js';
import { isOneOf } from '../domain/strategy.js';
import { isIdentity } from '../domain/uuid.js';

export interface RowHandlerOptions {
  /** A UUID that survives renames of the class. Without one, work queued before a rename becomes a dead letter. */
  readonly identity?: string;
  /** Default 'immediate'. */
  readonly phase?: DispatchPhase;
  /** Lower runs first; handlers without one run last, in order of their names. A whole number. */
  readonly priority?: number;
}

/** What a class says of the rows it handles. */
export interface RowHandlerMark {
  readonly entity: object;
  readonly identity: string | undefined;
  readonly phase: DispatchPhase;
  readonly priority: number;
}

type EntityOf<T> = (abstract new (...args: never[]) => T) | { readonly meta: object };
type HandlerClass<T extends object> = abstract new (...args: never[]) => RetentionRowHandler<T>;

const marks = new WeakMap<object, RowHandlerMark[]>();

/**
 * Marks a provider as handler of an entity's rows; more than once for several entities. Throws on wrong options, and where
 * the same entity is named again with others.
 */
export function RowHandler<T extends object>(
  entity: EntityOf<T>,
  options: RowHandlerOptions = {},
): (target: HandlerClass<T>) => void {
  const mark = { entity, ...requireHandlerOptions(entity, options) };
  return (target) => {
    const own = marks.get(target) ?? [];
    const known = own.find((each) => each.entity === entity);
    if (!known) marks.set(target, [...own, mark]);
    else if (known.identity !== mark.identity || known.phase !== mark.phase || known.priority !== mark.priority) {
      throw new InvalidArgumentError('RowHandler options', target, 'the same options wherever it names one entity');
    }
  };
}

/** @internal What was written on this very class; its heirs have none of it. */
export function readRowHandlers(type: object): readonly RowHandlerMark[] {
  return marks.get(type) ?? [];
}

function requireHandlerOptions(entity: unknown, options: RowHandlerOptions): Omit<RowHandlerMark, 'entity'> {
  if (typeof entity !== 'function' && (typeof entity !== 'object' || entity === null))
    throw new InvalidArgumentError('RowHandler entity', entity, 'the class or EntitySchema of a retained entity');
  requireOptions(options, ['identity', 'phase', 'priority'], 'RowHandler options');
  const { identity, phase = DispatchPhase.Immediate, priority = Number.MAX_SAFE_INTEGER } = options;
  if (identity !== undefined && !isIdentity(identity))
    throw new InvalidArgumentError('RowHandler identity', identity, 'a UUID, not the zero UUID');
  if (!isOneOf(DispatchPhase, phase))
    throw new InvalidArgumentError('RowHandler phase', phase, `one of ${Object.values(DispatchPhase).join(', ')}`);
  if (!Number.isSafeInteger(priority))
    throw new InvalidArgumentError('RowHandler priority', priority, 'a whole number');
  return { identity: identity?.toLowerCase(), phase, priority };
}
