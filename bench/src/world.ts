import type { RetentionRowDispatcher, RetentionSweep } from 'nestjs-cohort';
import type pg from 'pg';
import type { NoHandler } from './jobs.js';
import { CUTOFF, DAYS, FIRST_DAY, NOTE_ID } from './notes.js';

/** How the table of a row looks. */
export interface TableShape {
  readonly tenants: number;
  /** Columns of the one index beside the primary key. */
  readonly index: string | null;
}

/** All that a contender may use: one connection of its own, or the library as an application has it. */
export interface World {
  readonly client: pg.Client;
  /** The database that it all is in. */
  readonly url: string;
  readonly sweep: RetentionSweep;
  /** That of an application with two lanes. */
  readonly twoLanes: RetentionSweep;
  /** That of an application whose rule asks for a line of the ledger a row. */
  readonly withDetail: RetentionSweep;
  /** That of an application whose rule anonymises. */
  readonly anonymising: RetentionSweep;
  readonly dispatcher: RetentionRowDispatcher;
  readonly handler: NoHandler;
  readonly tenantIds: readonly string[];
}

/** What must be done to the table, counted before the first measurement. A row that is anonymised is as good as removed. */
export interface Expected {
  readonly removed: number;
  readonly held: number;
  readonly left: number;
}

const HOLDS = 500;

export function tenantIds(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`);
}

/** Makes the rows and the holds once; measurements start from copies. Anchors come in insertion order, keys at random. */
export async function loadSource(client: pg.Client, rows: number, shape: TableShape): Promise<Expected> {
  await client.query(`
    drop table if exists notes_source;
    create table notes_source (
      id uuid not null, tenant_id uuid not null, created_at timestamptz not null, author text not null, body text not null,
      anonymised_at timestamptz
    )`);
  await client.query(
    `insert into notes_source
    select gen_random_uuid(), ($1::uuid[])[1 + i % $2::int], $3::timestamptz + i * ($4::float8 / $5::int) * interval '1 day',
      'author-' || i || '@example.test', repeat('x', 100)
    from generate_series(0, $5::int - 1) as i`,
    [tenantIds(shape.tenants), shape.tenants, FIRST_DAY, DAYS, rows],
  );
  await client.query('truncate retention.retention_holds');
  // In the order of the ids, which is no order: held rows lie anywhere among the due ones.
  await client.query(
    `insert into retention.retention_holds
      (hold_id, scope_kind, retention_entity_id, record_id, tenant_id, reason, created_at)
    select gen_random_uuid(), 'record', $1::uuid, id::text, tenant_id::text, 'bench', now()
    from notes_source where created_at < $2::timestamptz order by id limit $3::int`,
    [NOTE_ID, CUTOFF, HOLDS],
  );
  await client.query('vacuum analyze retention.retention_holds');
  await client.query('vacuum analyze notes_source');
  const { due, held, left } = await countRows(client, 'notes_source');
  return { removed: due - held, held, left: left - due + held };
}

/**
 * A fresh copy, written out to disk. Autovacuum stays off on it: it would come to the batches of one side and not to
 * those of the other.
 */
export async function refill(client: pg.Client, shape: TableShape): Promise<void> {
  await client.query(`
    drop table if exists notes;
    create table notes (like notes_source) with (autovacuum_enabled = false);
    insert into notes select * from notes_source;
    alter table notes add constraint notes_pkey primary key (id)`);
  if (shape.index) await client.query(`create index notes_bench_idx on notes (${shape.index})`);
  await client.query('vacuum analyze notes');
  await client.query('checkpoint');
}

/** A fast answer that is wrong is no measurement. */
export async function verify(client: pg.Client, label: string, removed: number, expected: Expected): Promise<void> {
  const { due, held, left } = await countRows(client, 'notes');
  const right =
    removed === expected.removed && due === expected.held && held === expected.held && left === expected.left;
  if (!right) {
    throw new Error(
      `${label}: ${JSON.stringify({ removed, due, held, left })}; wanted: ${JSON.stringify({ ...expected, due: expected.held })}.`,
    );
  }
}

async function countRows(client: pg.Client, table: 'notes' | 'notes_source') {
  const { rows } = await client.query<{ due: number; held: number; left: number }>(
    `select count(*) filter (where created_at < $1::timestamptz)::int as due,
      count(*) filter (where id::text in (select record_id from retention.retention_holds))::int as held,
      count(*)::int as left
    from ${table}
    where anonymised_at is null`,
    [CUTOFF],
  );
  return rows[0]!;
}
