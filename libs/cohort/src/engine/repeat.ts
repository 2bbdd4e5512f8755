export interface Repetition {
  /** Returns when no call is under way: a host that ends then closes a pool of which nothing is asked. */
  end(): Promise<void>;
}

/** Calls `work` every so many milliseconds, never two at once, until it is ended. `work` must not throw. */
export function repeat(everyMs: number, work: () => Promise<void>): Repetition {
  let working: Promise<void> | undefined;
  const timer = setInterval(() => {
    working ??= work().finally(() => (working = undefined));
  }, everyMs);
  timer.unref();
  return {
    end: async () => {
      clearInterval(timer);
      await working;
    },
  };
}
