import {
  RowHandler,
  type RetentionAfterContext,
  type RetentionBeforeContext,
  type RetentionRowHandler,
  type RowHandlerOptions,
} from 'nestjs-cohort';
import type { Host } from './host.js';
import { OURS } from './schema.js';

interface Behaviour {
  readonly before?: (row: never, context: RetentionBeforeContext) => Promise<void> | void;
  readonly after?: (context: RetentionAfterContext) => Promise<void> | void;
}

export interface RecordingHandler extends RetentionRowHandler {
  readonly name: string;
  /** What it was given, in order. */
  readonly rows: object[];
  readonly befores: RetentionBeforeContext[];
  readonly afters: RetentionAfterContext[];
}

/** A handler of a class of its own, by the given name, that remembers its calls. */
export function handlerOf(
  entity: object,
  name: string,
  { before, after, ...options }: Behaviour & RowHandlerOptions = {},
): RecordingHandler {
  const { [name]: type } = {
    [name]: class implements RecordingHandler {
      readonly name = name;
      readonly rows: object[] = [];
      readonly befores: RetentionBeforeContext[] = [];
      readonly afters: RetentionAfterContext[] = [];

      onBefore(row: object, context: RetentionBeforeContext) {
        this.rows.push(row);
        this.befores.push(context);
        return before?.(row as never, context);
      }

      onAfter(context: RetentionAfterContext) {
        this.afters.push(context);
        return after?.(context);
      }
    },
  };
  RowHandler(entity as never, options)(type!);
  return new type!();
}

export interface StatusRow {
  readonly id: string;
  readonly handler: string;
  readonly recordId: string;
  readonly phase: string;
  readonly state: string;
  readonly attempt: number;
  readonly error: string | null;
  readonly payload: string | null;
  readonly outcome: string;
}

/** The queue, in order of its ids. */
export function statusesOf(host: Host): Promise<StatusRow[]> {
  return host.query<StatusRow>(
    `select s.id, s.handler_type as handler, d.record_id as "recordId", s.dispatch_phase as phase, s.state, s.attempt, s.last_error as error,
       d.captured_payload as payload, d.outcome
     from ${OURS}.sweep_row_handler_status as s
     join ${OURS}.sweep_run_row_detail as d on d.sweep_id = s.sweep_id and d.id = s.row_detail_id
     order by s.id`,
  );
}

/** What the clock would do: every lease has run out. */
export const letLeasesAge = (host: Host) =>
  host.query(
    `update ${OURS}.sweep_row_handler_status set claimed_at = claimed_at - interval '2 days' where claimed_at is not null`,
  );
