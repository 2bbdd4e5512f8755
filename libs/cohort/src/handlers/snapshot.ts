import type { RowSnapshot } from '../domain/row-handler.js';

const TYPE = '$cohortType';
const VALUE = '$cohortValue';
const MAX_DEPTH = 32;

/** A snapshot holds what would not come back as it was. Says where, and of what kind it is, never what it is. */
export class SnapshotValueError extends Error {
  constructor(path: string, seen: string) {
    super(
      `${path} is ${seen}; wanted: a text, boolean, number, null, Date, bigint, Buffer, Uint8Array, or arrays and plain objects of these.`,
    );
  }
}

/** A stored payload is not what `encodeSnapshot` writes. */
export class PayloadError extends Error {
  constructor(reason: string) {
    super(`The captured payload cannot be read: ${reason}.`);
  }
}

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A snapshot as JSON text. What JSON has no word for is wrapped in its type's name. */
export function encodeSnapshot(snapshot: RowSnapshot): string {
  return JSON.stringify(encodeObject(snapshot, 'snapshot', 0));
}

/** The snapshot of a text, frozen through and through. Types are looked up in a list, so that a text names no other. */
export function decodeSnapshot(payload: string): Readonly<RowSnapshot> {
  let json: unknown;
  try {
    json = JSON.parse(payload);
  } catch {
    throw new PayloadError('it is no JSON');
  }
  if (json === null || typeof json !== 'object' || Array.isArray(json) || TYPE in json)
    throw new PayloadError('it is no object');
  return decode(json as Json) as Readonly<RowSnapshot>;
}

const wrap = (type: string, value: string): Json => ({ [TYPE]: type, [VALUE]: value });

function encode(value: unknown, path: string, depth: number): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') {
    return Number.isFinite(value) && !Object.is(value, -0)
      ? value
      : wrap('number', Object.is(value, -0) ? '-0' : `${value}`);
  }
  if (typeof value === 'bigint') return wrap('bigint', `${value}`);
  if (typeof value !== 'object')
    throw new SnapshotValueError(path, value === undefined ? 'undefined' : `a ${typeof value}`);
  if (depth > MAX_DEPTH) throw new SnapshotValueError(path, `more than ${MAX_DEPTH} levels deep`);
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (prototype === Date.prototype) return encodeDate(value as Date, path);
  if (prototype === Buffer.prototype) return wrap('buffer', (value as Buffer).toString('base64'));
  if (prototype === Uint8Array.prototype) return wrap('bytes', Buffer.from(value as Uint8Array).toString('base64'));
  if (prototype === Array.prototype) {
    if (Object.keys(value).length !== (value as unknown[]).length)
      throw new SnapshotValueError(path, 'an array with holes');
    return (value as unknown[]).map((each, index) => encode(each, `${path}[${index}]`, depth + 1));
  }
  if (prototype === Object.prototype || prototype === null) return encodeObject(value as RowSnapshot, path, depth);
  throw new SnapshotValueError(path, `an object of ${(prototype as object).constructor?.name || 'its own class'}`);
}

function encodeDate(date: Date, path: string): Json {
  if (Number.isNaN(date.getTime())) throw new SnapshotValueError(path, 'an invalid Date');
  return wrap('date', date.toISOString());
}

function encodeObject(object: RowSnapshot, path: string, depth: number): Json {
  if (Object.getOwnPropertySymbols(object).length > 0) throw new SnapshotValueError(path, 'an object with symbols');
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => {
      if (key.startsWith('$cohort')) throw new SnapshotValueError(`${path} key ${key}`, 'reserved');
      return [key, encode(value, `${path}.${key}`, depth + 1)];
    }),
  );
}

const TYPES: Readonly<Record<string, { form: RegExp; read: (text: string) => unknown }>> = {
  number: { form: /^(NaN|-?Infinity|-0)$/, read: Number },
  bigint: { form: /^-?\d+$/, read: BigInt },
  date: { form: /^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, read: (text) => new Date(text) },
  buffer: { form: /^[A-Za-z0-9+/]*={0,2}$/, read: (text) => Buffer.from(text, 'base64') },
  bytes: { form: /^[A-Za-z0-9+/]*={0,2}$/, read: (text) => new Uint8Array(Buffer.from(text, 'base64')) },
};

function decode(json: Json): unknown {
  if (json === null || typeof json !== 'object') return json;
  if (Array.isArray(json)) return Object.freeze((json as Json[]).map(decode));
  if (TYPE in json || VALUE in json) return unwrap(json as Record<string, Json>);
  return Object.freeze(Object.fromEntries(Object.entries(json).map(([key, value]) => [key, decode(value)])));
}

function unwrap(json: Readonly<Record<string, Json>>): unknown {
  const { [TYPE]: name, [VALUE]: text } = json;
  const type = typeof name === 'string' && Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
  if (!type || Object.keys(json).length !== 2) throw new PayloadError('it names a type that snapshots do not have');
  if (typeof text !== 'string' || !type.form.test(text))
    throw new PayloadError(`a ${name as string} has no such value`);
  const value = type.read(text);
  if (value instanceof Date && Number.isNaN(value.getTime())) throw new PayloadError('a date has no such value');
  return value;
}
