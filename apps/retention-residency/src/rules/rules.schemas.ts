import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsInt, IsString, Max, Min, ValidateIf } from 'class-validator';
import { IsPlainText, MayBeLeftOut } from '../platform/validation.js';
import { CLASSIFICATIONS, EXPIRY_ACTIONS, type ExpiryAction, RULED_STORE_CLASSES } from '../vocabulary.js';
import type { ExplainedLayer, ExplainedRule } from './explain-rule.js';
import { MAX_RETENTION_DAYS, MIN_RETENTION_DAYS, type RetentionTerms } from './retention-terms.js';
import type { RetentionImpact, RuleAt } from './rules.service.js';

const days = { type: 'integer', minimum: MIN_RETENTION_DAYS, maximum: MAX_RETENTION_DAYS } as const;
const action = { enum: EXPIRY_ACTIONS } as const;
const instant = { type: 'string', format: 'date-time' } as const;

export class RetentionQuery {
  @ApiPropertyOptional({ enum: RULED_STORE_CLASSES })
  @MayBeLeftOut()
  @IsString()
  storeClass?: string;

  @ApiPropertyOptional({ enum: CLASSIFICATIONS })
  @MayBeLeftOut()
  @IsString()
  classification?: string;
}

export class ExplainQuery {
  @ApiProperty({ enum: RULED_STORE_CLASSES })
  @IsString()
  storeClass!: string;

  @ApiPropertyOptional({ enum: CLASSIFICATIONS, default: 'public' })
  @MayBeLeftOut()
  @IsString()
  classification?: string;
}

export class DryRunQuery {
  @ApiPropertyOptional({ type: 'boolean', default: false, description: 'Say what would change, and change nothing.' })
  @MayBeLeftOut()
  // No other spelling: one that is taken for false would make the change.
  @IsIn(['true', 'false'])
  dryRun?: string;
}

export class PutRetentionBody {
  @ApiProperty({ ...days, nullable: true, description: 'Null: the override of the tenant is removed.' })
  @ValidateIf(({ retentionDays }: PutRetentionBody) => retentionDays !== null)
  @IsInt()
  @Min(MIN_RETENTION_DAYS)
  @Max(MAX_RETENTION_DAYS)
  retentionDays!: number | null;

  @ApiPropertyOptional({ ...action, description: 'Left out: as it is.' })
  @MayBeLeftOut()
  @IsIn(EXPIRY_ACTIONS)
  expiryAction?: ExpiryAction;

  @ApiPropertyOptional({ description: 'Data expires under a legal hold too. For a PlatformAdmin; never for audit.' })
  @MayBeLeftOut()
  @IsBoolean()
  legalHoldExempt?: boolean;

  @ApiPropertyOptional({ enum: ['tenant', 'platform'], default: 'tenant' })
  @MayBeLeftOut()
  @IsIn(['tenant', 'platform'])
  scope?: 'tenant' | 'platform';

  @ApiProperty({ minLength: 1, maxLength: 1000 })
  @IsString()
  @IsPlainText(1, 1000)
  justification!: string;
}

export class TermsView {
  @ApiProperty(days) retentionDays!: number;
  @ApiProperty(action) expiryAction!: string;
}

export class PendingView extends TermsView {
  @ApiProperty(instant) effectiveAt!: string;
}

export class RetentionRuleView extends TermsView {
  @ApiProperty({ format: 'uuid' }) ruleId!: string;
  @ApiProperty({ enum: RULED_STORE_CLASSES }) storeClass!: string;
  @ApiProperty({ enum: CLASSIFICATIONS }) classification!: string;
  @ApiProperty() legalHoldExempt!: boolean;
  @ApiProperty({ type: TermsView, description: 'What the platform asked for.' }) platform!: TermsView;
  @ApiProperty({ type: TermsView, nullable: true, description: 'What the tenant asked for.' })
  override!: TermsView | null;
  @ApiProperty({
    enum: ['platform'],
    type: 'string',
    nullable: true,
    description: "The platform's days are in force instead of the override's.",
  })
  cappedBy!: 'platform' | null;
  @ApiProperty({ type: PendingView, nullable: true, description: 'What takes force after the grace.' })
  pending!: PendingView | null;
  @ApiProperty({ type: 'integer', description: 'Of the platform rule and the override together.' }) version!: number;
}

export class RetentionRulesView {
  @ApiProperty({ description: '* for the platform.' }) tenantId!: string;
  @ApiProperty({ type: [RetentionRuleView] }) rules!: RetentionRuleView[];
}

export class RetentionImpactView {
  @ApiProperty({ enum: [true] }) dryRun!: true;
  @ApiProperty({ type: TermsView }) before!: TermsView;
  @ApiProperty({ type: TermsView }) after!: TermsView;
  @ApiProperty({ type: 'integer', description: 'Tenants whose value in force would change.' }) affectedTenants!: number;
  @ApiProperty(instant) effectiveAt!: string;
}

export class ExplainedLayerView {
  @ApiProperty({ enum: ['audit-floor', 'platform', 'tenant', 'grace'] }) layer!: ExplainedLayer['layer'];
  @ApiProperty({ ...days, nullable: true }) retentionDays!: number | null;
  @ApiProperty({ enum: ['decides', 'shortens', 'capped', 'waits', 'agrees', 'absent'] })
  outcome!: ExplainedLayer['outcome'];
  @ApiProperty() why!: string;
}

export class ExplainedRuleView extends TermsView {
  @ApiProperty({ ...instant, description: 'Data from before this instant has expired.' }) cutoff!: string;
  @ApiProperty({ type: [ExplainedLayerView] }) layers!: ExplainedLayerView[];
}

export function toRuleView({ rules, at }: RuleAt): RetentionRuleView {
  const { platform, override, deciding, version } = rules;
  const { legalHoldExempt, ...inForce } = rules.inForce(at);
  const pending = rules.pending(at);
  return {
    ruleId: deciding.ruleId,
    storeClass: platform.storeClass,
    classification: platform.classification,
    ...inForce,
    legalHoldExempt,
    platform: toTermsView(platform.terms),
    override: override && toTermsView(override.terms),
    cappedBy: rules.isCapped(at) ? 'platform' : null,
    pending: pending && { ...toTermsView(pending.terms), effectiveAt: pending.effectiveAt.toISOString() },
    version,
  };
}

export function toImpactView({ before, after, affectedTenants, effectiveAt }: RetentionImpact): RetentionImpactView {
  const terms = { before: toTermsView(before), after: toTermsView(after) };
  return { dryRun: true, ...terms, affectedTenants, effectiveAt: effectiveAt.toISOString() };
}

export function toExplainedView({ terms, layers, cutoff }: ExplainedRule & { cutoff: Date }): ExplainedRuleView {
  return { ...toTermsView(terms), cutoff: cutoff.toISOString(), layers: [...layers] };
}

function toTermsView({ retentionDays, expiryAction }: RetentionTerms): TermsView {
  return { retentionDays, expiryAction };
}
