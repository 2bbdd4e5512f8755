import { Metadata } from '@grpc/grpc-js';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Observable, throwError } from 'rxjs';
import { Problem } from '../problem.js';
import { MALFORMED_HTTP, PROBLEMS } from './error-map.js';
import { STATUS_DETAILS, statusDetails } from './grpc-status.js';
import { isPassing, isUnreachable } from './database-error.js';
import { TimeAndIds } from './time-and-ids.js';
import { traceIdOf } from './trace.js';

/** Turns whatever was thrown into problem+json (RFC 9457) or a gRPC status with ErrorInfo. What is not a Problem stays in the log. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger('Problem');

  constructor(private readonly timeAndIds: TimeAndIds) {}

  catch(error: unknown, host: ArgumentsHost): Observable<never> | void {
    if (host.getType() === 'rpc') {
      const [traceparent] = host.switchToRpc().getContext<Metadata>().get('traceparent');
      const traceId = traceIdOf(traceparent, () => this.timeAndIds.newId());
      return throwError(() => this.grpcError(this.problemOf(error, traceId)));
    }
    const http = host.switchToHttp();
    const request = http.getRequest<FastifyRequest>();
    this.send(this.problemOf(error, request.id), error, request, http.getResponse<FastifyReply>());
  }

  private problemOf(error: unknown, traceId: string): Problem {
    if (error instanceof Problem) {
      if (error.cause !== undefined) this.logger.warn(`${error.code}: ${(error.cause as Error).message}`);
      return error;
    }
    const status = statusOf(error);
    if (status === 404) return new Problem('not-found', 'There is nothing at this path.');
    if (status >= 400 && status < 500) {
      return new Problem('validation', clientFault(status), { isMalformed: true, cause: undefined });
    }
    if (isUnreachable(error) || isPassing(error)) {
      this.logger.warn(`The database did not do it: ${(error as Error).message.split('\n')[0]}`);
      return new Problem('dependency-unavailable', 'The database is not available; try again.', {
        retryAfterSeconds: 1,
      });
    }
    this.logger.error({ err: error, traceId }, 'An error that nobody expected.');
    return new Problem('internal', `It is in our log under ${traceId}.`);
  }

  private send(problem: Problem, error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const { http, title } = PROBLEMS[problem.code];
    // What Fastify refuses has a status of its own: 413, 415.
    const given = error instanceof Problem ? MALFORMED_HTTP : statusOf(error);
    const status = problem.isMalformed ? given : http;
    if (status === 401) void reply.header('WWW-Authenticate', 'Bearer');
    if (problem.retryAfterSeconds !== undefined) void reply.header('Retry-After', String(problem.retryAfterSeconds));
    void reply
      .status(status)
      .header('Content-Type', 'application/problem+json')
      .send({
        type: `urn:retention-residency:problem:${problem.code}`,
        title,
        status,
        detail: problem.message,
        instance: request.url.split('?')[0],
        code: problem.code,
        traceId: request.id,
        ...(problem.faults.length > 0 && { errors: problem.faults }),
      });
  }

  private grpcError(problem: Problem) {
    const { grpc } = PROBLEMS[problem.code];
    const metadata = new Metadata();
    metadata.set(STATUS_DETAILS, statusDetails(grpc, problem.message, problem.code));
    if (problem.retryAfterSeconds !== undefined) metadata.set('retry-after', String(problem.retryAfterSeconds));
    return { code: grpc, message: problem.message, details: problem.message, metadata };
  }
}

function statusOf(error: unknown): number {
  if (error instanceof HttpException) return error.getStatus();
  const { statusCode, code } = (error ?? {}) as { statusCode?: unknown; code?: unknown };
  // Fastify marks its own refusals.
  return typeof statusCode === 'number' && typeof code === 'string' && code.startsWith('FST_') ? statusCode : 500;
}

function clientFault(status: number): string {
  if (status === 413) return 'The body is too large.';
  if (status === 415) return 'The body must be JSON: send Content-Type: application/json.';
  return 'The request could not be read: the body must be one JSON value.';
}
