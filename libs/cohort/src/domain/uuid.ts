const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const ZERO = /^[0-]+$/;

/** Whether `value` is a UUID in its dashed spelling. */
export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value);
}

/** Whether `value` is a UUID that identifies something: not the zero UUID. */
export function isIdentity(value: unknown): value is string {
  return isUuid(value) && !ZERO.test(value);
}
