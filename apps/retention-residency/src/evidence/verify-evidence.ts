import type { Database } from '../platform/database.js';
import { hashOf, sealOf } from './evidence-chain.js';
import { type EvidenceHead, type EvidenceRow, selectChains, selectEntries, selectHead } from './evidence.queries.js';

/** The first entry of a chain that is not what it was. */
export interface EvidenceBreak {
  readonly tenantId: string;
  readonly seq: string;
  readonly what: string;
}

export interface EvidenceReport {
  readonly chains: number;
  readonly entries: number;
  /** One a chain: what follows a break says nothing. */
  readonly breaks: readonly EvidenceBreak[];
}

const PAGE = 1000;

/** Reads every chain and recomputes it, each at one moment of its own, so that appends do not disturb. */
export async function verifyEvidence(database: Database): Promise<EvidenceReport> {
  let entries = 0;
  let chains = 0;
  const breaks: EvidenceBreak[] = [];
  for (let after = ''; ;) {
    const tenants = await database.asPlatform((em) => selectChains(em, after, PAGE));
    for (const tenantId of tenants) {
      const chain = await verifyChain(database, tenantId);
      chains++;
      entries += chain.entries;
      if (chain.what !== null) breaks.push({ tenantId, seq: chain.seq, what: chain.what });
    }
    const last = tenants.at(-1);
    if (last === undefined || tenants.length < PAGE) return { chains, entries, breaks };
    after = last;
  }
}

interface CheckedChain {
  readonly entries: number;
  readonly seq: string;
  readonly what: string | null;
}

function verifyChain(database: Database, tenantId: string): Promise<CheckedChain> {
  return database.atOneMoment(async (em) => {
    const head = await selectHead(em, tenantId);
    if (!head) return { entries: 0, seq: '0', what: 'the head of the chain is missing' };
    let previous: EvidenceRow | null = null;
    let entries = 0;
    for (;;) {
      const after: string = previous?.seq ?? '0';
      const page = await selectEntries(em, tenantId, after, PAGE);
      for (const entry of page) {
        const what = faultOf(tenantId, head, previous, entry);
        if (what !== null) return { entries, seq: entry.seq, what };
        previous = entry;
        entries++;
      }
      if (page.length < PAGE) break;
    }
    return { entries, ...endOf(head, previous) };
  });
}

function faultOf(
  tenantId: string,
  head: EvidenceHead,
  previous: EvidenceRow | null,
  entry: EvidenceRow,
): string | null {
  const expected = previous === null ? head.first_seq : String(BigInt(previous.seq) + 1n);
  if (entry.seq !== expected) return `entry ${expected} is missing before this one`;
  if (entry.salt !== null && sealOf(entry.salt, entry.actor as string, entry.payload) !== entry.sealed) {
    return 'actor, payload or salt was altered';
  }
  if (previous !== null && entry.prev_hash !== previous.hash) return 'it does not continue the entry before it';
  const { seq, at, kind, order_id: orderId, sealed, prev_hash: prevHash } = entry;
  if (hashOf({ prevHash, tenantId, seq, at, kind, orderId, sealed }) !== entry.hash) {
    return 'its time, kind, order or digests were altered';
  }
  if (previous === null && entry.hash !== head.first_hash) return 'it is not the first entry that the head knows';
  return null;
}

function endOf(head: EvidenceHead, last: EvidenceRow | null): { seq: string; what: string | null } {
  const isEmpty = BigInt(head.first_seq) === BigInt(head.last_seq) + 1n;
  if (last === null) return { seq: head.last_seq, what: isEmpty ? null : 'every entry is missing' };
  if (last.seq !== head.last_seq) return { seq: last.seq, what: `the head knows ${head.last_seq} as the last entry` };
  if (last.hash !== head.last_hash) return { seq: last.seq, what: 'it is not the last entry that the head knows' };
  return { seq: last.seq, what: null };
}
