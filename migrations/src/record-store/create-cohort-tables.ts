import { Migration } from '@mikro-orm/migrations';

/** The ten tables of Cohort: holds, runs in progress, and the ledger. */
export class CreateCohortTables extends Migration {
  override up(): void {
    this.addSql('create schema if not exists retention');

    this.addSql(`
      create table retention.retention_holds (
        hold_id uuid not null,
        scope_kind text not null,
        retention_entity_id uuid null,
        record_id text null,
        tenant_id text null,
        subject_kind text null,
        subject text null,
        reason text not null,
        created_at timestamptz not null,
        expires_at timestamptz null,
        removed_at timestamptz null,
        primary key (hold_id),
        constraint retention_holds_scope_kind_check
          check (scope_kind = ANY (ARRAY['record'::text, 'entity'::text, 'tenant'::text, 'subject'::text])),
        constraint retention_holds_record_check
          check (scope_kind <> 'record'::text OR retention_entity_id IS NOT NULL AND record_id IS NOT NULL),
        constraint retention_holds_subject_check check ((scope_kind = 'subject'::text) = (subject IS NOT NULL)),
        constraint retention_holds_expiry_check check (expires_at IS NULL OR expires_at >= created_at)
      )`);
    this.addSql(`
      create index retention_holds_record_idx
      on retention.retention_holds (retention_entity_id, record_id)`);

    this.addSql(`
      create table retention.sweep_pass (
        pass_id uuid not null,
        trigger_kind text not null,
        dry_run boolean not null,
        status text not null,
        started_at timestamptz not null,
        settled_at timestamptz null,
        slot timestamptz null,
        primary key (pass_id),
        constraint sweep_pass_trigger_kind_check
          check (trigger_kind = ANY (ARRAY['scheduled'::text, 'manual'::text, 'erasure'::text, 'deletion'::text])),
        constraint sweep_pass_status_check
          check (status = ANY (ARRAY['started'::text, 'settled'::text, 'recovered'::text])),
        constraint sweep_pass_settled_check check ((status = 'started'::text) = (settled_at IS NULL))
      )`);
    this.addSql(`
      create index sweep_pass_started_idx
      on retention.sweep_pass (started_at) where status = 'started'::text`);

    this.addSql(`
      create table retention.sweep_lane (
        pass_id uuid not null,
        lane int not null,
        token uuid not null,
        status text not null,
        heartbeat_at timestamptz not null,
        primary key (pass_id, lane),
        constraint sweep_lane_status_check
          check (status = ANY (ARRAY['started'::text, 'settled'::text, 'recovered'::text]))
      )`);

    this.addSql(`
      create table retention.sweep_progress (
        id bigserial primary key,
        pass_id uuid not null,
        sweep_id uuid not null,
        retention_entity_id uuid not null,
        category text not null,
        tenant_id text not null,
        strategy text not null,
        affected bigint not null,
        constraint sweep_progress_affected_check check (affected >= 0)
      )`);
    this.addSql(`create index sweep_progress_pass_idx on retention.sweep_progress (pass_id)`);
    this.addSql(`create index sweep_progress_run_idx on retention.sweep_progress (sweep_id)`);

    this.addSql(`
      create table retention.sweep_run (
        sweep_id uuid not null,
        pass_id uuid not null,
        trigger_kind text not null,
        dry_run boolean not null,
        tenant_id text not null,
        status text not null,
        started_at timestamptz not null,
        settled_at timestamptz null,
        duration_ms bigint null,
        total_affected bigint not null,
        logical_now timestamptz not null,
        actor text null,
        engine_version text not null,
        error text null,
        erasure_subject_kind text null,
        primary key (sweep_id),
        constraint sweep_run_status_check
          check (status = ANY (ARRAY['started'::text, 'succeeded'::text, 'partiallyFailed'::text, 'failed'::text, 'cancelled'::text])),
        constraint sweep_run_trigger_kind_check
          check (trigger_kind = ANY (ARRAY['scheduled'::text, 'manual'::text, 'erasure'::text, 'deletion'::text])),
        constraint sweep_run_settled_check check ((status = 'started'::text) = (settled_at IS NULL)),
        constraint sweep_run_duration_check
          check ((settled_at IS NULL) = (duration_ms IS NULL) AND (duration_ms IS NULL OR duration_ms >= 0)),
        constraint sweep_run_total_affected_check check (total_affected >= 0),
        constraint sweep_run_erasure_subject_kind_check
          check (erasure_subject_kind IS NULL OR trigger_kind = 'erasure'::text)
      )`);
    this.addSql(`create index sweep_run_pass_idx on retention.sweep_run (pass_id)`);
    this.addSql(`create index sweep_run_tenant_idx on retention.sweep_run (tenant_id, started_at)`);
    this.addSql(`create index sweep_run_trigger_idx on retention.sweep_run (trigger_kind, started_at)`);

    this.addSql(`
      create table retention.sweep_run_entity_summary (
        sweep_id uuid not null,
        retention_entity_id uuid not null,
        category text not null,
        tenant_id text not null,
        strategy text not null,
        entity_type text not null,
        at timestamptz not null,
        cutoff timestamptz null,
        resolved_period text not null,
        period text not null,
        legal_min text null,
        affected bigint not null,
        held_count bigint not null,
        skipped_count bigint not null,
        null_anchor_count bigint not null,
        skipped_by_cause jsonb not null,
        rule_source text null,
        rule_reason text null,
        primary key (sweep_id, retention_entity_id, category, tenant_id, strategy),
        constraint sweep_run_entity_summary_strategy_check
          check (strategy = ANY (ARRAY['purge'::text, 'softDelete'::text, 'anonymise'::text, 'exempt'::text])),
        constraint sweep_run_entity_summary_counts_check
          check (affected >= 0 AND held_count >= 0 AND skipped_count >= 0 AND null_anchor_count >= 0),
        constraint sweep_run_entity_summary_sweep_id_foreign
          foreign key (sweep_id) references retention.sweep_run (sweep_id) on update no action on delete restrict
      )`);

    this.addSql(`
      create table retention.sweep_run_row_detail (
        sweep_id uuid not null,
        id bigserial not null,
        at timestamptz not null,
        entity_type text not null,
        retention_entity_id uuid not null,
        record_id text not null,
        category text not null,
        strategy text not null,
        tenant_id text not null,
        outcome text not null,
        handled boolean not null,
        captured_payload text null,
        primary key (sweep_id, id),
        constraint sweep_run_row_detail_strategy_check
          check (strategy = ANY (ARRAY['purge'::text, 'softDelete'::text, 'anonymise'::text, 'exempt'::text])),
        constraint sweep_run_row_detail_outcome_check check (outcome = ANY (ARRAY['affected'::text, 'skipped'::text]))
      )`);
    this.addSql(`
      create unique index sweep_run_row_detail_handled_idx
      on retention.sweep_run_row_detail (sweep_id, retention_entity_id, record_id, category, strategy, tenant_id) where handled`);

    this.addSql(`
      create table retention.sweep_row_handler_status (
        id bigserial primary key,
        sweep_id uuid not null,
        row_detail_id bigint not null,
        handler_type text not null,
        dispatch_phase text not null,
        state text not null,
        attempt int not null,
        queued_at timestamptz not null,
        next_attempt_at timestamptz not null,
        claimed_at timestamptz null,
        claim_token uuid null,
        completed_at timestamptz null,
        last_error text null,
        constraint sweep_row_handler_status_handler_idx unique (sweep_id, row_detail_id, handler_type),
        constraint sweep_row_handler_status_state_check
          check (state = ANY (ARRAY['pending'::text, 'inFlight'::text, 'succeeded'::text, 'deadLettered'::text])),
        constraint sweep_row_handler_status_phase_check
          check (dispatch_phase = ANY (ARRAY['immediate'::text, 'afterSweepSettled'::text])),
        constraint sweep_row_handler_status_attempt_check check (attempt >= 0),
        constraint sweep_row_handler_status_claim_check
          check ((state = 'inFlight'::text) = (claimed_at IS NOT NULL) AND (state = 'inFlight'::text) = (claim_token IS NOT NULL)),
        constraint sweep_row_handler_status_completion_check
          check ((state = ANY (ARRAY['succeeded'::text, 'deadLettered'::text])) = (completed_at IS NOT NULL)),
        constraint sweep_row_handler_status_sweep_id_row_detail_id_foreign
          foreign key (sweep_id, row_detail_id) references retention.sweep_run_row_detail (sweep_id, id) on update no action on delete cascade
      )`);
    this.addSql(`
      create index sweep_row_handler_status_due_idx
      on retention.sweep_row_handler_status (state, next_attempt_at, id)`);

    this.addSql(`
      create table retention.sweep_occurrence (
        slot timestamptz not null,
        dry_run boolean not null,
        token uuid not null,
        status text not null,
        lease_until timestamptz not null,
        claimed_at timestamptz not null,
        completed_at timestamptz null,
        pass_id uuid null,
        primary key (slot, dry_run),
        constraint sweep_occurrence_status_check check (status = ANY (ARRAY['claimed'::text, 'completed'::text])),
        constraint sweep_occurrence_completed_check check ((status = 'completed'::text) = (completed_at IS NOT NULL))
      )`);

    this.addSql(`
      create table retention.walk_cursor (
        retention_entity_id uuid not null,
        strategy text not null,
        relation text not null,
        relfilenode bigint not null,
        next_block bigint not null,
        updated_at timestamptz not null,
        primary key (retention_entity_id, strategy, relation),
        constraint walk_cursor_strategy_check
          check (strategy = ANY (ARRAY['purge'::text, 'softDelete'::text, 'anonymise'::text, 'exempt'::text])),
        constraint walk_cursor_next_block_check check (next_block >= 0)
      )`);
  }

  override down(): void {
    // The schema stays: the host may keep tables of its own in it.
    this.addSql(`
      drop table retention.walk_cursor, retention.sweep_occurrence, retention.sweep_row_handler_status,
        retention.sweep_run_row_detail, retention.sweep_run_entity_summary, retention.sweep_run, retention.sweep_progress,
        retention.sweep_lane, retention.sweep_pass, retention.retention_holds`);
  }
}
