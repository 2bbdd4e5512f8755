import type { AnonymiseFactory } from '../domain/anonymise-factory.js';
import type { ColumnScrub, FactoryScrub } from '../registry/retention-entry.js';
import { type OriginalRow, type ScrubValue, selectOriginals } from '../sql/mutate.js';
import type { LockedRows, Selection } from '../sql/selection.js';
import type { Executor } from '../sql/transaction.js';
import type { EngineContext } from './context.js';
import { toText } from './stored-text.js';

export interface ScrubValues {
  readonly scrubs: readonly ScrubValue[];
  readonly rows: readonly OriginalRow[];
}

/** A factory returned what no column can hold. Says nothing of the value. */
class FactoryValueError extends Error {
  constructor(property: string, returned: string) {
    super(`The factory of '${property}' returned ${returned}; wanted: a value of the property, or null.`);
  }
}

/**
 * What one batch writes to the scrubbed columns. Static factories make one value a tenant; if any makes one a row, the
 * locked rows are read first, with what they hold in the columns whose factories want to see it.
 */
export async function scrubValues(
  tx: Executor,
  { factories }: Pick<EngineContext, 'factories'>,
  selection: Selection,
  locked: LockedRows,
  now: Date,
): Promise<ScrubValues> {
  const { entry, slices } = selection;
  const factoryOf = (scrub: FactoryScrub) => factories.get(scrub.factory)!;
  const isPerRow = (scrub: ColumnScrub): scrub is FactoryScrub =>
    'factory' in scrub && (factoryOf(scrub).mode ?? 'static') !== 'static';
  const wanting = entry.scrubs.filter(isPerRow).filter((scrub) => factoryOf(scrub).mode === 'perRowWithOriginalValue');
  const rows = entry.scrubs.some(isPerRow)
    ? await selectOriginals(
        tx,
        selection,
        locked,
        wanting.map((scrub) => scrub.column),
      )
    : [];

  const make = (scrub: FactoryScrub, slice: number, originalValue: unknown): string | null => {
    const { property } = scrub.column;
    const context = {
      entity: entry.entityName,
      property,
      originalValue,
      now: new Date(now),
      tenantId: slices[slice]!.tenantId,
    };
    return storedText(property, scrub.toStored(requireValue(property, factoryOf(scrub), context)));
  };
  const scrubs = entry.scrubs.map((scrub): ScrubValue => {
    const { column } = scrub;
    if (!('factory' in scrub)) return { column, all: scrub.literal ?? null };
    if (!isPerRow(scrub)) return { column, perSlice: slices.map((_, slice) => make(scrub, slice, null)) };
    const place = wanting.indexOf(scrub);
    const original = (row: OriginalRow) => (place < 0 ? null : scrub.fromStored(row.values[place]));
    return { column, perRow: rows.map((row) => make(scrub, row.slice, original(row))) };
  });
  return { scrubs, rows };
}

function requireValue(
  property: string,
  factory: AnonymiseFactory,
  context: Parameters<AnonymiseFactory['create']>[0],
): unknown {
  const value = factory.create(context);
  if (value === undefined) throw new FactoryValueError(property, 'nothing');
  if (typeof (value as { then?: unknown } | null)?.then === 'function') {
    // If it rejects, that must not end the process.
    void Promise.resolve(value).catch(() => undefined);
    throw new FactoryValueError(property, 'a promise');
  }
  return value;
}

function storedText(property: string, stored: unknown): string | null {
  const text = toText(stored);
  if (text !== undefined) return text;
  throw new FactoryValueError(
    property,
    `what cannot be stored (${stored instanceof Date ? 'an invalid Date' : typeof stored})`,
  );
}
