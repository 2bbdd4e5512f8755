import { Body, Controller, Get, Headers, Param, Put, Query, Res } from '@nestjs/common';
import { ApiExtraModels, ApiHeader, ApiOkResponse, ApiParam, ApiTags, getSchemaPath } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Needs } from '../access/access.guard.js';
import { type Caller, CurrentCaller, actorOf } from '../access/caller.js';
import { isPlatformAdmin } from '../access/principal.js';
import { requireTenant } from '../access/require-tenant.js';
import { Documented, ProblemView } from '../platform/api-docs.js';
import { bodyPipe, queryPipe, versionIn } from '../platform/validation.js';
import { Problem } from '../problem.js';
import { CLASSIFICATIONS, PLATFORM, RULED_STORE_CLASSES, classificationOf, ruledStoreClass } from '../vocabulary.js';
import {
  DryRunQuery,
  ExplainQuery,
  ExplainedRuleView,
  PutRetentionBody,
  RetentionImpactView,
  RetentionQuery,
  RetentionRuleView,
  RetentionRulesView,
  toExplainedView,
  toImpactView,
  toRuleView,
} from './rules.schemas.js';
import { RulesService, type SetRetentionRule } from './rules.service.js';

@ApiTags('retention')
@ApiExtraModels(ProblemView, RetentionRuleView, RetentionImpactView)
@Controller('factory/data/retention')
export class RulesController {
  constructor(private readonly rules: RulesService) {}

  /** Effective retention per store class and classification: platform defaults and the tenant's overrides. */
  @Get()
  @Needs({ scope: 'factory.data.read', forServices: true })
  @Documented('factory.data.read')
  @ApiOkResponse({ type: RetentionRulesView })
  async listRetentionRules(
    @CurrentCaller() { tenantId }: Caller,
    @Query(queryPipe) { storeClass, classification }: RetentionQuery,
  ): Promise<RetentionRulesView> {
    const rules = await this.rules.listRetentionRules(tenantId, {
      ...(storeClass !== undefined && { storeClass: ruledStoreClass(storeClass, 'query:storeClass') }),
      ...(classification !== undefined && { classification: classificationOf(classification, 'query:classification') }),
    });
    return { tenantId, rules: rules.map(toRuleView) };
  }

  /** How the value in force comes about. */
  @Get('explain')
  @Needs({ scope: 'factory.data.read', forServices: true })
  @Documented('factory.data.read')
  @ApiOkResponse({ type: ExplainedRuleView })
  async explainRetentionRule(
    @CurrentCaller() { tenantId }: Caller,
    @Query(queryPipe) { storeClass, classification = 'public' }: ExplainQuery,
  ): Promise<ExplainedRuleView> {
    const ruled = ruledStoreClass(storeClass, 'query:storeClass');
    const classified = classificationOf(classification, 'query:classification');
    return toExplainedView(await this.rules.explainRetentionRule(tenantId, ruled, classified));
  }

  /** Shorten retention for the tenant, or set a platform default. A shortening takes force after the grace. */
  @Put(':storeClass/:classification')
  @Needs({ scope: 'factory.data.admin' })
  @Documented('factory.data.admin')
  @ApiHeader({ name: 'If-Match', required: false, description: 'The version that was read.' })
  @ApiParam({ name: 'storeClass', enum: RULED_STORE_CLASSES })
  @ApiParam({ name: 'classification', enum: CLASSIFICATIONS })
  @ApiOkResponse({
    description: 'The rule, or with dryRun what would change.',
    headers: { ETag: { description: 'The version.', schema: { type: 'string' } } },
    schema: { oneOf: [{ $ref: getSchemaPath(RetentionRuleView) }, { $ref: getSchemaPath(RetentionImpactView) }] },
  })
  async setRetentionRule(
    @CurrentCaller() caller: Caller,
    @Param('storeClass') storeClass: string,
    @Param('classification') classification: string,
    @Query(queryPipe) { dryRun }: DryRunQuery,
    @Body(bodyPipe) body: PutRetentionBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<RetentionRuleView | RetentionImpactView> {
    const ifVersion = versionIn(ifMatch);
    const command: SetRetentionRule = {
      ...body,
      ...targetOf(caller, body),
      storeClass: ruledStoreClass(storeClass, 'path:storeClass'),
      classification: classificationOf(classification, 'path:classification'),
      ...(ifVersion !== undefined && { ifVersion }),
    };
    if (dryRun === 'true') return toImpactView(await this.rules.previewRetentionRule(command));
    const view = toRuleView(await this.rules.setRetentionRule(command, actorOf(caller)));
    void reply.header('ETag', `"${view.version}"`);
    return view;
  }
}

/** Whose rule is set. Platform defaults and exemptions from legal holds are a PlatformAdmin's (G20). Throws a Problem. */
function targetOf(caller: Caller, { scope = 'tenant', legalHoldExempt }: PutRetentionBody) {
  if ((scope === 'platform' || legalHoldExempt) && !isPlatformAdmin(caller.principal)) {
    const what = scope === 'platform' ? 'A platform default' : 'legalHoldExempt';
    throw new Problem('insufficient-scope', `${what} is for the role PlatformAdmin alone.`);
  }
  if (scope === 'tenant') return { scope, tenantId: requireTenant(caller) };
  if (caller.tenantId === PLATFORM) return { scope, tenantId: PLATFORM };
  const detail = 'X-Tenant-Id names a tenant and scope is platform: leave one of them out.';
  throw new Problem('validation', detail, { faults: [{ pointer: 'header:X-Tenant-Id', detail }] });
}
