import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/** Ends the server when this process ends without stopping it. */
export interface ExitWatch {
  /** The process to end; undefined: none at the moment. */
  follow(pid: number | undefined): void;
  /** Gives the watch up. */
  cancel(): void;
}

/**
 * A shell that waits for the end of this process: its standard input closes then, by whatever end, kill -9 too.
 * Signal handlers in this process would miss that end, and would interfere with the host's own orderly shutdown.
 * $1 is the temporary folder to remove, empty: the data is kept, and an orderly shutdown may take its time.
 * The lock file tells the end of a server whose zombie still answers kill -0.
 */
const WATCH_SCRIPT = `
pid=-
while read -r line; do pid=$line; done
if [ -z "$1" ]; then
  [ "$pid" = - ] || kill -INT "$pid"
  exit
fi
if [ "$pid" != - ] && kill -QUIT "$pid"; then
  n=0
  while [ $n -lt 200 ] && [ -e "$1/cluster/pgdata/postmaster.pid" ] && kill -0 "$pid"; do sleep 0.05; n=$((n + 1)); done
  [ $n -lt 200 ] || kill -KILL "$pid"
fi
rm -rf "$1" || { sleep 1; rm -rf "$1"; }`;

/** Starts a watch. `temporaryDir` is removed as well when this process ends. */
export function watchExit(temporaryDir: string | undefined): ExitWatch {
  if (process.platform === 'win32') return watchExitInProcess();
  // A session of its own: Ctrl-C in a terminal goes to the whole process group and must not end the watch.
  const shell = spawn('sh', ['-c', WATCH_SCRIPT, 'postgres-exit-watch', temporaryDir ?? ''], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
  });
  // Without a shell there is no watch, and the next start on the folder tidies up.
  shell.on('error', () => undefined);
  const input = shell.stdin as Socket;
  input.on('error', () => undefined);
  shell.unref();
  input.unref();
  return {
    follow: (pid) => void input.write(`${pid ?? '-'}\n`),
    cancel: () => {
      shell.kill('SIGKILL');
      input.destroy();
    },
  };
}

/** Windows has no such shell: there, only an end that this process notices ends the server. */
function watchExitInProcess(): ExitWatch {
  let followed: number | undefined;
  const end = (): void => {
    if (followed !== undefined) process.kill(followed);
  };
  process.once('exit', end);
  return { follow: (pid) => void (followed = pid), cancel: () => void process.off('exit', end) };
}
