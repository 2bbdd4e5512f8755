import { CUTOFF, NOTE_ID, REDACTED } from '../notes.js';
import type { World } from '../world.js';

/** Of the tenants, before the cutoff and not held, as the library asks it. */
const IS_DUE = `n.tenant_id = any($1::uuid[])
      and n.created_at < $2::timestamptz
      and not exists (
        select 1 from retention.retention_holds as h
        where h.retention_entity_id = $3::uuid and h.scope_kind = 'record' and h.record_id = n.id::text
          and (h.removed_at is null or h.removed_at > statement_timestamp())
          and (h.expires_at is null or h.expires_at > statement_timestamp())
      )`;

/** What the server itself can do: no batches, no ledger, and every row locked until the end. */
export async function deleteUnbounded({ client, tenantIds }: World): Promise<number> {
  const { rowCount } = await client.query(`delete from notes as n where ${IS_DUE}`, [tenantIds, CUTOFF, NOTE_ID]);
  return rowCount ?? 0;
}

/** The same for anonymising. */
export async function updateUnbounded({ client, tenantIds }: World): Promise<number> {
  const { rowCount } = await client.query(
    `update notes as n set author = $4, anonymised_at = statement_timestamp() where n.anonymised_at is null and ${IS_DUE}`,
    [tenantIds, CUTOFF, NOTE_ID, REDACTED],
  );
  return rowCount ?? 0;
}
