import { EntitySchema, type EntitySchemaMetadata } from '@mikro-orm/core';
import { requireOptions, requireText } from '../domain/arguments.js';

/** The ten tables of Cohort, by role. All of them live in one schema of the host's choice. */
export const COHORT_TABLES = {
  holds: 'retention_holds',
  pass: 'sweep_pass',
  lane: 'sweep_lane',
  progress: 'sweep_progress',
  run: 'sweep_run',
  summary: 'sweep_run_entity_summary',
  rowDetail: 'sweep_run_row_detail',
  handlerStatus: 'sweep_row_handler_status',
  occurrence: 'sweep_occurrence',
  cursor: 'walk_cursor',
} as const;

type Properties = NonNullable<EntitySchemaMetadata<Record<string, unknown>>['properties']>;
type TableDefinition = Pick<EntitySchemaMetadata<Record<string, unknown>>, 'checks' | 'indexes' | 'uniques'> & {
  properties: Properties;
};

/**
 * EntitySchemas of Cohort's tables, for the `entities` of the host's MikroORM configuration: the host's own migrations
 * make and change them, Cohort never does. Default schema: 'public'. Columns have no defaults but generated ids.
 */
export function cohortEntities(options: { readonly schema?: string } = {}): EntitySchema[] {
  requireOptions(options, ['schema'], 'cohortEntities options');
  const { schema = 'public' } = options;
  requireText(schema, 'cohortEntities schema');
  return (Object.keys(COHORT_TABLES) as (keyof typeof COHORT_TABLES)[]).map(
    (role) =>
      new EntitySchema({
        name: entityName(role),
        tableName: COHORT_TABLES[role],
        schema,
        ...definitions[role],
      } as never),
  );
}

/** The MikroORM name of the entity behind a table. */
export function entityName(role: keyof typeof COHORT_TABLES): string {
  return `Cohort_${COHORT_TABLES[role]}`;
}

const uuid = { type: 'uuid', columnType: 'uuid' } as const;
const text = { type: 'string', columnType: 'text' } as const;
const bigint = { type: 'bigint', columnType: 'bigint' } as const;
const integer = { type: 'integer', columnType: 'int' } as const;
const bool = { type: 'boolean', columnType: 'boolean' } as const;
const instant = { type: 'Date', columnType: 'timestamptz' } as const;
const generatedId = { type: 'bigint', columnType: 'bigserial', primary: true, autoincrement: true } as const;

const columns = (properties: Record<string, object>): Properties =>
  Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [name, { fieldName: name, ...property }]),
  ) as Properties;
const nullable = <T extends object>(property: T) => ({ ...property, nullable: true as const });
const primary = <T extends object>(property: T) => ({ ...property, primary: true as const });

/** Spelled as pg_get_constraintdef prints it, or every later migration of the host would drop and add it again. */
const oneOf = (column: string, values: readonly string[]) =>
  `${column} = ANY (ARRAY[${values.map((value) => `'${value}'::text`).join(', ')}])`;
const check = (name: string, expression: string) => ({ name, expression });
const index = (name: string, properties: readonly string[]) => ({ name, properties });

const STRATEGIES = ['purge', 'softDelete', 'anonymise', 'exempt'];
const TRIGGERS = ['scheduled', 'manual', 'erasure', 'deletion'];
const RUN_STATUSES = ['started', 'succeeded', 'partiallyFailed', 'failed', 'cancelled'];

