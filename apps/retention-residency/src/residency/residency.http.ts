import { Body, Controller, Get, Headers, HttpCode, Post, Put, Query, Res } from '@nestjs/common';
import { ApiBody, ApiExtraModels, ApiHeader, ApiOkResponse, ApiTags, getSchemaPath } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Needs } from '../access/access.guard.js';
import { type Caller, CurrentCaller, actorOf } from '../access/caller.js';
import { requireTenant } from '../access/require-tenant.js';
import { Documented, ProblemView } from '../platform/api-docs.js';
import { bodyPipe, queryPipe, versionIn } from '../platform/validation.js';
import { Problem } from '../problem.js';
import { DryRunQuery } from '../rules/rules.schemas.js';
import {
  BindingsQuery,
  BindingsView,
  CandidateBody,
  CandidatesBody,
  DecisionView,
  DecisionsView,
  PutResidencyBody,
  ResidencyImpactView,
  ResidencyView,
  toBindingView,
  toDecisionView,
  toResidencyView,
} from './residency.schemas.js';
import { ResidencyService, type SetResidency } from './residency.service.js';

@ApiTags('residency')
@ApiExtraModels(
  ProblemView,
  ResidencyView,
  ResidencyImpactView,
  CandidateBody,
  CandidatesBody,
  DecisionView,
  DecisionsView,
)
@Controller('factory/data/residency')
export class ResidencyController {
  constructor(private readonly residency: ResidencyService) {}

  /** The tenant's region and allowed engines per class. */
  @Get()
  @Needs({ scope: 'factory.data.read', forServices: true })
  @Documented('factory.data.read')
  @ApiOkResponse({ type: ResidencyView, headers: { ETag: { schema: { type: 'string' } } } })
  async getResidency(
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ResidencyView> {
    const view = toResidencyView(await this.residency.getResidency(requireTenant(caller)));
    void reply.header('ETag', `"${view.ruleVersion}"`);
    return view;
  }

  /** Select the tenant's region, and the regions and engines that it may use. */
  @Put()
  @Needs({ scope: 'factory.data.admin' })
  @Documented('factory.data.admin')
  @ApiHeader({ name: 'If-Match', required: false, description: 'The version that was read.' })
  @ApiOkResponse({
    description: 'The rule, or with dryRun what it would mean for the known bindings.',
    headers: { ETag: { description: 'The version.', schema: { type: 'string' } } },
    schema: { oneOf: [{ $ref: getSchemaPath(ResidencyView) }, { $ref: getSchemaPath(ResidencyImpactView) }] },
  })
  async setResidency(
    @CurrentCaller() caller: Caller,
    @Query(queryPipe) { dryRun }: DryRunQuery,
    @Body(bodyPipe) body: PutResidencyBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ResidencyView | ResidencyImpactView> {
    const ifVersion = versionIn(ifMatch);
    const tenantId = requireTenant(caller);
    const command: SetResidency = { ...body, tenantId, ...(ifVersion !== undefined && { ifVersion }) };
    if (dryRun === 'true') return this.residency.previewResidency(command);
    const view = toResidencyView(await this.residency.setResidency(command, actorOf(caller)));
    void reply.header('ETag', `"${view.ruleVersion}"`);
    return view;
  }

  /** Check one candidate, or up to 50, against the tenant's residency rule. */
  @Post('evaluate')
  @HttpCode(200)
  @Needs({ scope: 'factory.data.read', forServices: true })
  @Documented('factory.data.read')
  @ApiBody({ schema: { oneOf: [{ $ref: getSchemaPath(CandidateBody) }, { $ref: getSchemaPath(CandidatesBody) }] } })
  @ApiOkResponse({
    schema: { oneOf: [{ $ref: getSchemaPath(DecisionView) }, { $ref: getSchemaPath(DecisionsView) }] },
  })
  async evaluateResidency(
    @CurrentCaller() caller: Caller,
    @Body() body: Record<string, unknown>,
  ): Promise<DecisionView | DecisionsView> {
    const tenantId = requireTenant(caller);
    const isBatch = typeof body === 'object' && body !== null && 'candidates' in body;
    if (!isBatch) return this.decide(tenantId, await shaped(body, CandidateBody));
    const { candidates } = await shaped(body, CandidatesBody);
    return { results: candidates.map((each) => this.decide(tenantId, each)) };
  }

  /** Where the tenant's stores are bound, as last checked. */
  @Get('bindings')
  @Needs({ scope: 'factory.data.read' })
  @Documented('factory.data.read')
  @ApiOkResponse({ type: BindingsView })
  async listBindings(
    @CurrentCaller() caller: Caller,
    @Query(queryPipe) { violations, cursor, limit = '50' }: BindingsQuery,
  ): Promise<BindingsView> {
    const after = cursor === undefined ? '' : decodeCursor(cursor);
    const tenantId = requireTenant(caller);
    const page = await this.residency.listBindings(tenantId, violations === 'true', after, Number(limit));
    const nextCursor = page.nextCursor === null ? null : Buffer.from(page.nextCursor).toString('base64url');
    return { items: page.items.map(toBindingView), nextCursor };
  }

  private decide(tenantId: string, candidate: CandidateBody): DecisionView {
    const { kind, storeClass = '', engine = '', region, dryRun = false } = candidate;
    return toDecisionView(this.residency.evaluate({ tenantId, kind, storeClass, engine, region, dryRun }));
  }
}

async function shaped<T>(body: unknown, metatype: new () => T): Promise<T> {
  return (await bodyPipe.transform(body, { type: 'body', metatype })) as T;
}

function decodeCursor(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  if (Buffer.from(text).toString('base64url') === cursor && !text.includes('\0')) return text;
  const detail = 'This is no cursor of this list; take nextCursor of the page before.';
  throw new Problem('validation', detail, { faults: [{ pointer: 'query:cursor', detail }], isMalformed: true });
}
