import type { EntityManager } from '@mikro-orm/postgresql';
import { runSql } from '../platform/sql.js';

export interface EvidenceHead {
  readonly tenant_id: string;
  readonly first_seq: string;
  readonly first_hash: string;
  readonly last_seq: string;
  readonly last_hash: string;
}

export interface EvidenceRow {
  readonly seq: string;
  /** UTC in microseconds. */
  readonly at: string;
  readonly kind: string;
  readonly order_id: string | null;
  readonly actor: string | null;
  readonly payload: unknown;
  readonly salt: string | null;
  readonly sealed: string;
  readonly prev_hash: string;
  readonly hash: string;
}

/** The head of a chain that is yet empty. */
export async function insertHead(em: EntityManager, tenantId: string): Promise<void> {
  await runSql(
    em,
    `insert into data_foundations.evidence_heads (tenant_id, first_seq, first_hash, last_seq, last_hash)
     values ($1, 1, '', 0, '')
     on conflict do nothing`,
    [tenantId],
  );
}

/** Appends of a tenant go one after the other: two that read the same head would fork the chain. */
export async function lockHead(em: EntityManager, tenantId: string): Promise<EvidenceHead | undefined> {
  const [head] = await runSql<EvidenceHead>(
    em,
    `select tenant_id, first_seq, first_hash, last_seq, last_hash
     from data_foundations.evidence_heads
     where tenant_id = $1
     for update`,
    [tenantId],
  );
  return head;
}

export async function insertEntries(em: EntityManager, tenantId: string, rows: readonly EvidenceRow[]): Promise<void> {
  const column = (name: keyof EvidenceRow) => rows.map((row) => row[name]);
  await runSql(
    em,
    `insert into data_foundations.evidence
       (tenant_id, seq, at, kind, order_id, actor, payload, salt, sealed, prev_hash, hash)
     select $1, *
     from unnest($2::bigint[], $3::timestamptz[], $4::text[], $5::uuid[], $6::text[], $7::jsonb[], $8::text[],
       $9::text[], $10::text[], $11::text[])`,
    [
      tenantId,
      column('seq'),
      column('at'),
      column('kind'),
      column('order_id'),
      column('actor'),
      rows.map(({ payload }) => JSON.stringify(payload)),
      column('salt'),
      column('sealed'),
      column('prev_hash'),
      column('hash'),
    ],
  );
}

export async function moveHead(em: EntityManager, head: EvidenceHead): Promise<void> {
  await runSql(
    em,
    `update data_foundations.evidence_heads
     set first_seq = $2, first_hash = $3, last_seq = $4, last_hash = $5
     where tenant_id = $1`,
    [head.tenant_id, head.first_seq, head.first_hash, head.last_seq, head.last_hash],
  );
}

/** Every tenant that has a head or an entry, in order. */
export async function selectChains(em: EntityManager, after: string, limit: number): Promise<string[]> {
  const rows = await runSql<{ tenant_id: string }>(
    em,
    `select tenant_id from (
       select tenant_id from data_foundations.evidence_heads
       union
       select tenant_id from data_foundations.evidence
     ) chains
     where tenant_id > $1
     order by tenant_id
     limit $2`,
    [after, limit],
  );
  return rows.map(({ tenant_id }) => tenant_id);
}

export async function selectHead(em: EntityManager, tenantId: string): Promise<EvidenceHead | undefined> {
  const [head] = await runSql<EvidenceHead>(
    em,
    `select tenant_id, first_seq, first_hash, last_seq, last_hash
     from data_foundations.evidence_heads
     where tenant_id = $1`,
    [tenantId],
  );
  return head;
}

export function selectEntries(
  em: EntityManager,
  tenantId: string,
  after: string,
  limit: number,
): Promise<EvidenceRow[]> {
  return runSql<EvidenceRow>(
    em,
    `select seq, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
       kind, order_id, actor, payload, salt, sealed, prev_hash, hash
     from data_foundations.evidence
     where tenant_id = $1 and seq > $2
     order by seq
     limit $3`,
    [tenantId, after, limit],
  );
}

/** Empties what is sealed in the entries up to one, and keeps the digests. Returns how many it emptied. */
export async function redactEntries(em: EntityManager, tenantId: string, upTo: string): Promise<number> {
  const rows = await runSql(
    em,
    `update data_foundations.evidence
     set actor = null, payload = null, salt = null
     where tenant_id = $1 and seq <= $2 and salt is not null
     returning 1`,
    [tenantId, upTo],
  );
  return rows.length;
}

/** Tenants whose first entry is old enough to go, by the database's clock. */
export async function selectAgedChains(em: EntityManager, limit: number): Promise<string[]> {
  const rows = await runSql<{ tenant_id: string }>(
    em,
    `select h.tenant_id
     from data_foundations.evidence_heads h
     join data_foundations.evidence e on e.tenant_id = h.tenant_id and e.seq = h.first_seq
     where e.at < statement_timestamp() - interval '7 years'
     order by h.tenant_id
     limit $1`,
    [limit],
  );
  return rows.map(({ tenant_id }) => tenant_id);
}

/** The first entry that stays: everything before it is older than seven years. Undefined: none stays. */
export async function selectFirstToStay(
  em: EntityManager,
  tenantId: string,
): Promise<{ seq: string; hash: string } | undefined> {
  const [entry] = await runSql<{ seq: string; hash: string }>(
    em,
    `select seq, hash
     from data_foundations.evidence
     where tenant_id = $1 and at >= statement_timestamp() - interval '7 years'
     order by seq
     limit 1`,
    [tenantId],
  );
  return entry;
}

/** The trigger lets entries before the head go, if they are old enough. */
export async function deleteBeforeHead(em: EntityManager, tenantId: string): Promise<number> {
  const rows = await runSql(
    em,
    `delete from data_foundations.evidence e
     using data_foundations.evidence_heads h
     where e.tenant_id = $1 and h.tenant_id = e.tenant_id and e.seq < h.first_seq
     returning 1`,
    [tenantId],
  );
  return rows.length;
}
