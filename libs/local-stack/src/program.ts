import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** How a program ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running program, as a user starts it. */
export interface Program {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Settles when standard output contains `marker`; fails when the program ends before. */
  printed(marker: string): Promise<void>;
}

/** Starts a program of dist with this Node. */
export function startProgram(file: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Program {
  return follow(spawn(process.execPath, [file, ...args], { env: environment(env) }));
}

/** What this run is told about databases must not reach a program by accident. */
export function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inherited = { ...process.env };
  for (const name of ['DATABASE_URL', 'DATA_DIR', 'NODE_ENV', 'FORCE_COLOR']) delete inherited[name];
  return { ...inherited, ...env };
}

/** Follows what a program prints, and how it ends. */
export function follow(child: ChildProcess): Program {
  const closed = once(child, 'close') as Promise<[number | null]>;
  const stdout = text(child.stdout!);
  const stderr = text(child.stderr!);
  const ended = Promise.all([closed, stdout, stderr]).then(([[code], out, err]) => ({
    code,
    stdout: out,
    stderr: err,
  }));
  return {
    child,
    ended,
    printed: (marker) =>
      new Promise((resolve, reject) => {
        let seen = '';
        child.stdout!.on('data', (chunk: Buffer | string) => {
          seen += chunk.toString();
          if (seen.includes(marker)) resolve();
        });
        void ended.then(({ stderr: err }) =>
          reject(new Error(`The program ended before it printed '${marker}': ${err}`)),
        );
      }),
  };
}
