import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { CUTOFF, NOTE_ID } from '../notes.js';
import type { World } from '../world.js';

const BATCH_SIZE = 5000;
const LOCK_SEED = '4341726887';

/**
 * The algorithm that this library was ported from, on one connection: a run a tenant; a batch discovers ids, takes an
 * advisory lock on each, locks the rows, deletes them and adds to summary and run. Every statement repeats all
 * predicates. Nobody else holds a row here, so that a batch never has to discover a second time.
 */
export async function sweepPorted({ client, tenantIds }: World): Promise<number> {
  await createLedger(client);
  let removed = 0;
  for (const tenantId of tenantIds) removed += await sweepTenant(client, tenantId);
  return removed;
}

async function sweepTenant(client: pg.Client, tenantId: string): Promise<number> {
  const run: Run = { sweepId: randomUUID(), tenantId };
  await client.query(`insert into ported.run values ($1, $2, 'started', statement_timestamp(), null, 0)`, [
    run.sweepId,
    tenantId,
  ]);
  let removed = 0;
  for (;;) {
    const batch = await inTransaction(client, () => sweepBatch(client, run));
    removed += batch.deleted;
    if (batch.locked < BATCH_SIZE || batch.deleted === 0) break;
  }
  await settle(client, run);
  return removed;
}

interface Run {
  readonly sweepId: string;
  readonly tenantId: string;
}

async function sweepBatch(client: pg.Client, run: Run): Promise<{ locked: number; deleted: number }> {
  const discovered = await discover(client, run);
  if (discovered.length === 0) return { locked: 0, deleted: 0 };
  await lockKeys(client, run, discovered);
  const locked = await lockRows(client, run, discovered);
  const deleted = await deleteRows(client, run, locked);
  await addProgress(client, run, deleted);
  return { locked: locked.length, deleted };
}

/** Parameters 1 to 4: cutoff, tenant, entity, and the tenant as text. */
const ELIGIBLE = `n.created_at < $1::timestamptz and n.tenant_id = $2::uuid and not (${isHeld()})`;

function isHeld(): string {
  return `exists (
    select 1 from retention.retention_holds as h
    where h.retention_entity_id = $3::uuid and h.record_id = n.id::text and h.tenant_id = $4::text
      and h.created_at <= statement_timestamp()
      and (h.expires_at is null or h.expires_at > statement_timestamp())
      and (h.removed_at is null or h.removed_at > statement_timestamp())
  )`;
}

function eligibleValues({ tenantId }: Run): unknown[] {
  return [CUTOFF, tenantId, NOTE_ID, tenantId];
}

async function discover(client: pg.Client, run: Run): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `select n.id::text as id from notes as n
    where ${ELIGIBLE}
      and not exists (
        select 1 from ported.row_detail as d
        where d.sweep_id = $5::uuid and d.entity_id = $3::uuid and d.record_id = n.id::text and d.tenant_id = $4::text
      )
    order by n.created_at, n.id::text
    limit ${BATCH_SIZE}`,
    [...eligibleValues(run), run.sweepId],
  );
  return rows.map((row) => row.id);
}

/** Counted on the server: five thousand empty values need not travel. */
async function lockKeys(client: pg.Client, { tenantId }: Run, ids: readonly string[]): Promise<void> {
  const keys = ids.map((id) => `${NOTE_ID}:${tenantId}:${id.length}:${id}`).sort();
  await client.query(
    `select count(pg_advisory_xact_lock(hashtextextended(k.key, ${LOCK_SEED})))
    from (select u.key from unnest($1::text[]) with ordinality as u(key, position) order by u.position) as k`,
    [keys],
  );
}

async function lockRows(client: pg.Client, run: Run, ids: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `select n.id::text as id from notes as n
    where ${ELIGIBLE} and n.id = any($5::uuid[])
    order by n.created_at, n.id::text
    for update of n skip locked`,
    [...eligibleValues(run), ids],
  );
  return rows.map((row) => row.id);
}

async function deleteRows(client: pg.Client, run: Run, ids: readonly string[]): Promise<number> {
  const { rows } = await client.query(
    `delete from notes as n where ${ELIGIBLE} and n.id = any($5::uuid[]) returning n.id::text as id`,
    [...eligibleValues(run), ids],
  );
  return rows.length;
}

async function addProgress(client: pg.Client, { sweepId, tenantId }: Run, deleted: number): Promise<void> {
  await client.query(
    `with progress as (
      insert into ported.summary as s values ($1::uuid, $2::uuid, $3::text, $4::bigint, 0)
      on conflict (sweep_id, entity_id, tenant_id) do update set affected = s.affected + excluded.affected
      returning 1
    )
    update ported.run set total_affected = total_affected + $4::bigint
    where sweep_id = $1::uuid and exists (select 1 from progress)`,
    [sweepId, NOTE_ID, tenantId, deleted],
  );
}

/** Counts what holds keep, completes the summary, ends the run: three commits. */
async function settle(client: pg.Client, run: Run): Promise<void> {
  const { rows } = await client.query<{ held: string }>(
    `select count(*) as held from notes as n
    where n.created_at < $1::timestamptz and n.tenant_id = $2::uuid and ${isHeld()}`,
    eligibleValues(run),
  );
  await client.query(`update ported.summary set held = $2::bigint where sweep_id = $1::uuid`, [
    run.sweepId,
    rows[0]!.held,
  ]);
  await client.query(
    `update ported.run set status = 'succeeded', settled_at = statement_timestamp()
    where sweep_id = $1::uuid and status = 'started'`,
    [run.sweepId],
  );
}

async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin');
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

/** Its own tables, as narrow as they can be. The row details stay empty: the rules here ask for none. */
async function createLedger(client: pg.Client): Promise<void> {
  await client.query(`
    create schema if not exists ported;
    create table if not exists ported.run (
      sweep_id uuid primary key, tenant_id text, status text, started_at timestamptz, settled_at timestamptz, total_affected bigint
    );
    create table if not exists ported.summary (
      sweep_id uuid references ported.run, entity_id uuid, tenant_id text, affected bigint, held bigint,
      primary key (sweep_id, entity_id, tenant_id)
    );
    create table if not exists ported.row_detail (
      id bigserial primary key, sweep_id uuid references ported.run, entity_id uuid, record_id text, tenant_id text,
      unique (sweep_id, entity_id, record_id, tenant_id)
    )`);
}
