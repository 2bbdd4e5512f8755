import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A program that runs beside the service. */
export interface Neighbour {
  stop(): Promise<void>;
}

const RUNNING = 'The record store is running';

/** Starts the record store as a program of its own, and returns once it runs. What it says against anything goes to stderr. */
export async function startRecordStore(env: NodeJS.ProcessEnv): Promise<Neighbour> {
  const program = fileURLToPath(import.meta.resolve('record-store/main'));
  const child = spawn(process.execPath, [program], {
    // Ctrl-C reaches it through `stop`, after the service has ended its own work.
    detached: true,
    env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  await untilRunning(child);
  child.once('exit', (code) => {
    if (code !== null && code !== 0) console.error(`The record store has ended with ${code}; the service goes on.`);
  });
  return {
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function untilRunning(child: ChildProcess): Promise<void> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  for await (const line of lines) {
    if (!line.startsWith(RUNNING)) continue;
    // What it prints later is read and dropped, or it would block.
    child.stdout?.resume();
    return;
  }
  throw Object.assign(new Error('The record store ended before it ran; what it said is above.'), {
    code: 'record-store',
  });
}
