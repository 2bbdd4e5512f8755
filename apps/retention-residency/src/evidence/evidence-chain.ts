import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';

/** What an entry says besides its place in the chain. */
export interface EvidenceContent {
  readonly kind: string;
  readonly orderId: string | null;
  /** A client id. */
  readonly actor: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** What the digest of an entry is taken of. `at` is UTC in microseconds, as the database keeps it. */
export interface HashedEntry {
  readonly prevHash: string;
  readonly tenantId: string;
  readonly seq: string;
  readonly at: string;
  readonly kind: string;
  readonly orderId: string | null;
  readonly sealed: string;
}

/** The hash before the first entry. */
export const NO_HASH = '';

/** The digest of what redaction takes away. Members of the payload in canonical order (RFC 8785), since jsonb keeps none. */
export function sealOf(salt: string, actor: string, payload: unknown): string {
  return sha256(JSON.stringify([salt, actor, canonicalize(payload)]));
}

/** As a JSON array, so that no two entries read alike. */
export function hashOf({ prevHash, tenantId, seq, at, kind, orderId, sealed }: HashedEntry): string {
  return sha256(JSON.stringify([prevHash, tenantId, seq, at, kind, orderId, sealed]));
}

/** A Date has milliseconds, the column microseconds: hashed is what the column holds. */
export function inMicroseconds(at: Date): string {
  return at.toISOString().replace('Z', '000Z');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
