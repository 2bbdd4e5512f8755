import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsBoolean,
  IsIn,
  IsNumberString,
  IsObject,
  IsString,
  MaxLength,
  ValidateBy,
  ValidateNested,
} from 'class-validator';
import { isStorable } from '../platform/storable-text.js';
import { IsPlainText, MayBeLeftOut } from '../platform/validation.js';
import {
  CANDIDATE_KINDS,
  type CandidateKind,
  MODEL_DATA_RESIDENCIES,
  type ModelDataResidency,
  STORE_CLASSES,
} from '../vocabulary.js';
import type { ResidencyReason } from './evaluate-residency.js';
import type { ResidencyRule } from './residency-rule.js';
import type { ResidencyDecision } from './residency.service.js';
import type { StoreBinding } from './store-binding.js';

export const MAX_CANDIDATES = 50;
const MAX_NAMES = 100;
const MAX_NAME_LENGTH = 100;
const instant = { type: 'string', format: 'date-time' } as const;
const engines = {
  type: 'object',
  additionalProperties: { type: 'array', items: { type: 'string' } },
  description: `Engines for each store class (${STORE_CLASSES.join(', ')}); a class that is not named may use none.`,
} as const;

export class PutResidencyBody {
  @ApiProperty({ example: 'westeurope' })
  @IsString()
  @MaxLength(MAX_NAME_LENGTH)
  region!: string;

  @ApiProperty({ type: [String], description: 'They contain the region.' })
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_NAMES)
  @IsString({ each: true })
  @MaxLength(MAX_NAME_LENGTH, { each: true })
  allowedRegions!: string[];

  @ApiProperty(engines)
  @AreEngines()
  allowedEngines!: Record<string, string[]>;

  @ApiPropertyOptional({ enum: MODEL_DATA_RESIDENCIES, default: 'same-region' })
  @MayBeLeftOut()
  @IsIn(MODEL_DATA_RESIDENCIES)
  modelDataResidency?: ModelDataResidency;

  @ApiProperty({ minLength: 1, maxLength: 1000 })
  @IsString()
  @IsPlainText(1, 1000)
  justification!: string;
}

export class CandidateBody {
  @ApiProperty({ enum: CANDIDATE_KINDS })
  @IsIn(CANDIDATE_KINDS)
  kind!: CandidateKind;

  @ApiPropertyOptional({ description: 'Of a store-binding.' })
  @MayBeLeftOut()
  @IsString()
  @IsPlainText(0, MAX_NAME_LENGTH)
  storeClass?: string;

  @ApiPropertyOptional({ description: 'Of a store-binding.' })
  @MayBeLeftOut()
  @IsString()
  @IsPlainText(0, MAX_NAME_LENGTH)
  engine?: string;

  @ApiProperty()
  @IsString()
  @IsPlainText(0, MAX_NAME_LENGTH)
  region!: string;

  @ApiPropertyOptional({ description: "The caller's own name for it." })
  @MayBeLeftOut()
  @IsString()
  @MaxLength(MAX_NAME_LENGTH)
  candidateId?: string;

  @ApiPropertyOptional({ default: false, description: 'A refusal is not counted as a violation.' })
  @MayBeLeftOut()
  @IsBoolean()
  dryRun?: boolean;
}

export class CandidatesBody {
  @ApiProperty({ type: [CandidateBody], maxItems: MAX_CANDIDATES })
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_CANDIDATES)
  @IsObject({ each: true })
  @ValidateNested({ each: true })
  @Type(() => CandidateBody)
  candidates!: CandidateBody[];
}

export class BindingsQuery {
  @ApiPropertyOptional({ type: 'boolean', default: false, description: 'Those alone that violate the rule.' })
  @MayBeLeftOut()
  @IsIn(['true', 'false'])
  violations?: string;

  @ApiPropertyOptional({ description: 'nextCursor of the page before.' })
  @MayBeLeftOut()
  @IsString()
  // A binding id of 200 letters is one of 1067 in base64url.
  @MaxLength(1100)
  cursor?: string;

  @ApiPropertyOptional({ type: 'integer', minimum: 1, maximum: 200, default: 50 })
  @MayBeLeftOut()
  @IsNumberString({ no_symbols: true })
  @IsIn(Array.from({ length: 200 }, (_, index) => String(index + 1)), { message: 'limit must be from 1 to 200' })
  limit?: string;
}

