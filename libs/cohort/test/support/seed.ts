import { randomUUID } from 'node:crypto';
import type { Host } from './host.js';
import { ACME, daysBefore } from './notes.js';

/** Days after which every rule of `notesHost` has run out. */
export const LONG_AGO = 500;

interface Row {
  readonly id?: string;
  readonly tenant?: string;
  readonly days?: number | null;
}

/** Session notes; the ids, in the order given. */
export async function addNotes(host: Host, rows: readonly Row[]): Promise<string[]> {
  const ids = rows.map((row) => row.id ?? randomUUID());
  await host.query(
    `insert into session_notes(id, tenant_id, created_at, body)
     select * from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[])`,
    [ids, rows.map((row) => row.tenant ?? ACME.id), rows.map((row) => anchorOf(row)), rows.map(() => 'body')],
  );
  return ids;
}

/** Case contacts; the ids, in the order given. */
export async function addContacts(host: Host, rows: readonly Row[]): Promise<string[]> {
  const ids = rows.map((row) => row.id ?? randomUUID());
  await host.query(
    `insert into case_contacts(id, tenant_id, created_at, email, full_name, phone, country)
     select i.id, i.tenant, i.at, 'ada@mail.test', 'Ada Example', '+44 1', 'UK' from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as i(id, tenant, at)`,
    [ids, rows.map((row) => row.tenant ?? ACME.id), rows.map((row) => anchorOf(row))],
  );
  return ids;
}

let ticket = 0;

/** Tickets; the ids, in the order given. */
export async function addTickets(host: Host, rows: readonly Row[]): Promise<string[]> {
  const ids = rows.map((row) => row.id ?? String(++ticket));
  await host.query(
    `insert into tickets(id, tenant_id, closed_at, is_deleted)
     select i.id, i.tenant, i.at, false from unnest($1::int[], $2::text[], $3::timestamptz[]) as i(id, tenant, at)`,
    [ids, rows.map((row) => row.tenant ?? ACME.id), rows.map((row) => anchorOf(row))],
  );
  return ids;
}

function anchorOf({ days = LONG_AGO }: Row): string | null {
  return days === null ? null : daysBefore(days).toISOString();
}

/** How many rows a table has, all or some of them. */
export async function countRows(host: Host, table: string, where = 'true', values: unknown[] = []): Promise<number> {
  const [row] = await host.query<{ n: number }>(`select count(*)::int as n from ${table} where ${where}`, values);
  return row!.n;
}

/** Returns once a backend of this database waits for a lock, so that a race is arranged without a sleep. */
export function somebodyWaits(host: Host): Promise<void> {
  return until(() => countRows(host, 'pg_stat_activity', `datname = current_database() and wait_event_type = 'Lock'`));
}

/** Returns once no backend of this database stands in an open transaction: a killed client was noticed and rolled back. */
export function nobodyInTransaction(host: Host): Promise<void> {
  const open = () =>
    countRows(host, 'pg_stat_activity', `datname = current_database() and state like 'idle in transaction%'`);
  return until(async () => ((await open()) === 0 ? 1 : 0));
}

/** Asks again and again, until there are some. What does not come about in ten seconds, or as many as it may take, never will, and the test should say so. */
export async function until(count: () => Promise<number>, longestMs = 10_000): Promise<void> {
  for (const deadline = Date.now() + longestMs; Date.now() < deadline;) {
    if ((await count()) > 0) return;
    // What is waited for may need this process, and a count that asks nobody would never let it go on.
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('What the test waits for did not come about.');
}

/** A hold request with the parts that do not matter filled in. */
export function holdOn(entity: object | string, recordId: string, tenant = ACME) {
  return { holdId: randomUUID(), entity, recordId, tenant, reason: 'matter 7' };
}
