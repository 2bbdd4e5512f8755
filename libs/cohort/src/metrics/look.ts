import { setTimeout as delay } from 'node:timers/promises';

/** A scrape waits no longer for one look: scrapers give up after ten seconds, and the host's own metrics are in it too. */
const LONGEST_WAIT_MS = 3000;

/** What gauges show of the database: looked at when somebody asks, at most once in `everyMs`, and by one at a time. */
export class Look<T> {
  #last: { readonly at: number; readonly seen: T | undefined } | undefined;
  #looking: Promise<void> | undefined;

  /** `look` says nothing where it failed. */
  constructor(
    private readonly everyMs: number,
    private readonly look: () => Promise<T | undefined>,
  ) {}

  /** Nothing is seen while a look takes too long, nor for `everyMs` after one that failed: an old value would pass for a new one. */
  async see(): Promise<T | undefined> {
    if (!this.#isFresh()) {
      this.#looking ??= this.#lookOnce().finally(() => (this.#looking = undefined));
      const waited = new AbortController();
      await Promise.race([
        this.#looking,
        delay(LONGEST_WAIT_MS, undefined, { signal: waited.signal }).catch(() => undefined),
      ]);
      waited.abort();
    }
    return this.#isFresh() ? this.#last!.seen : undefined;
  }

  #isFresh(): boolean {
    return this.#last !== undefined && performance.now() - this.#last.at < this.everyMs;
  }

  async #lookOnce(): Promise<void> {
    const seen = await this.look();
    this.#last = { at: performance.now(), seen };
  }
}