export class ResidencyView {
  @ApiProperty() tenantId!: string;
  @ApiProperty() region!: string;
  @ApiProperty({ type: [String] }) allowedRegions!: string[];
  @ApiProperty(engines) allowedEngines!: object;
  @ApiProperty({ enum: MODEL_DATA_RESIDENCIES }) modelDataResidency!: string;
  @ApiProperty(instant) changedAt!: string;
  @ApiProperty({ type: 'string', nullable: true }) pendingRegion!: string | null;
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true }) migrationOrderId!: string | null;
  @ApiProperty({ type: 'integer' }) ruleVersion!: number;
}

export class ResidencyImpactView {
  @ApiProperty({ type: 'integer', description: 'Known bindings of the tenant.' }) scanned!: number;
  @ApiProperty({ type: 'integer' }) compliant!: number;
  @ApiProperty({ type: 'integer' }) violating!: number;
  @ApiProperty({ type: 'integer', description: 'Could not be judged.' }) errors!: number;
}

export class ReasonView {
  @ApiProperty({
    enum: [
      'REGION_NOT_ALLOWED',
      'ENGINE_NOT_ALLOWED',
      'MODEL_RESIDENCY',
      'UNKNOWN_STORE_CLASS',
      'UNKNOWN_REGION',
      'NO_RULE',
      'MOVE_IN_PROGRESS',
    ],
  })
  code!: ResidencyReason['code'];
  @ApiProperty() expected!: string;
  @ApiProperty() actual!: string;
}

export class DecisionView {
  @ApiProperty({ format: 'uuid' }) decisionId!: string;
  @ApiProperty() allowed!: boolean;
  @ApiProperty({ type: [ReasonView] }) reasons!: ReasonView[];
  @ApiProperty({ type: 'integer', description: '0: no rule decided.' }) ruleVersion!: number;
  @ApiProperty(instant) evaluatedAt!: string;
  @ApiProperty({ type: 'integer' }) ttlSeconds!: number;
}

export class DecisionsView {
  @ApiProperty({ type: [DecisionView], description: 'In the order of the candidates.' }) results!: DecisionView[];
}

export class BindingView {
  @ApiProperty() bindingId!: string;
  @ApiProperty() storeClass!: string;
  @ApiProperty() engine!: string;
  @ApiProperty() region!: string;
  @ApiProperty() allowed!: boolean;
  @ApiProperty({ type: [ReasonView] }) reasons!: ReasonView[];
  @ApiProperty(instant) checkedAt!: string;
  @ApiProperty({ type: 'integer' }) ruleVersion!: number;
}

export class BindingsView {
  @ApiProperty({ type: [BindingView] }) items!: BindingView[];
  @ApiProperty({ type: 'string', nullable: true }) nextCursor!: string | null;
}

export function toResidencyView(rule: ResidencyRule): ResidencyView {
  const { tenantId, region, allowedRegions, allowedEngines, modelDataResidency, pendingRegion, migrationOrderId } =
    rule;
  return {
    tenantId,
    region,
    allowedRegions,
    allowedEngines,
    modelDataResidency,
    changedAt: rule.changedAt.toISOString(),
    pendingRegion,
    migrationOrderId,
    ruleVersion: rule.version,
  };
}

export function toDecisionView({ evaluatedAt, reasons, ...decision }: ResidencyDecision): DecisionView {
  return { ...decision, reasons: [...reasons], evaluatedAt: evaluatedAt.toISOString() };
}

export function toBindingView(binding: StoreBinding): BindingView {
  const { bindingId, storeClass, engine, region, allowed, reasons, checkedAt, ruleVersion } = binding;
  const checked = { allowed, reasons: [...reasons], checkedAt: checkedAt.toISOString(), ruleVersion };
  return { bindingId, storeClass, engine, region, ...checked };
}

function AreEngines(): PropertyDecorator {
  const isName = (name: unknown) =>
    typeof name === 'string' && name.trim() !== '' && name.length <= MAX_NAME_LENGTH && isStorable(name);
  const areEngines = (value: unknown) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((names) => Array.isArray(names) && names.length <= MAX_NAMES && names.every(isName));
  const message = 'allowedEngines must be an object of lists of engine names';
  return ValidateBy({ name: 'shape', validator: { validate: areEngines, defaultMessage: () => message } });
}
