/** One side of a row of the governance service. */
export interface ServiceSide {
  /** Does it so often and returns the milliseconds that count. Throws when anything went wrong. */
  measure(count: number): Promise<number>;
}

/** Both sides, and what they need: a database that is theirs, servers, connections. */
export interface OpenedSides {
  readonly a: ServiceSide;
  readonly b: ServiceSide;
  close(): Promise<void>;
}

/** A side whose time is that of `run`, which returns how much it did. */
export function timed(
  run: (count: number) => Promise<number>,
  prepare?: (count: number) => Promise<void>,
): ServiceSide {
  return {
    measure: async (count) => {
      await prepare?.(count);
      const started = performance.now();
      const done = await run(count);
      const elapsed = performance.now() - started;
      if (done !== count) throw new Error(`${done} were done; wanted: ${count}.`);
      return elapsed;
    },
  };
}

/** Closes what was opened, the last first. */
export class Closing {
  private readonly closers: (() => unknown)[] = [];

  add(close: () => unknown): void {
    this.closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.closers.splice(0).reverse()) await close();
  }

  /** What `body` opened is closed when it fails. */
  static async around<T>(body: (closing: Closing) => Promise<T>): Promise<T> {
    const closing = new Closing();
    try {
      return await body(closing);
    } catch (error) {
      await closing.close();
      throw error;
    }
  }
}
