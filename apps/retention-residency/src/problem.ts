/** The error codes of the service. What each means on HTTP and gRPC stands in platform/error-map.ts and docs/errors.md. */
export type ProblemCode =
  | 'validation'
  | 'unauthorized'
  | 'insufficient-scope'
  | 'not-found'
  | 'retention-ceiling'
  | 'retention-floor'
  | 'unknown-store-class'
  | 'region-not-offered'
  | 'precondition-failed'
  | 'not-yet-available'
  | 'rate-limited'
  | 'dependency-unavailable'
  | 'internal';

/** One fault of a request: where it stands (a JSON pointer into the body, `header:NAME`, `query:NAME` or `path:NAME`) and what is wanted there. */
export interface Fault {
  readonly pointer: string;
  readonly detail: string;
}

/** The JSON pointer to a member of what `path` points to. */
export function pointerTo(path: string, name: string): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

export interface ProblemDetails {
  readonly faults?: readonly Fault[];
  /** The request could not be read at all: 400 instead of 422. */
  readonly isMalformed?: boolean;
  readonly retryAfterSeconds?: number;
  /** What really happened, for the log. */
  readonly cause?: unknown;
}

/** A request that is answered with an error. The message is shown to the caller: it never holds data of a tenant. */
export class Problem extends Error {
  readonly faults: readonly Fault[];
  readonly isMalformed: boolean;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    readonly code: ProblemCode,
    message: string,
    { faults = [], isMalformed = false, retryAfterSeconds, cause }: ProblemDetails = {},
  ) {
    super(message, { cause });
    this.name = 'Problem';
    this.faults = faults;
    this.isMalformed = isMalformed;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** A request whose values are understood and not accepted: one fault, named in the message too. */
export function refuse(code: ProblemCode, pointer: string, detail: string): Problem {
  return new Problem(code, detail, { faults: [{ pointer, detail }] });
}
