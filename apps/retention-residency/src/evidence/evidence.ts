import type { EntityManager } from '@mikro-orm/postgresql';
import { Injectable, Logger } from '@nestjs/common';
import type { Database } from '../platform/database.js';
import { isUnreachable } from '../platform/database-error.js';
import { TimeAndIds } from '../platform/time-and-ids.js';
import { type EvidenceContent, NO_HASH, hashOf, inMicroseconds, sealOf } from './evidence-chain.js';
import {
  type EvidenceHead,
  type EvidenceRow,
  deleteBeforeHead,
  insertEntries,
  insertHead,
  lockHead,
  moveHead,
  redactEntries,
  selectAgedChains,
  selectFirstToStay,
} from './evidence.queries.js';

/** What was done, by whom and why, in a chain of hashes for each tenant that shows what was altered or taken away. */
@Injectable()
export class Evidence {
  private readonly logger = new Logger(Evidence.name);

  constructor(private readonly timeAndIds: TimeAndIds) {}

  /**
   * Appends entries in the transaction of `em`, which holds the chain of the tenant until it ends. Call it after the locks of
   * what the entries are about and before Outbox.append.
   */
  async append(em: EntityManager, tenantId: string, contents: readonly EvidenceContent[]): Promise<void> {
    if (contents.length === 0) return;
    await insertHead(em, tenantId);
    const head = (await lockHead(em, tenantId)) as EvidenceHead;
    const rows = this.chain(head, contents);
    await insertEntries(em, tenantId, rows);
    await moveHead(em, advanced(head, rows));
  }

  /**
   * Takes actor and payload out of everything that a tenant's chain holds, and says so in an entry. The chain stays whole.
   * Runs in a transaction of the platform role. Returns how many entries it emptied.
   */
  async redact(em: EntityManager, tenantId: string, why: EvidenceContent): Promise<number> {
    await insertHead(em, tenantId);
    const head = (await lockHead(em, tenantId)) as EvidenceHead;
    const redacted = await redactEntries(em, tenantId, head.last_seq);
    await this.append(em, tenantId, [{ ...why, payload: { ...why.payload, redactedUpTo: head.last_seq, redacted } }]);
    return redacted;
  }

  /**
   * Removes what is older than seven years from the front of the chains, at most `limit` of them, each in a transaction of
   * its own: one that is locked lets nobody of its tenant append. Returns how many entries went. What fails is tried again
   * with the next call.
   */
  async age(database: Database, limit: number): Promise<number> {
    let removed = 0;
    for (const tenantId of await database.asPlatform((em) => selectAgedChains(em, limit))) {
      try {
        removed += await database.asPlatform((em) => this.ageChain(em, tenantId));
      } catch (error) {
        if (isUnreachable(error)) throw error;
        this.logger.error(`The evidence of ${tenantId} could not age: ${(error as Error).message}`);
      }
    }
    return removed;
  }

  private async ageChain(em: EntityManager, tenantId: string): Promise<number> {
    const head = (await lockHead(em, tenantId)) as EvidenceHead;
    const first = await selectFirstToStay(em, tenantId);
    // An emptied chain starts after its last entry, so that the next one continues it.
    const next = first ?? { seq: String(BigInt(head.last_seq) + 1n), hash: NO_HASH };
    await moveHead(em, { ...head, first_seq: next.seq, first_hash: next.hash });
    return deleteBeforeHead(em, tenantId);
  }

  private chain(head: EvidenceHead, contents: readonly EvidenceContent[]): EvidenceRow[] {
    const at = inMicroseconds(this.timeAndIds.now());
    let prevHash = head.last_hash;
    return contents.map(({ kind, orderId, actor, payload }, index) => {
      const seq = String(BigInt(head.last_seq) + BigInt(index + 1));
      const salt = this.timeAndIds.newSalt();
      const sealed = sealOf(salt, actor, payload);
      const entry = { prevHash, tenantId: head.tenant_id, seq, at, kind, orderId, sealed };
      const hash = hashOf(entry);
      const row = { seq, at, kind, order_id: orderId, actor, payload, salt, sealed, prev_hash: prevHash, hash };
      prevHash = hash;
      return row;
    });
  }
}

function advanced(head: EvidenceHead, rows: readonly EvidenceRow[]): EvidenceHead {
  const first = rows[0] as EvidenceRow;
  const last = rows.at(-1) as EvidenceRow;
  const isFirst = first.seq === head.first_seq;
  return {
    tenant_id: head.tenant_id,
    first_seq: head.first_seq,
    first_hash: isFirst ? first.hash : head.first_hash,
    last_seq: last.seq,
    last_hash: last.hash,
  };
}
