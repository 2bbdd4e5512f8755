import { InvalidArgumentError } from '../cohort.errors.js';

/** Takes a text that is not blank and that PostgreSQL can store: no NUL, no half of a surrogate pair. */
export function requireText(value: unknown, argument: string): asserts value is string {
  if (typeof value !== 'string' || value.trim() === '')
    throw new InvalidArgumentError(argument, value, 'a text that is not blank');
  if (value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidArgumentError(argument, value, 'a text that PostgreSQL can store: no NUL, no lone surrogate');
  }
}

/** Takes an object with the keys given. What is misspelt or of another kind would be ignored, and `dryrun` is no dry run. */
export function requireOptions(value: unknown, keys: readonly string[], argument = 'options'): void {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new InvalidArgumentError(argument, value, 'an object, or nothing');
  }
  const unknown = unknownKeys(value, keys);
  if (unknown.length > 0) throw new InvalidArgumentError(argument, unknown.join(', '), `keys among ${keys.join(', ')}`);
}

/** Keys of an object that nobody reads. */
export function unknownKeys(value: object, keys: readonly string[]): string[] {
  return Object.keys(value).filter((key) => !keys.includes(key));
}

const MAX_ACTOR_LENGTH = 200;

/** Takes an opaque id, or undefined for nobody. */
export function requireActor(value: unknown): string | null {
  if (value === undefined) return null;
  requireText(value, 'options.actor');
  if (value.length <= MAX_ACTOR_LENGTH) return value;
  throw new InvalidArgumentError('options.actor', value, `an id of 1 to ${MAX_ACTOR_LENGTH} characters`);
}

/** Takes an AbortSignal, or undefined. */
export function requireSignal(value: unknown): void {
  if (value !== undefined && !(value instanceof AbortSignal))
    throw new InvalidArgumentError('options.signal', value, 'an AbortSignal');
}
