import { CUTOFF, NOTE_ID } from '../notes.js';
import type { World } from '../world.js';

/** What the server itself can do: no batches, no ledger, and every row locked until the end. */
export async function deleteUnbounded({ client, tenantIds }: World): Promise<number> {
  const { rowCount } = await client.query(
    `delete from notes as n
    where n.tenant_id = any($1::uuid[])
      and n.created_at < $2::timestamptz
      and not exists (
        select 1 from retention.retention_holds as h
        where h.retention_entity_id = $3::uuid and h.scope_kind = 'record' and h.record_id = n.id::text
          and (h.removed_at is null or h.removed_at > statement_timestamp())
          and (h.expires_at is null or h.expires_at > statement_timestamp())
      )`,
    [tenantIds, CUTOFF, NOTE_ID],
  );
  return rowCount ?? 0;
}
