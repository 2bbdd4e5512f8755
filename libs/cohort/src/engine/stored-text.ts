/** A stored value as PostgreSQL reads it from text. Undefined: it cannot be stored. */
export function toText(stored: unknown): string | null | undefined {
  if (stored === null) return null;
  if (typeof stored === 'string') return stored;
  if (typeof stored === 'number' || typeof stored === 'bigint' || typeof stored === 'boolean') return String(stored);
  if (stored instanceof Date) return Number.isNaN(stored.getTime()) ? undefined : stored.toISOString();
  if (stored instanceof Uint8Array) return `\\x${Buffer.from(stored).toString('hex')}`;
  return typeof stored === 'object' ? JSON.stringify(stored) : undefined;
}
