import { DryRunOnlyError, InvalidArgumentError, SoftDeleteErasureError } from '../cohort.errors.js';
import { erasureCutoff, legalMinimumEnds } from '../domain/cutoff.js';
import type { ErasureIdentifier, ErasureScope } from '../domain/erasure-scope.js';
import { Strategy } from '../domain/strategy.js';
import type { TenantContext } from '../domain/tenant-context.js';
import { fitsType, isText } from '../registry/column-type.js';
import type { RetentionEntry, SubjectColumn } from '../registry/retention-entry.js';
import { tenantIdOf } from '../registry/retention-registry.js';
import { castText } from '../sql/columns.js';
import { type SubjectMatch, countTooYoung } from '../sql/selection.js';
import { type EngineContext, inLedger } from './context.js';
import type { EntitySweepCount } from './counts.js';
import { sqlStateOf } from './failure.js';
import { type MutatingWalk, selectForWalk } from './limit-walk.js';
import { type Pass, withPass } from './pass.js';
import { type Plan, type Walk, planWalks } from './plan.js';
import { toText } from './stored-text.js';
import { type RetentionSweepResult, failEntity, prepare, sweepEntity, toResults } from './sweep.js';
import { loadTableFacts, orderByForeignKeys } from './table-facts.js';

export interface ErasureRequest {
  readonly tenant: TenantContext;
  readonly scope: ErasureScope;
  readonly now: Date;
  readonly actor: string | null;
  readonly signal: AbortSignal | undefined;
}

/** Why rows of the person are still there. */
export interface ErasureBlock {
  /** Rows under an active hold. */
  readonly hold: number;
  /** Rows that the law wants kept. Those without an anchor, whose age nobody knows, are counted as `nullAnchor`. */
  readonly legalMinimum: number;
  /** When the first of those may be erased. Null: there are none. */
  readonly legalMinimumEnds: Date | null;
}

export interface EntityErasureCount extends EntitySweepCount {
  readonly blockedBy: ErasureBlock;
}

/** What one erasure came to. The same numbers stand in the ledger. */
export interface RetentionErasureResult extends RetentionSweepResult {
  /** Kinds of identifiers that were asked for; none for a whole tenant. */
  readonly subjectKinds: readonly string[];
  readonly counts: readonly EntityErasureCount[];
}

/**
 * One pass over one tenant. Everything that can be refused is refused before a run exists: kinds that nobody declares,
 * values of another type, and a request that would only soft-delete.
 */
export async function erase(ctx: EngineContext, request: ErasureRequest): Promise<RetentionErasureResult> {
  const { tenant, scope, now, actor, signal } = request;
  if (ctx.settings.dryRun && !scope.dryRun) throw new DryRunOnlyError();
  const subjects = await subjectsIn(ctx, scope);
  await prepare(ctx);
  const facts = await loadTableFacts(ctx);
  const entries = orderByForeignKeys(facts).filter((entry) => subjects.has(entry));
  const unbooked = { sweepId: '', tenant, tenantId: tenantIdOf(ctx.registry, tenant) };
  const plan = await planWalks(ctx, entries, [unbooked], { now, signal, cutoffOf: erasureCutoff });
  requireErasing(plan, scope);

  const tooYoung = new Map<string, TooYoung>();
  const settled = await withPass(
    ctx,
    {
      trigger: 'erasure',
      dryRun: scope.dryRun,
      subjectKind: scope.kinds.join(',') || null,
      tenants: [tenant],
      now,
      actor,
      signal,
    },
    async (pass) => {
      const { sweepId } = pass.runs[0]!;
      for (const { entry, error } of plan.failures) failEntity(ctx, pass, entry, [sweepId], error);
      for (const planned of plan.walks) {
        const slices = planned.slices.map((slice) => ({ ...slice, sweepId }));
        const walk = { ...planned, slices, subjects: subjects.get(planned.entry)! };
        await sweepEntity(ctx, pass, walk, facts.get(walk.entry)!);
        tooYoung.set(walk.entry.entityId, await lookAtAge(ctx, pass, walk));
      }
    },
  );
  const [result] = await toResults(ctx, settled);
  return { ...result!, subjectKinds: scope.kinds, counts: result!.counts.map((count) => withBlocks(count, tooYoung)) };
}

