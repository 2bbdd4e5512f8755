import type { CronSchedule } from '../cron-schedule.js';
import type { OccurrenceOutcome } from '../sql/occurrences.js';

export interface SlotFacts {
  readonly schedule: CronSchedule;
  /** When this process began to follow the schedule. */
  readonly since: Date;
  /** By a change of the settings: no slot before that was meant. At its start the schedule may have been there before. */
  readonly isChanged: boolean;
  readonly now: Date;
  /** A slot may be so late. */
  readonly graceMs: number;
  /** The newest completed slots, newest first. */
  readonly outcomes: readonly OccurrenceOutcome[];
  /** The slot that is being swept. */
  readonly running: Date | null;
}

export interface SlotHealth {
  readonly isUp: boolean;
  /** The first slot that should have been swept by now and was not. */
  readonly missed: Date | null;
  /** How many of the newest slots failed one after the other. */
  readonly failures: number;
}

/** One failure may be a moment's; so many in a row are not. */
export const FAILURES_IN_A_ROW = 3;

/** Red when a slot was missed, or the newest ones all failed. While a slot is being swept the next ones may wait for it. */
export function judgeSlots(facts: SlotFacts): SlotHealth {
  const { schedule, now, graceMs, outcomes, running } = facts;
  const [newest] = outcomes;
  const due = schedule.next(lookFrom(facts, newest?.slot));
  const isMissed = !running && due.getTime() + graceMs < now.getTime();
  const succeeded = outcomes.findIndex((outcome) => !outcome.failed);
  const failures = succeeded < 0 ? outcomes.length : succeeded;
  return { isUp: !isMissed && failures < FAILURES_IN_A_ROW, missed: isMissed ? due : null, failures };
}

/** From the newest slot that was swept, if it is one of this schedule; if the schedule is newer, from when it came into force. */
function lookFrom({ schedule, since, isChanged }: SlotFacts, newest: Date | undefined): Date {
  if (!newest || (isChanged && newest < since)) return since;
  const isOfSchedule = schedule.next(new Date(newest.getTime() - 1)).getTime() === newest.getTime();
  return isOfSchedule || newest > since ? newest : since;
}
