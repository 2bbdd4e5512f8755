import { Migration } from '@mikro-orm/migrations';

const TABLES = [
  'retention_rules',
  'residency_rules',
  'store_bindings',
  'outbox',
  'evidence',
  'evidence_heads',
] as const;

/** What each role may do besides reading. The inbox is the platform's alone. */
const GRANTS = [
  'grant usage on schema data_foundations to data_foundations_app, data_foundations_platform',
  'grant select, insert, update on data_foundations.retention_rules, data_foundations.residency_rules, data_foundations.store_bindings, data_foundations.evidence_heads to data_foundations_app, data_foundations_platform',
  'grant select, insert on data_foundations.evidence to data_foundations_app',
  'grant select, insert, update, delete on data_foundations.evidence to data_foundations_platform',
  'grant insert on data_foundations.outbox to data_foundations_app',
  'grant select, insert, update, delete on data_foundations.outbox, data_foundations.inbox to data_foundations_platform',
  'grant usage on sequence data_foundations.outbox_seq_seq to data_foundations_app, data_foundations_platform',
  // Readiness says which migrations are missing.
  'grant select on retention_residency_migrations to data_foundations_platform',
];

/** Rules, residency, bindings, outbox, inbox and evidence, with the two roles that the service logs in as. */
export class CreateGovernanceTables extends Migration {
  override up(): void {
    this.addSql('create schema data_foundations');
    this.createRoles();
    this.createRules();
    this.createEvents();
    this.createEvidence();
    for (const table of TABLES) this.protect(table);
    this.addSql(`
      create policy read_platform on data_foundations.retention_rules for select to data_foundations_app
      using (tenant_id = '*')`);
    for (const grant of GRANTS) this.addSql(grant);
  }

  override down(): void {
    // The roles stay: they belong to the server, and may be in use in another database.
    this.addSql('drop schema data_foundations cascade');
  }

  /** Without a password: whoever runs the server gives them a login. Another database may have made them already. */
  private createRoles(): void {
    for (const role of ['data_foundations_app', 'data_foundations_platform']) {
      this.addSql(`
        do $$ begin
          create role ${role} nologin nosuperuser nobypassrls noinherit;
        exception when duplicate_object or unique_violation then null;
        end $$`);
    }
  }

  private createRules(): void {
    this.addSql(`
      create table data_foundations.retention_rules (
        rule_id uuid not null,
        tenant_id text not null,
        store_class text not null,
        classification text not null default 'public',
        retention_days int not null,
        expiry_action text not null,
        legal_hold_exempt boolean not null,
        active boolean not null,
        version int not null,
        reason text not null,
        changed_by text not null,
        changed_at timestamptz not null,
        grace_terms jsonb null,
        grace_until timestamptz null,
        primary key (rule_id),
        constraint retention_rules_store_class_check
          check (store_class in ('traces', 'runs', 'artifacts', 'audit', 'projections')),
        constraint retention_rules_classification_check
          check (classification in ('public', 'internal', 'confidential', 'restricted')),
        constraint retention_rules_expiry_action_check check (expiry_action in ('archive', 'redact', 'delete')),
        constraint retention_rules_days_check check (retention_days >= 1 and retention_days <= 36500),
        constraint retention_rules_audit_check
          check (store_class <> 'audit' or expiry_action = 'redact' and not legal_hold_exempt),
        constraint retention_rules_grace_check check ((grace_terms is null) = (grace_until is null))
      )`);
    this.addSql(`
      create unique index retention_rules_active_uq
      on data_foundations.retention_rules (tenant_id, store_class, classification) where active`);
    this.addSql(`
      create index retention_rules_grace_idx
      on data_foundations.retention_rules (grace_until) where grace_until is not null`);
    this.addSql(`
      create index retention_rules_subject_idx
      on data_foundations.retention_rules (store_class, classification, tenant_id)`);

    this.addSql(`
      create table data_foundations.residency_rules (
        tenant_id text not null,
        region text not null,
        allowed_regions text[] not null,
        allowed_engines jsonb not null,
        model_data_residency text not null default 'same-region',
        changed_at timestamptz not null,
        version int not null,
        pending_region text null,
        migration_order_id uuid null,
        primary key (tenant_id),
        constraint residency_rules_regions_check check (region = any (allowed_regions)),
        constraint residency_rules_model_check
          check (model_data_residency in ('same-region', 'allowed-regions', 'any'))
      )`);
    this.addSql(`
      create table data_foundations.store_bindings (
        binding_id text not null,
        tenant_id text not null,
        store_class text not null,
        engine text not null,
        region text not null,
        bound_at timestamptz not null,
        allowed boolean not null,
        reasons jsonb not null,
        checked_at timestamptz not null,
        rule_version int not null,
        primary key (binding_id)
      )`);
    this.addSql('create index store_bindings_tenant_idx on data_foundations.store_bindings (tenant_id, binding_id)');

    // Replicas answer from memory, and hear of a change whoever made it.
    this.addSql(`
      create function data_foundations.tell_residency_changed() returns trigger language plpgsql as $$
      begin
        perform pg_notify('data_foundations_residency', coalesce(new.tenant_id, old.tenant_id));
        return null;
      end $$`);
    this.addSql(`
      create trigger residency_changed after insert or update or delete on data_foundations.residency_rules
      for each row execute function data_foundations.tell_residency_changed()`);
  }

