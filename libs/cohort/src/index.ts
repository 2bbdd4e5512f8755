export { CohortModule } from './cohort.module.js';
export type {
  CohortOptions,
  CohortOptionsFactory,
  ConventionOptions,
  DurationOption,
  RowHandlerDispatchOptions,
  RuleProviderClass,
  TenantSourceClass,
} from './cohort.options.js';
export {
  AliasCycleError,
  CohortConfigurationError,
  CohortError,
  type DeletionErrorCode,
  DryRunOnlyError,
  type HoldErrorCode,
  InvalidArgumentError,
  RetentionDeletionError,
  RetentionHoldError,
  RuleResolutionError,
  RunLostError,
  SlotLostError,
  SoftDeleteErasureError,
} from './cohort.errors.js';
export {
  Anonymise,
  AnonymiseWith,
  ErasureSubject,
  type ErasureSubjectOptions,
  RetentionAnonymisedAt,
  RetentionDeletedAt,
  RetentionRecordId,
  RetentionSoftDelete,
  RetentionTenant,
} from './decorators/properties.js';
export {
  ExemptFromRetention,
  Retain,
  type RetainOptions,
  RetentionEntityId,
  RetentionTenantless,
} from './decorators/retain.js';
export { AuditObserver } from './decorators/audit-observer.js';
export { RowHandler, type RowHandlerOptions } from './decorators/row-handler.js';
export { retain, type RetainOptionsOf } from './decorators/retain-schema.js';
export type {
  AnonymiseFactory,
  AnonymiseFactoryClass,
  AnonymiseFactoryContext,
  AnonymiseFactoryMode,
} from './domain/anonymise-factory.js';
export { type ErasureIdentifier, ErasureScope, type ErasureScopeOptions } from './domain/erasure-scope.js';
export type { RetentionAuditObserver } from './domain/audit-observer.js';
export {
  DispatchPhase,
  type RetentionAfterContext,
  type RetentionBeforeContext,
  type RetentionRowHandler,
  type RowSnapshot,
} from './domain/row-handler.js';
export type { SweepEvent, SweepTrigger } from './domain/sweep-event.js';
export {
  type DeadLetterPage,
  type FlushResult,
  type RequeueResult,
  RetentionRowDispatcher,
} from './dispatch/retention-row-dispatcher.js';
export type { DeadLetter, RequeueObstacle } from './sql/dead-letters.js';
export {
  RetentionCategoryCapabilities,
  RetentionRule,
  type RetentionRuleInit,
  type RuleProvenance,
} from './domain/retention-rule.js';
export { followAlias, type RetentionResolutionContext, RetentionRuleProvider } from './domain/rule-provider.js';
export { RetentionTenantSource } from './domain/tenant-source.js';
export type { RuleAlias, StaticRules } from './domain/static-rules.js';
export { AnonymiseMethod, AuditRowDetail, Strategy } from './domain/strategy.js';
export { TENANTLESS, TENANTLESS_ID, TenantContext, type TenantContextOptions } from './domain/tenant-context.js';
export type { EntitySweepCount } from './engine/counts.js';
export type { DeletionOutcome } from './engine/deletion.js';
export type { EntityErasureCount, ErasureBlock, RetentionErasureResult } from './engine/erasure.js';
export type { EntityFailure } from './engine/failure.js';
export type { RunStatus } from './engine/pass.js';
export type { RetentionPreviewResult } from './engine/preview.js';
export { type LiveOptions, RetentionSettings } from './retention-settings.js';
export { RetentionPreview } from './sweeps/retention-preview.js';
export { RetentionSweep, type SweepOptions } from './sweeps/retention-sweep.js';
export type { RetentionSweepResult } from './engine/sweep.js';
export { type DeletionOptions, type DeletionTarget, RetentionDeletion } from './holds/retention-deletion.js';
export { type ErasureOptions, RetentionErasure } from './sweeps/retention-erasure.js';
export type { HoldRequest } from './holds/hold-request.js';
export { type HoldCallOptions, RetentionHolds } from './holds/retention-holds.js';
export {
  type LedgerRunWithSummaries,
  type Page,
  type PageOptions,
  RetentionLedger,
} from './ledger/retention-ledger.js';
export { cohortEntities } from './schema/cohort-entities.js';
export { giveBackLostConnections } from './sql/lost-connections.js';
export type { StoredHold } from './sql/holds.js';
export type { LedgerRowDetail, LedgerRun, LedgerSummary } from './sql/ledger-read.js';
export { type RetentionHealth, RetentionHealthIndicator } from './workers/retention-health-indicator.js';
