import { InvalidArgumentError } from '../cohort.errors.js';
import { requireText } from './arguments.js';
import { Strategy, isOneOf } from './strategy.js';
import { isIdentity } from './uuid.js';

export type SweepTrigger = 'scheduled' | 'manual' | 'erasure' | 'deletion';

interface OfRun {
  readonly sweepId: string;
  readonly passId: string;
  /** The zero UUID for a run without a tenant. */
  readonly tenantId: string;
  readonly at: Date;
}

interface OfEntity extends OfRun {
  readonly entity: string;
  readonly entityId: string;
  readonly category: string;
  readonly strategy: Strategy;
}

interface OfEnd extends OfRun {
  readonly totalAffected: number;
  readonly durationMs: number;
}

/** What an observer is told. Every event stands in the ledger, committed, before it is sent. */
export type SweepEvent =
  | (OfRun & {
      readonly type: 'started';
      readonly trigger: SweepTrigger;
      readonly dryRun: boolean;
      /** Of an erasure: the kinds of identifiers asked for, joined by commas. Null: none were. */
      readonly subjectKind: string | null;
    })
  /** One row, where per-row detail is on. */
  | (OfEntity & { readonly type: 'rowDetail'; readonly recordId: string })
  /** One batch. `skipped` are rows that a handler kept. */
  | (OfEntity & { readonly type: 'entityProgress'; readonly affected: number; readonly skipped: number })
  | (OfEntity & {
      readonly type: 'entitySummary';
      readonly resolvedPeriod: string;
      readonly affected: number;
      readonly held: number;
      readonly skipped: number;
      readonly nullAnchor: number;
      readonly skippedByCause: Readonly<Record<string, number>>;
    })
  | (OfEnd & { readonly type: 'completed' })
  | (OfEnd & { readonly type: 'partiallyFailed'; readonly error: string })
  | (OfEnd & { readonly type: 'failed'; readonly error: string })
  | (OfEnd & { readonly type: 'cancelled' });

const TRIGGERS = { scheduled: 'scheduled', manual: 'manual', erasure: 'erasure', deletion: 'deletion' } as const;
const NUMBERS = ['affected', 'held', 'skipped', 'nullAnchor', 'totalAffected', 'durationMs'];
const TEXTS = ['tenantId', 'entity', 'category', 'recordId', 'error', 'resolvedPeriod'];

/** Freezes an event, once it is sure that it says what it should. */
export function sweepEvent<E extends SweepEvent>(event: E): E {
  const fields = event as unknown as Record<string, unknown>;
  const check = (key: string, isRight: (value: unknown) => boolean, wanted: string) => {
    if (key in fields && !isRight(fields[key])) throw new InvalidArgumentError(`event.${key}`, fields[key], wanted);
  };
  for (const key of ['sweepId', 'passId', 'entityId']) check(key, isIdentity, 'a UUID, not the zero UUID');
  for (const key of TEXTS) if (key in fields) requireText(fields[key], `event.${key}`);
  if (fields['subjectKind'] != null) requireText(fields['subjectKind'], 'event.subjectKind');
  for (const key of NUMBERS)
    check(key, (value) => Number.isSafeInteger(value) && (value as number) >= 0, 'a whole number, 0 or more');
  check('strategy', (value) => isOneOf(Strategy, value), 'a strategy');
  check('trigger', (value) => isOneOf(TRIGGERS, value), 'what may start a run');
  check('at', (value) => value instanceof Date && !Number.isNaN(value.getTime()), 'a Date');
  return Object.freeze(event);
}
