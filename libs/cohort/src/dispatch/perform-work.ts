import { RequestContext } from '@mikro-orm/core';
import { backoffMs } from '../domain/backoff.js';
import { type RetentionAfterContext, findHandler } from '../domain/row-handler.js';
import type { Strategy } from '../domain/strategy.js';
import { unlessAborted } from '../domain/unless-aborted.js';
import type { EngineContext } from '../engine/context.js';
import { sanitise } from '../engine/failure.js';
import { decodeSnapshot } from '../handlers/snapshot.js';
import type { ClaimedWork, WorkOutcome } from '../sql/handler-queue.js';

const PAYLOAD_SCRUBBED = 'The captured snapshot of this row was scrubbed before its handler could use it.';

/** Queued work names an entity that this model does not retain. */
class UnknownEntityError extends Error {
  constructor(entityId: string) {
    super(`No retained entity of this model has the id ${entityId}.`);
  }
}

/** A handler used up its share of the lease: soon somebody else may take over. */
class LeaseTimeoutError extends Error {
  constructor(ms: number) {
    super(`onAfter took more than ${Math.round(ms)} ms, nine tenths of claimTimeout.`);
  }
}

export interface WorkLimits {
  /** Of the lease, what is left for the handler. */
  readonly leaseMs: number;
  /** The host stops: handlers are asked to end, and have a moment to do so. */
  readonly stop: AbortSignal;
  /** From 0 to 1. */
  readonly random: number;
}

/** How long a handler may go on when the host stops. What it completes until then counts. */
const GRACE_MS = 10_000;

/** Calls the handler that queued work is for. Never throws: every end is an outcome. */
export async function performWork(ctx: EngineContext, work: ClaimedWork, limits: WorkLimits): Promise<WorkOutcome> {
  const { id, token } = work;
  const end = (state: WorkOutcome['state'], error: string | null, delayMs = 0): WorkOutcome => ({
    ...{ id, token, state, error, delayMs, unmade: 0 },
  });
  if (work.payload === null) return end('deadLettered', PAYLOAD_SCRUBBED);
  try {
    if (!ctx.registry.find(work.entityId)) throw new UnknownEntityError(work.entityId);
    const handler = findHandler(ctx.handlers, work.entityId, work.handlerType);
    if (!handler) return end('deadLettered', `No row handler is registered for ${work.handlerType}.`);
    const snapshot = decodeSnapshot(work.payload);
    await withinLimits(limits, (signal) =>
      RequestContext.create(ctx.orm.em, async () => handler.instance.onAfter?.(toContext(work, snapshot, signal))),
    );
    return end('succeeded', null);
  } catch (error) {
    if (limits.stop.aborted) return end('pending', null);
    const { maxAttempts, baseBackoffMs: baseMs, maxBackoffMs: maxMs } = ctx.settings.dispatch;
    const envelope = sanitise(ctx, `Row handler ${work.handlerType} of ${work.entity} (work ${id})`, error);
    if (work.attempt >= maxAttempts) return end('deadLettered', envelope);
    return end('pending', envelope, backoffMs(work.attempt, { baseMs, maxMs }, limits.random));
  }
}

function toContext(work: ClaimedWork, snapshot: RetentionAfterContext['snapshot'], signal: AbortSignal) {
  const { sweepId, entity, entityId, recordId, category, tenantId, at, attempt } = work;
  const strategy = work.strategy as Exclude<Strategy, 'exempt'>;
  return Object.freeze({
    sweepId,
    entity,
    entityId,
    recordId,
    category,
    strategy,
    tenantId,
    at,
    attempt,
    snapshot,
    signal,
  });
}

/** Runs `call` under a signal that says when to stop, and gives it up a moment after that, or when the lease is nearly over. */
async function withinLimits(
  { leaseMs, stop }: WorkLimits,
  call: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const timers = [setTimeout(() => over.abort(new LeaseTimeoutError(leaseMs)), leaseMs)];
  const stopping = () => timers.push(setTimeout(() => over.abort(stop.reason), GRACE_MS));
  stop.addEventListener('abort', stopping, { once: true });
  if (stop.aborted) stopping();
  try {
    await unlessAborted(call(AbortSignal.any([stop, over.signal])), over.signal);
  } finally {
    timers.forEach(clearTimeout);
    stop.removeEventListener('abort', stopping);
  }
}
