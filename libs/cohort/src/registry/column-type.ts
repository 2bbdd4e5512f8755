import { isUuid } from '../domain/uuid.js';

/** `varchar(255)` and `timestamptz(3)` without the part in brackets. */
export function baseType(type: string): string {
  return type.replace(/\s*\([^)]*\)/, '').toLowerCase();
}

const RANGES: ReadonlyMap<string, bigint> = new Map(
  Object.entries({
    smallint: 2n ** 15n,
    int2: 2n ** 15n,
    int: 2n ** 31n,
    integer: 2n ** 31n,
    int4: 2n ** 31n,
    bigint: 2n ** 63n,
    int8: 2n ** 63n,
  }),
);
const TEXTS = ['text', 'varchar', 'character varying', 'char', 'character', 'bpchar', 'citext'];

/** Whether values are texts of any kind. */
export function isText(type: string): boolean {
  return TEXTS.includes(baseType(type));
}

/** Types that a tenant column may have: a uuid, a text or an integer. */
export function isTenantType(type: string): boolean {
  const base = baseType(type);
  return base === 'uuid' || RANGES.has(base) || isText(base);
}

/**
 * Whether the text can be read as a uuid or integer of that type; true for every other type, which only the database can
 * judge. Found out here, one wrong value is named; in the database it fails the statement of all the others.
 */
export function fitsType(type: string, text: string): boolean {
  const base = baseType(type);
  if (base === 'uuid') return isUuid(text);
  const limit = RANGES.get(base);
  if (limit === undefined) return true;
  if (!/^\s*[+-]?\d{1,30}\s*$/.test(text)) return false;
  const value = BigInt(text.replace('+', ''));
  return value >= -limit && value < limit;
}

/** The text of a uuid or integer as the database prints it; any other text as it is. */
export function canonicalText(type: string, text: string): string {
  const base = baseType(type);
  if (!fitsType(type, text)) return text;
  if (base === 'uuid') return text.toLowerCase();
  return RANGES.has(base) ? BigInt(text.replace('+', '')).toString() : text;
}
