import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach } from '@jest/globals';
import type { Host } from './host.js';
import { SCHEMA } from './schema.js';

const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0))
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
});

/** Starts one of test/programs on the host's database. It is killed at the end of the test, if not before. */
export function startProgram(
  host: Host,
  name: string,
  point = '',
  passes = 0,
  more: readonly string[] = [],
): ChildProcess {
  const program = fileURLToPath(new URL(`../programs/${name}.mjs`, import.meta.url));
  const child = fork(program, [host.url, SCHEMA, point, String(passes), ...more], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.push(child);
  return child;
}

/** What the program says next. */
export async function messageOf(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, 'message')) as [unknown];
  return message;
}

/** Kills it with SIGKILL, and returns once it is gone. */
export async function killProgram(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** Tells it to stop, and returns once it has ended by itself. */
export async function stopProgram(child: ChildProcess): Promise<void> {
  child.send('stop');
  await once(child, 'exit');
}
