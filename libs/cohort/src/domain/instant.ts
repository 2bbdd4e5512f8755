import { InvalidArgumentError } from '../cohort.errors.js';

/** The earliest cutoff. Periods that reach further back saturate here, so they keep rows instead of failing. */
export const MIN_INSTANT = new Date('0001-01-01T00:00:00.000Z');
const MAX_INSTANT = new Date('9999-12-31T23:59:59.999Z');

/**
 * Takes a valid `Date` between the years 1 and 9999. Strings and numbers are refused: they carry no certain zone or unit.
 * Returns a copy: a Date can be moved by whoever has it, and a cutoff must not move while rows go.
 */
export function requireInstant(value: unknown, argument: string): Date {
  if (!(value instanceof Date) || !(value >= MIN_INSTANT && value <= MAX_INSTANT)) {
    throw new InvalidArgumentError(argument, value, 'a valid Date between the years 1 and 9999');
  }
  return new Date(value);
}
