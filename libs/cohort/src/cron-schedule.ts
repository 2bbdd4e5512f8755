import { CronTime } from 'cron';
import { CohortConfigurationError, describeValue } from './cohort.errors.js';

/** When the worker sweeps: slots in UTC. */
export interface CronSchedule {
  /** As it was given, without blanks around it. */
  readonly source: string;
  /** The first slot after an instant. */
  next(after: Date): Date;
}

const WANTED =
  "a cron expression of 5 fields ('0 2 * * *') or 6, seconds first, in UTC; null or a blank text switches the worker off";

/** Null, undefined and a blank text are no schedule. Throws for what cannot be read, and for what never comes. */
export function parseSchedule(value: unknown): CronSchedule | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'string') throw refusal(value, WANTED);
  const source = value.trim();
  if (source === '') return null;
  // Presets such as @daily, which the parser knows, would be a third notation.
  const fields = source.split(/\s+/).length;
  if (fields !== 5 && fields !== 6) throw refusal(value, `${WANTED} (seen: ${fields} fields)`);
  const time = readable(value, source);
  return { source, next: (after) => time.getNextDateFrom(after, 'UTC').toJSDate() };
}

function readable(value: string, source: string): CronTime {
  let time: CronTime;
  try {
    time = new CronTime(source, 'UTC');
  } catch (error) {
    throw refusal(value, `${WANTED} (${(error as Error).message})`);
  }
  try {
    time.sendAt();
    return time;
  } catch {
    throw refusal(value, 'a cron expression that fires: this one has no date in the next 8 years');
  }
}

function refusal(value: unknown, wanted: string): CohortConfigurationError {
  return new CohortConfigurationError([`schedule is ${describeValue(value)}; wanted: ${wanted}.`]);
}
