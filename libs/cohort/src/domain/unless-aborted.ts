/** The work's own end, or the signal's reason, whichever comes first. */
export async function unlessAborted<T>(work: PromiseLike<T> | T, signal: AbortSignal): Promise<T> {
  // Query builders are no promises, and are waited for as well.
  if (typeof (work as PromiseLike<T> | undefined | null)?.then !== 'function') return work;
  let abort!: () => void;
  const aborted = new Promise<never>((_, reject) => {
    // What a host aborts with need not be an Error.
    abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
    aborted.catch(() => undefined);
  }
}
