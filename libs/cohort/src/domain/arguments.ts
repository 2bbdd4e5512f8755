import { InvalidArgumentError } from '../cohort.errors.js';

/** Takes a text that is not blank and that PostgreSQL can store: no NUL, no half of a surrogate pair. */
export function requireText(value: unknown, argument: string): asserts value is string {
  if (typeof value !== 'string' || value.trim() === '')
    throw new InvalidArgumentError(argument, value, 'a text that is not blank');
  if (value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidArgumentError(argument, value, 'a text that PostgreSQL can store: no NUL, no lone surrogate');
  }
}

/** Takes an object of options. Anything else would be ignored, and with it what the caller asked for. */
export function requireOptions(value: unknown, argument = 'options'): void {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new InvalidArgumentError(argument, value, 'an object, or nothing');
  }
}

/** Takes an AbortSignal, or undefined. */
export function requireSignal(value: unknown): void {
  if (value !== undefined && !(value instanceof AbortSignal))
    throw new InvalidArgumentError('options.signal', value, 'an AbortSignal');
}
