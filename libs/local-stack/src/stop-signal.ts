/** Why a program stops before its end. */
export class StoppedError extends Error {
  readonly code = 'stopped';

  constructor(reason: string) {
    super(`stopped: ${reason}`);
    this.name = 'StoppedError';
  }
}

const PARENT_POLL_MS = 250;

/**
 * Aborted by Ctrl-C or SIGTERM, when the reader of standard output has gone, or when the npm or the program that started
 * this one has.
 * Repeated signals change nothing: a Ctrl-C under npm may arrive twice, from the terminal and from npm.
 */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  const stop = (reason: string) => controller.abort(new StoppedError(reason));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal));
  process.stdout.on('error', () => stop('nobody reads the output any more'));
  // Whoever started this program with a channel to it has ended.
  process.on('disconnect', () => stop('its parent has ended'));
  process.channel?.unref();
  if (process.env.npm_lifecycle_event !== undefined) watchParent(() => stop('npm has ended'));
  return controller.signal;
}

/** npm hands SIGTERM on to the shell of the script, and the shell dies of it without handing it on. */
function watchParent(onGone: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, PARENT_POLL_MS);
  timer.unref();
}

/** Keeps the process alive until it is to stop: a signal handler alone keeps none. */
export async function untilStopped(signal: AbortSignal): Promise<void> {
  const alive = setInterval(() => undefined, 2 ** 30);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  clearInterval(alive);
}
