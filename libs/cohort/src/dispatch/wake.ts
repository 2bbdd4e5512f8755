const LONGEST_SLEEP_MS = 60_000;

/** How long to sleep next of a wait that may be longer than a timer can be: at most a minute at a time. */
export function nextSleepMs(leftMs: number): number {
  return Math.max(0, Math.min(leftMs, LONGEST_SLEEP_MS));
}

/** A sleep that others may end. A call that nobody's sleep was ended by ends the next sleep at once. */
export class Wake {
  #isCalled = false;
  #wake: (() => void) | undefined;

  call(): void {
    this.#isCalled = true;
    this.#wake?.();
  }

  async sleep(ms: number, stop: AbortSignal): Promise<void> {
    const until = performance.now() + ms;
    for (let left = ms; left > 0 && !this.#isCalled && !stop.aborted; left = until - performance.now()) {
      await this.#nap(nextSleepMs(left), stop);
    }
    if (!stop.aborted) this.#isCalled = false;
  }

  async #nap(ms: number, stop: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        stop.removeEventListener('abort', this.#wake!);
        resolve();
      };
      stop.addEventListener('abort', this.#wake, { once: true });
    });
    this.#wake = undefined;
  }
}
