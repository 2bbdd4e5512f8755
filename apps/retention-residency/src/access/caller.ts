import type { Metadata } from '@grpc/grpc-js';
import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Origin } from '../outbox/event.js';
import type { Actor } from '../platform/actor.js';
import { type Principal, isPlatformAdmin } from './principal.js';

/** Who calls, for which tenant, and from where. */
export interface Caller {
  readonly principal: Principal;
  /** Of the token or the header X-Tenant-Id; `*` where neither names one. */
  readonly tenantId: string;
  readonly origin: Origin;
}

const callers = new WeakMap<object, Caller>();

/** The object that a call has for itself: the request, or the metadata of gRPC. */
export function callOf(context: ExecutionContext): FastifyRequest | Metadata {
  return context.getType() === 'rpc'
    ? context.switchToRpc().getContext<Metadata>()
    : context.switchToHttp().getRequest<FastifyRequest>();
}

export function setCaller(call: object, caller: Caller): void {
  callers.set(call, caller);
}

export function callerOf(call: object): Caller {
  return callers.get(call) as Caller;
}

/** The caller that the guard has let in. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext) => callerOf(callOf(context)));

export function actorOf({ principal, origin }: Caller): Actor {
  return { clientId: principal.clientId, isPlatformAdmin: isPlatformAdmin(principal), origin };
}
