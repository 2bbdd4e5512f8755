import { Temporal } from 'temporal-polyfill';
import { InvalidArgumentError } from '../cohort.errors.js';
import { MIN_INSTANT } from './instant.js';

const WANTED = "an ISO-8601 duration that is not negative, such as 'P30D', 'P6M' or 'P7Y' ('P0D' for at once)";

/** Checks an ISO-8601 duration and returns it in canonical spelling. Numbers are refused: 0 must never come to mean "all". */
export function parsePeriod(value: unknown, field: string): string {
  if (typeof value !== 'string' || !value.startsWith('P')) throw new InvalidArgumentError(field, value, WANTED);
  const duration = durationOf(value);
  if (!duration || duration.sign < 0) throw new InvalidArgumentError(field, value, WANTED);
  return duration.sign === 0 ? 'P0D' : duration.toString();
}

/** The instant one period before `now`, in the UTC calendar: P1M before 31 March is the last day of February. */
export function before(now: Date, period: string): Date {
  const duration = Temporal.Duration.from(period);
  // A rule that a mapper made never passed its constructor; before a negative period lies the future, and all rows are older.
  if (duration.sign < 0) throw new InvalidArgumentError('period', period, WANTED);
  const zoned = Temporal.Instant.fromEpochMilliseconds(now.getTime()).toZonedDateTimeISO('UTC');
  try {
    const earlier = new Date(zoned.subtract(duration).epochMilliseconds);
    return earlier < MIN_INSTANT ? MIN_INSTANT : earlier;
  } catch (error) {
    if (error instanceof RangeError) return MIN_INSTANT;
    throw error;
  }
}

/** The instant one period after `then`, in the UTC calendar. */
export function after(then: Date, period: string): Date {
  const zoned = Temporal.Instant.fromEpochMilliseconds(then.getTime()).toZonedDateTimeISO('UTC');
  return new Date(zoned.add(Temporal.Duration.from(period)).epochMilliseconds);
}

function durationOf(value: string): Temporal.Duration | undefined {
  try {
    return Temporal.Duration.from(value);
  } catch {
    return undefined;
  }
}
