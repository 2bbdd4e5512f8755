import type { Metadata } from '@grpc/grpc-js';
import { Controller } from '@nestjs/common';
import { GrpcMethod } from '@nestjs/microservices';
import { Needs } from '../access/access.guard.js';
import { type Caller, callerOf } from '../access/caller.js';
import { tenantOf } from '../access/principal.js';
import { refuse } from '../problem.js';
import { type CandidateKind, PLATFORM } from '../vocabulary.js';
import { MAX_CANDIDATES } from './residency.schemas.js';
import { type EvaluateCandidate, type ResidencyDecision, ResidencyService } from './residency.service.js';

export interface EvaluateResidencyRequest {
  readonly tenantId: string;
  readonly kind: string;
  readonly storeClass: string;
  readonly engine: string;
  readonly region: string;
  readonly candidateId: string;
  readonly dryRun: boolean;
}

const NEEDS = { scope: 'factory.data.read', forServices: true } as const;
const KINDS: Readonly<Record<string, CandidateKind>> = {
  STORE_BINDING: 'store-binding',
  MODEL_DEPLOYMENT: 'model-deployment',
  CONNECTOR: 'connector',
};

@Controller()
export class ResidencyGrpcController {
  constructor(private readonly residency: ResidencyService) {}

  @GrpcMethod('Retention', 'EvaluateResidency')
  @Needs(NEEDS)
  evaluateResidency(request: EvaluateResidencyRequest, metadata: Metadata) {
    return this.decide(read(request, callerOf(metadata), ''));
  }

  @GrpcMethod('Retention', 'EvaluateResidencyBatch')
  @Needs(NEEDS)
  evaluateResidencyBatch({ candidates }: { candidates: EvaluateResidencyRequest[] }, metadata: Metadata) {
    if (candidates.length > MAX_CANDIDATES) {
      const detail = `${candidates.length} candidates; at most ${MAX_CANDIDATES} are decided in one call.`;
      throw refuse('validation', '/candidates', detail);
    }
    const caller = callerOf(metadata);
    // All are read before one is decided, so that a call that fails has counted nothing.
    const checked = candidates.map((each, index) => read(each, caller, `/candidates/${index}`));
    return { results: checked.map((each) => this.decide(each)) };
  }

  private decide(candidate: EvaluateCandidate) {
    return toMessage(this.residency.evaluate(candidate));
  }
}

/** Throws a Problem. */
function read(
  request: EvaluateResidencyRequest,
  { principal, tenantId: own }: Caller,
  path: string,
): EvaluateCandidate {
  const { storeClass, engine, region, dryRun } = request;
  const named = request.tenantId === '' ? undefined : request.tenantId;
  const tenantId = named === undefined ? own : tenantOf(principal, NEEDS.scope, named, `${path}/tenant_id`);
  if (tenantId === PLATFORM) throw refuse('validation', `${path}/tenant_id`, 'tenant_id is missing.');
  const kind = KINDS[request.kind];
  if (!kind) {
    const wanted = Object.keys(KINDS).join(', ');
    throw refuse('validation', `${path}/kind`, `The kind is none that is known; wanted is one of ${wanted}.`);
  }
  return { tenantId, kind, storeClass, engine, region, dryRun };
}

function toMessage({ evaluatedAt, ...decision }: ResidencyDecision) {
  const ms = evaluatedAt.getTime();
  return { ...decision, evaluatedAt: { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 } };
}