const definitions: Record<keyof typeof COHORT_TABLES, TableDefinition> = {
  // Only 'record' holds exist so far. The other kinds, and a null record, are there for holds of a wider scope.
  holds: {
    properties: columns({
      hold_id: primary(uuid),
      scope_kind: text,
      retention_entity_id: nullable(uuid),
      record_id: nullable(text),
      tenant_id: nullable(text),
      subject_kind: nullable(text),
      subject: nullable(text),
      reason: text,
      created_at: instant,
      expires_at: nullable(instant),
      removed_at: nullable(instant),
    }),
    indexes: [index('retention_holds_record_idx', ['retention_entity_id', 'record_id'])] as never,
    checks: [
      check('retention_holds_scope_kind_check', oneOf('scope_kind', ['record', 'entity', 'tenant', 'subject'])),
      check(
        'retention_holds_record_check',
        `scope_kind <> 'record'::text OR retention_entity_id IS NOT NULL AND record_id IS NOT NULL`,
      ),
      check('retention_holds_subject_check', `(scope_kind = 'subject'::text) = (subject IS NOT NULL)`),
      check('retention_holds_expiry_check', 'expires_at IS NULL OR expires_at >= created_at'),
    ],
  },
  pass: {
    properties: columns({
      pass_id: primary(uuid),
      trigger_kind: text,
      dry_run: bool,
      status: text,
      started_at: instant,
      settled_at: nullable(instant),
      slot: nullable(instant),
    }),
    // Recovery asks for started passes alone; there are never many.
    indexes: [
      { name: 'sweep_pass_started_idx', properties: ['started_at'], where: `status = 'started'::text` },
    ] as never,
    checks: [
      check('sweep_pass_trigger_kind_check', oneOf('trigger_kind', TRIGGERS)),
      check('sweep_pass_status_check', oneOf('status', ['started', 'settled', 'recovered'])),
      check('sweep_pass_settled_check', `(status = 'started'::text) = (settled_at IS NULL)`),
    ],
  },
  lane: {
    properties: columns({
      pass_id: primary(uuid),
      lane: primary(integer),
      token: uuid,
      status: text,
      heartbeat_at: instant,
    }),
    checks: [check('sweep_lane_status_check', oneOf('status', ['started', 'settled', 'recovered']))],
  },
  // Appended by every batch, folded into the summaries at settlement: lanes share no row.
  progress: {
    properties: columns({
      id: generatedId,
      pass_id: uuid,
      sweep_id: uuid,
      retention_entity_id: uuid,
      category: text,
      tenant_id: text,
      strategy: text,
      affected: bigint,
    }),
    indexes: [index('sweep_progress_pass_idx', ['pass_id']), index('sweep_progress_run_idx', ['sweep_id'])] as never,
    checks: [check('sweep_progress_affected_check', 'affected >= 0')],
  },
  run: {
    properties: columns({
      sweep_id: primary(uuid),
      pass_id: uuid,
      trigger_kind: text,
      dry_run: bool,
      tenant_id: text,
      status: text,
      started_at: instant,
      settled_at: nullable(instant),
      duration_ms: nullable(bigint),
      total_affected: bigint,
      logical_now: instant,
      actor: nullable(text),
      engine_version: text,
      error: nullable(text),
      erasure_subject_kind: nullable(text),
    }),
    indexes: [
      index('sweep_run_pass_idx', ['pass_id']),
      index('sweep_run_tenant_idx', ['tenant_id', 'started_at']),
      index('sweep_run_trigger_idx', ['trigger_kind', 'started_at']),
    ] as never,
    checks: [
      check('sweep_run_status_check', oneOf('status', RUN_STATUSES)),
      check('sweep_run_trigger_kind_check', oneOf('trigger_kind', TRIGGERS)),
      check('sweep_run_settled_check', `(status = 'started'::text) = (settled_at IS NULL)`),
      check(
        'sweep_run_duration_check',
        `(settled_at IS NULL) = (duration_ms IS NULL) AND (duration_ms IS NULL OR duration_ms >= 0)`,
      ),
      check('sweep_run_total_affected_check', 'total_affected >= 0'),
      check('sweep_run_erasure_subject_kind_check', `erasure_subject_kind IS NULL OR trigger_kind = 'erasure'::text`),
    ],
  },
  summary: {
    properties: columns({
      sweep_id: primary({
        kind: 'm:1',
        entity: () => entityName('run'),
        deleteRule: 'restrict',
        updateRule: 'no action',
        mapToPk: true,
      }),
      retention_entity_id: primary(uuid),
      category: primary(text),
      tenant_id: primary(text),
      strategy: primary(text),
      entity_type: text,
      at: instant,
      cutoff: nullable(instant),
      resolved_period: text,
      period: text,
      legal_min: nullable(text),
      affected: bigint,
      held_count: bigint,
      skipped_count: bigint,
      null_anchor_count: bigint,
      skipped_by_cause: { type: 'json', columnType: 'jsonb' },
      rule_source: nullable(text),
      rule_reason: nullable(text),
    }),
    checks: [
      check('sweep_run_entity_summary_strategy_check', oneOf('strategy', STRATEGIES)),
      check(
        'sweep_run_entity_summary_counts_check',
        'affected >= 0 AND held_count >= 0 AND skipped_count >= 0 AND null_anchor_count >= 0',
      ),
    ],
  },
  // No foreign key to the run: it made a purge with details twice as slow. Pruning deletes by run.
  rowDetail: {
    properties: columns({
      sweep_id: primary(uuid),
      id: { ...generatedId },
      at: instant,
      entity_type: text,
      retention_entity_id: uuid,
      record_id: text,
      category: text,
      strategy: text,
      tenant_id: text,
      outcome: text,
      handled: bool,
      captured_payload: nullable(text),
    }),
    uniques: [
      {
        name: 'sweep_run_row_detail_handled_idx',
        properties: ['sweep_id', 'retention_entity_id', 'record_id', 'category', 'strategy', 'tenant_id'],
        where: 'handled',
      },
    ] as never,
    checks: [
      check('sweep_run_row_detail_strategy_check', oneOf('strategy', STRATEGIES)),
      check('sweep_run_row_detail_outcome_check', oneOf('outcome', ['affected', 'skipped'])),
    ],
  },
  handlerStatus: {
    properties: columns({
      id: generatedId,
      row_detail: {
        kind: 'm:1',
        entity: () => entityName('rowDetail'),
        fieldNames: ['sweep_id', 'row_detail_id'],
        deleteRule: 'cascade',
        updateRule: 'no action',
      },
      handler_type: text,
      dispatch_phase: text,
      state: text,
      attempt: integer,
      queued_at: instant,
      next_attempt_at: instant,
      claimed_at: nullable(instant),
      claim_token: nullable(uuid),
      completed_at: nullable(instant),
      last_error: nullable(text),
    }),
    uniques: [index('sweep_row_handler_status_handler_idx', ['row_detail', 'handler_type'])] as never,
    indexes: [index('sweep_row_handler_status_due_idx', ['state', 'next_attempt_at', 'id'])] as never,
    checks: [
      check(
        'sweep_row_handler_status_state_check',
        oneOf('state', ['pending', 'inFlight', 'succeeded', 'deadLettered']),
      ),
      check('sweep_row_handler_status_phase_check', oneOf('dispatch_phase', ['immediate', 'afterSweepSettled'])),
      check('sweep_row_handler_status_attempt_check', 'attempt >= 0'),
      check(
        'sweep_row_handler_status_claim_check',
        `(state = 'inFlight'::text) = (claimed_at IS NOT NULL) AND (state = 'inFlight'::text) = (claim_token IS NOT NULL)`,
      ),
      check(
        'sweep_row_handler_status_completion_check',
        `(state = ANY (ARRAY['succeeded'::text, 'deadLettered'::text])) = (completed_at IS NOT NULL)`,
      ),
    ],
  },
  occurrence: {
    properties: columns({
      slot: primary(instant),
      dry_run: primary(bool),
      token: uuid,
      status: text,
      lease_until: instant,
      claimed_at: instant,
      completed_at: nullable(instant),
      pass_id: nullable(uuid),
    }),
    checks: [
      check('sweep_occurrence_status_check', oneOf('status', ['claimed', 'completed'])),
      check('sweep_occurrence_completed_check', `(status = 'completed'::text) = (completed_at IS NOT NULL)`),
    ],
  },
  cursor: {
    properties: columns({
      retention_entity_id: primary(uuid),
      strategy: primary(text),
      relation: primary(text),
      relfilenode: bigint,
      next_block: bigint,
      updated_at: instant,
    }),
    checks: [
      check('walk_cursor_strategy_check', oneOf('strategy', STRATEGIES)),
      check('walk_cursor_next_block_check', 'next_block >= 0'),
    ],
  },
};
