import type { Metadata, ServerUnaryCall } from '@grpc/grpc-js';
import { type CanActivate, type ExecutionContext, Inject, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyRequest } from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { originOf, traceIdOf } from '../platform/trace.js';
import { Problem } from '../problem.js';
import { Settings } from '../settings.js';
import { callOf, setCaller } from './caller.js';
import { type Access, type Principal, checkAccess, tenantOf } from './principal.js';
import { TokenVerifier } from './token-verifier.js';

const ACCESS = Symbol('access');
const OPEN = 'open';
const WINDOW_SECONDS = 10;
/** Refused tokens of one address in a window, before it has to wait. */
const REFUSED_TOKENS = 100;

/** What a call needs. A handler that says nothing is refused to everybody. */
export const Needs = (access: Access) => SetMetadata(ACCESS, access);
/** A handler that answers without a token. */
export const Open = () => SetMetadata(ACCESS, OPEN);

/** Lets in who brings a valid token with the scope and role that the handler needs, at a bearable rate. REST and gRPC alike. */
@Injectable()
export class AccessGuard implements CanActivate {
  private readonly rest: RateLimiterMemory;
  private readonly grpc: RateLimiterMemory;
  private readonly refused = new RateLimiterMemory({ points: REFUSED_TOKENS, duration: WINDOW_SECONDS });

  constructor(
    private readonly reflector: Reflector,
    private readonly verifier: TokenVerifier,
    private readonly timeAndIds: TimeAndIds,
    @Inject(Settings) settings: Pick<Settings, 'rateLimit' | 'grpcRateLimit'>,
  ) {
    this.rest = new RateLimiterMemory({ points: settings.rateLimit, duration: WINDOW_SECONDS });
    this.grpc = new RateLimiterMemory({ points: settings.grpcRateLimit, duration: WINDOW_SECONDS });
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const access = this.reflector.get<Access | typeof OPEN | undefined>(ACCESS, context.getHandler());
    if (access === OPEN) return true;
    if (!access) throw new Problem('insufficient-scope', 'Nobody may call this.');
    const isGrpc = context.getType() === 'rpc';
    const call = callOf(context);
    const header = isGrpc ? grpcHeader(call as Metadata) : restHeader(call as FastifyRequest);
    const address = isGrpc ? grpcAddress(context) : (call as FastifyRequest).ip;
    const principal = await this.authenticate(header('authorization'), address);
    await limit(isGrpc ? this.grpc : this.rest, principal.clientId);
    checkAccess(principal, access);
    const traceId = isGrpc
      ? traceIdOf(header('traceparent'), () => this.timeAndIds.newId())
      : (call as FastifyRequest).id;
    setCaller(call, {
      principal,
      tenantId: tenantOf(principal, access.scope, header('x-tenant-id'), 'header:X-Tenant-Id'),
      origin: originOf(traceId, header('x-correlation-id')),
    });
    return true;
  }

  private async authenticate(authorization: string | undefined, address: string): Promise<Principal> {
    try {
      return await this.verifier.verify(bearerToken(authorization));
    } catch (error) {
      if (error instanceof Problem && error.code === 'unauthorized') await limit(this.refused, address);
      throw error;
    }
  }
}

function bearerToken(authorization: string | undefined): string {
  const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (token) return token;
  throw new Problem('unauthorized', 'Send an access token: Authorization: Bearer TOKEN.');
}

async function limit(limiter: RateLimiterMemory, key: string): Promise<void> {
  try {
    await limiter.consume(key);
  } catch (error) {
    if (!(error instanceof RateLimiterRes)) throw error;
    const retryAfterSeconds = Math.max(1, Math.ceil(error.msBeforeNext / 1000));
    const detail = `More than ${limiter.points} requests in ${WINDOW_SECONDS} s; wait ${retryAfterSeconds} s.`;
    throw new Problem('rate-limited', detail, { retryAfterSeconds });
  }
}

type Header = (name: string) => string | undefined;

function restHeader({ headers }: FastifyRequest): Header {
  // A header that is sent twice is no header.
  return (name) => (typeof headers[name] === 'string' ? headers[name] : undefined);
}

/** Without the port, which every connection has anew. */
function grpcAddress(context: ExecutionContext): string {
  const call = context.getArgByIndex<ServerUnaryCall<unknown, unknown>>(2);
  return call.getPeer().replace(/:\d+$/, '');
}

function grpcHeader(metadata: Metadata): Header {
  return (name) => {
    const [value] = metadata.get(name);
    return typeof value === 'string' ? value : undefined;
  };
}
