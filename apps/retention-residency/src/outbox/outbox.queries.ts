import type { EntityManager } from '@mikro-orm/postgresql';
import { runSql } from '../platform/sql.js';
import type { Envelope } from './event.js';

export interface NewOutboxRow {
  readonly id: string;
  readonly aggregate: string;
  readonly aggregateId: string;
  readonly topic: string;
  readonly tenantId: string;
  readonly partitionKey: string;
  readonly envelope: Envelope;
}

export interface OutboxRow {
  readonly seq: string;
  readonly id: string;
  readonly topic: string;
  readonly partition_key: string;
  readonly aggregate: string;
  readonly aggregate_id: string;
  readonly occurred_at: string;
  /** The envelope, in JSON. */
  readonly body: string;
}

/**
 * Held until the commit, so that the numbers of a key are given in the order in which its transactions commit: without it a
 * later event could be published while an earlier one is not yet visible. Shared by the append of few keys, each locked by
 * itself; taken whole by an append of many, which would fill the server's lock table.
 */
export async function lockAllKeys(em: EntityManager, mode: 'shared' | 'exclusive'): Promise<void> {
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  await runSql(em, `select ${lock}(hashtextextended('data_foundations.outbox', 0))`);
}

/** Sorted, so that no two appends wait for each other. */
export async function lockKeys(em: EntityManager, partitionKeys: readonly string[]): Promise<void> {
  await runSql(
    em,
    `select pg_advisory_xact_lock(k.lock)
     from (
       select distinct hashtextextended(key, 1) as lock
       from unnest($1::text[]) as key
       order by 1
     ) k`,
    [partitionKeys],
  );
}

export async function insertEvents(em: EntityManager, rows: readonly NewOutboxRow[], now: Date): Promise<void> {
  const column = (name: keyof NewOutboxRow) => rows.map((row) => row[name]);
  await runSql(
    em,
    `insert into data_foundations.outbox
       (id, aggregate, aggregate_id, topic, tenant_id, partition_key, envelope, created_at)
     select *, $8::timestamptz
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[])`,
    [
      column('id'),
      column('aggregate'),
      column('aggregateId'),
      column('topic'),
      column('tenantId'),
      column('partitionKey'),
      rows.map(({ envelope }) => JSON.stringify(envelope)),
      now,
    ],
  );
}

/**
 * Takes keys that have something to publish, `limit` of those of the `window` oldest events, for this transaction: another relay leaves them alone until it ends. What they
 * have is read by the next statement, whose snapshot is younger than the locks; this one's may show what another relay has
 * published meanwhile.
 */
export async function claimKeys(
  em: EntityManager,
  { window, limit, except }: { window: number; limit: number; except: readonly string[] },
): Promise<string[]> {
  const rows = await runSql<{ partition_key: string }>(
    em,
    `with waiting as materialized (
       select partition_key, min(seq) as seq
       from (
         select partition_key, seq
         from data_foundations.outbox
         where published_at is null and partition_key <> all ($2::text[])
         order by seq
         limit $1
       ) oldest
       group by partition_key
     )
     select partition_key
     from (select partition_key from waiting order by seq offset 0) in_order
     where pg_try_advisory_xact_lock(hashtextextended(partition_key, 2))
     limit $3`,
    [window, except, limit],
  );
  return rows.map(({ partition_key }) => partition_key);
}

export function selectWaiting(
  em: EntityManager,
  partitionKeys: readonly string[],
  limit: number,
): Promise<OutboxRow[]> {
  return runSql<OutboxRow>(
    em,
    `select seq, id, topic, partition_key, aggregate, aggregate_id,
       envelope ->> 'occurredAt' as occurred_at, envelope::text as body
     from data_foundations.outbox
     where published_at is null and partition_key = any ($1::text[])
     order by seq
     limit $2`,
    [partitionKeys, limit],
  );
}

export async function markPublished(em: EntityManager, seqs: readonly string[], now: Date): Promise<void> {
  await runSql(em, `update data_foundations.outbox set published_at = $2 where seq = any ($1::bigint[])`, [seqs, now]);
}

/** How many events wait, and for how many seconds the oldest has. By the database's clock. */
export async function selectLag(em: EntityManager): Promise<{ waiting: number; seconds: number }> {
  const [lag] = await runSql<{ waiting: string; seconds: number }>(
    em,
    `select count(*) as waiting,
       coalesce(extract(epoch from statement_timestamp() - min(created_at)), 0)::float8 as seconds
     from data_foundations.outbox
     where published_at is null`,
  );
  return { waiting: Number(lag?.waiting ?? 0), seconds: Math.max(0, lag?.seconds ?? 0) };
}

/** False: this message was worked off before. */
export async function insertReceived(
  em: EntityManager,
  consumer: string,
  messageId: string,
  now: Date,
): Promise<boolean> {
  const rows = await runSql(
    em,
    `insert into data_foundations.inbox (consumer, message_id, received_at)
     values ($1, $2, $3)
     on conflict do nothing
     returning 1`,
    [consumer, messageId, now],
  );
  return rows.length > 0;
}
