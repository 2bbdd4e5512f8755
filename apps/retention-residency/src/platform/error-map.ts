import { status } from '@grpc/grpc-js';
import type { ProblemCode } from '../problem.js';

/** What a code means on the wire. docs/errors.md says the same, which a test compares. */
export interface ProblemMeaning {
  readonly http: number;
  readonly grpc: status;
  readonly title: string;
}

/** `validation` of a request that cannot be read at all. */
export const MALFORMED_HTTP = 400;

export const PROBLEMS: Readonly<Record<ProblemCode, ProblemMeaning>> = {
  validation: { http: 422, grpc: status.INVALID_ARGUMENT, title: 'The request is not valid' },
  unauthorized: { http: 401, grpc: status.UNAUTHENTICATED, title: 'A valid access token is needed' },
  'insufficient-scope': { http: 403, grpc: status.PERMISSION_DENIED, title: 'The token does not allow this' },
  'not-found': { http: 404, grpc: status.NOT_FOUND, title: 'Not found' },
  'retention-ceiling': { http: 422, grpc: status.INVALID_ARGUMENT, title: 'Longer than the platform allows' },
  'retention-floor': { http: 422, grpc: status.INVALID_ARGUMENT, title: 'Less than audit evidence needs' },
  'unknown-store-class': { http: 422, grpc: status.INVALID_ARGUMENT, title: 'The store class has no rule' },
  'region-not-offered': { http: 422, grpc: status.INVALID_ARGUMENT, title: 'The region is not offered' },
  'precondition-failed': { http: 412, grpc: status.ABORTED, title: 'Changed since it was read' },
  'not-yet-available': { http: 501, grpc: status.UNIMPLEMENTED, title: 'Not yet available' },
  'rate-limited': { http: 429, grpc: status.RESOURCE_EXHAUSTED, title: 'Too many requests' },
  'dependency-unavailable': { http: 503, grpc: status.UNAVAILABLE, title: 'Something we depend on is not available' },
  internal: { http: 500, grpc: status.INTERNAL, title: 'An error of ours' },
};