type TooYoung = Pick<ErasureBlock, 'legalMinimum' | 'legalMinimumEnds'>;

const NONE: TooYoung = { legalMinimum: 0, legalMinimumEnds: null };

async function lookAtAge(ctx: EngineContext, pass: Pass, walk: Walk): Promise<TooYoung> {
  pass.signal.throwIfAborted();
  const [slice] = walk.slices;
  const { legalMin } = slice!.rule;
  const failed = pass.failures.get(slice!.sweepId)?.some((each) => each.entityId === walk.entry.entityId);
  if (walk.strategy === Strategy.Exempt || failed || slice!.cutoff === null || legalMin === undefined) return NONE;
  const selection = selectForWalk(ctx, walk as MutatingWalk, walk.slices);
  const { rows, oldest } = await inLedger(ctx, (tx) => countTooYoung(tx, selection));
  return { legalMinimum: rows, legalMinimumEnds: oldest && legalMinimumEnds(oldest, legalMin) };
}

function withBlocks(count: EntitySweepCount, tooYoung: ReadonlyMap<string, TooYoung>): EntityErasureCount {
  return { ...count, blockedBy: { hold: count.held, ...(tooYoung.get(count.entityId) ?? NONE) } };
}

/** Data that is only hidden is not erased; who accepts that says so. */
function requireErasing({ walks }: Plan, scope: ErasureScope): void {
  if (scope.allowSoftDeleteAsErasure) return;
  const hiding = walks.filter((walk) => walk.strategy === Strategy.SoftDelete).map((walk) => walk.entry.entityName);
  if (hiding.length > 0) throw new SoftDeleteErasureError(hiding);
}

/** What the person is compared with, in every entity that has columns of the kinds asked for. Tenantless entities have none. */
async function subjectsIn(
  ctx: EngineContext,
  scope: ErasureScope,
): Promise<ReadonlyMap<RetentionEntry, readonly SubjectMatch[]>> {
  const identifiers = scope.identifiers();
  const tenanted = ctx.registry.entries.filter((entry) => entry.tenant !== null);
  if (!identifiers) return new Map(tenanted.map((entry) => [entry, []]));
  const known = [...new Set(tenanted.flatMap((entry) => entry.subjects.map((subject) => subject.kind)))].sort();
  const unknown = scope.kinds.find((kind) => !known.includes(kind));
  if (unknown !== undefined)
    throw new InvalidArgumentError(
      'scope.kind',
      unknown,
      `a kind of @ErasureSubject: ${known.join(', ') || 'there is none'}`,
    );
  const matches = new Map<RetentionEntry, SubjectMatch[]>();
  for (const entry of tenanted) {
    const found: SubjectMatch[] = [];
    for (const subject of entry.subjects)
      for (const identifier of identifiers.filter((each) => each.kind === subject.kind))
        found.push(await matchOf(ctx, entry, subject, identifier));
    if (found.length > 0) matches.set(entry, found);
  }
  return matches;
}

/** The value as the column has it. What cannot be one is refused; it is personal, and not named. */
async function matchOf(
  ctx: EngineContext,
  entry: RetentionEntry,
  { column, foldCase, toStored }: SubjectColumn,
  { kind, value }: Required<ErasureIdentifier>,
): Promise<SubjectMatch> {
  const refuse = () =>
    new InvalidArgumentError(
      'scope.subject',
      `a ${typeof value} of kind '${kind}'`,
      `a value of ${entry.entityName}.${column.property}, which is ${column.type}`,
    );
  let stored: unknown;
  try {
    stored = toStored(value);
  } catch {
    throw refuse();
  }
  const text = toText(stored);
  if (text === undefined || text === null) throw refuse();
  if (isText(column.type) ? typeof stored !== 'string' : !fitsType(column.type, text)) throw refuse();
  await inLedger(ctx, (tx) => castText(tx, column, text)).catch((error: unknown) => {
    throw /^2[23]/.test(sqlStateOf(error) ?? '') ? refuse() : error;
  });
  return { column, value: text, foldCase };
}
