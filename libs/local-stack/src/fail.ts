/**
 * Ends a program that failed: one line, and exit code 1. An error with a code was raised on purpose, here, by a library or
 * by the system, and its message is enough; anything else is a fault of ours and comes with its stack.
 */
export function fail(error: unknown): void {
  process.exitCode = 1;
  const { code, message, stack } = error as NodeJS.ErrnoException;
  process.stderr.write(`${code === undefined ? stack : `error: ${message || code}`}\n`);
}