  private createEvents(): void {
    this.addSql(`
      create table data_foundations.outbox (
        seq bigserial not null,
        id uuid not null,
        aggregate text not null,
        aggregate_id text not null,
        topic text not null,
        tenant_id text not null,
        partition_key text not null,
        envelope jsonb not null,
        created_at timestamptz not null,
        published_at timestamptz null,
        primary key (seq),
        constraint outbox_id_uq unique (id)
      )`);
    this.addSql('create index outbox_waiting_idx on data_foundations.outbox (seq) where published_at is null');
    this.addSql(`
      create index outbox_waiting_key_idx
      on data_foundations.outbox (partition_key, seq) where published_at is null`);
    this.addSql(`
      create table data_foundations.inbox (
        consumer text not null,
        message_id text not null,
        received_at timestamptz not null,
        primary key (consumer, message_id)
      )`);
    this.addSql(`
      create function data_foundations.tell_outbox_grew() returns trigger language plpgsql as $$
      begin
        perform pg_notify('data_foundations_outbox', '');
        return null;
      end $$`);
    this.addSql(`
      create trigger outbox_grew after insert on data_foundations.outbox
      for each statement execute function data_foundations.tell_outbox_grew()`);
  }

  private createEvidence(): void {
    this.addSql(`
      create table data_foundations.evidence (
        tenant_id text not null,
        seq bigint not null,
        at timestamptz not null,
        kind text not null,
        order_id uuid null,
        actor text null,
        payload jsonb null,
        salt text null,
        sealed text not null,
        prev_hash text not null,
        hash text not null,
        primary key (tenant_id, seq),
        constraint evidence_redaction_check
          check ((actor is null) = (payload is null) and (payload is null) = (salt is null))
      )`);
    this.addSql(`
      create table data_foundations.evidence_heads (
        tenant_id text not null,
        first_seq bigint not null,
        first_hash text not null,
        last_seq bigint not null,
        last_hash text not null,
        primary key (tenant_id)
      )`);
    // Redaction empties what is sealed and keeps the digests. Ageing moves the head first, then takes what lies before it.
    this.addSql(`
      create function data_foundations.guard_evidence() returns trigger language plpgsql as $$
      begin
        if tg_op = 'UPDATE' and old.salt is not null and new.salt is null
          and (new.tenant_id, new.seq, new.at, new.kind, new.sealed, new.prev_hash, new.hash)
            = (old.tenant_id, old.seq, old.at, old.kind, old.sealed, old.prev_hash, old.hash)
          and new.order_id is not distinct from old.order_id
        then
          return new;
        end if;
        if tg_op = 'DELETE' and old.at < statement_timestamp() - interval '7 years' and exists (
          select from data_foundations.evidence_heads h where h.tenant_id = old.tenant_id and old.seq < h.first_seq
        ) then
          return old;
        end if;
        raise exception 'evidence is append-only: % of entry % of this tenant is refused', lower(tg_op), old.seq
          using errcode = 'restrict_violation';
      end $$`);
    this.addSql(`
      create trigger evidence_guard before update or delete on data_foundations.evidence
      for each row execute function data_foundations.guard_evidence()`);
    this.addSql(`
      create function data_foundations.refuse_truncate() returns trigger language plpgsql as $$
      begin
        raise exception 'evidence is append-only: truncate is refused' using errcode = 'restrict_violation';
      end $$`);
    for (const table of ['evidence', 'evidence_heads']) {
      this.addSql(`
        create trigger ${table}_no_truncate before truncate on data_foundations.${table}
        for each statement execute function data_foundations.refuse_truncate()`);
    }
    this.addSql(`
      create function data_foundations.guard_evidence_heads() returns trigger language plpgsql as $$
      begin
        if tg_op = 'UPDATE' and new.tenant_id = old.tenant_id
          and new.first_seq >= old.first_seq and new.last_seq >= old.last_seq and new.first_seq <= new.last_seq + 1
        then
          return new;
        end if;
        raise exception 'the heads of evidence only move forward: % is refused', lower(tg_op)
          using errcode = 'restrict_violation';
      end $$`);
    this.addSql(`
      create trigger evidence_heads_guard before update or delete on data_foundations.evidence_heads
      for each row execute function data_foundations.guard_evidence_heads()`);
  }

  /** Row-level security: requests see one tenant, the one of their transaction; platform work sees all. */
  private protect(table: (typeof TABLES)[number]): void {
    const own = `tenant_id = current_setting('data_foundations.tenant_id', true)`;
    this.addSql(`alter table data_foundations.${table} enable row level security`);
    this.addSql(`alter table data_foundations.${table} force row level security`);
    this.addSql(`
      create policy own_tenant on data_foundations.${table} to data_foundations_app
      using (${own}) with check (${own})`);
    this.addSql(`
      create policy platform on data_foundations.${table} to data_foundations_platform
      using (true) with check (true)`);
  }
}
