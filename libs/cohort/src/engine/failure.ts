import { CohortError } from '../cohort.errors.js';
import type { EngineContext } from './context.js';

/** What the ledger and the result keep of a failure: never a message, a stack, an SQL value or a subject. */
export interface EntityFailure {
  readonly entity: string;
  readonly entityId: string;
  /** `entity=Name (id);type=…;code=…;diagnosticId=…`; the log has the error itself under the same id. */
  readonly error: string;
}

const MAX_ERROR_LENGTH = 4000;
export const RECOVERED =
  'The process that owned this run stopped giving signs of life; the run was recovered as failed.';

/** The SQLSTATE of a database error, however it was wrapped. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = (rootCause(error) as { code?: unknown } | undefined)?.code;
  // Five capitals alone are a code of the operating system, such as EPIPE; every SQLSTATE has a digit.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Logs the error under a new diagnostic id and returns the envelope that may be persisted. */
export function sanitise(
  { logger, newId }: Pick<EngineContext, 'logger' | 'newId'>,
  where: string,
  error: unknown,
  extra = '',
): string {
  const diagnosticId = newId().replaceAll('-', '');
  logger.error(`${where} failed; diagnosticId=${diagnosticId}`, error);
  return `type=${typeName(error)};code=${machineCode(error)}${extra};diagnosticId=${diagnosticId}`;
}

/** Failures as one text, cut at a line's end. */
export function joinFailures(failures: readonly EntityFailure[]): string {
  const text = failures.map((failure) => failure.error).join('\n');
  if (text.length <= MAX_ERROR_LENGTH) return text;
  const end = text.lastIndexOf('\n', MAX_ERROR_LENGTH);
  return text.slice(0, end > 0 ? end : MAX_ERROR_LENGTH);
}

function machineCode(error: unknown): string {
  const sqlState = sqlStateOf(error);
  if (sqlState) return `sqlstate:${sqlState}`;
  const root = rootCause(error);
  if (root instanceof CohortError) return root.code;
  const code = (root as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,40}$/.test(code) ? code : 'none';
}

function typeName(error: unknown): string {
  const name = (rootCause(error) as object | undefined)?.constructor?.name ?? 'Error';
  return name.replace(/[^A-Za-z0-9._+`]/g, '_').slice(0, 512) || 'Error';
}

function rootCause(error: unknown): unknown {
  let current = error;
  for (let depth = 0; depth < 20 && current instanceof Error && current.cause instanceof Error; depth++)
    current = current.cause;
  return current;
}
