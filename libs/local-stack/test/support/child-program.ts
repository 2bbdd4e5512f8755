import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const programs = join(dirname(fileURLToPath(import.meta.url)), '..', 'programs');

/** What serve.mjs prints: a server, or an error. */
export interface ServeOutput {
  url: string;
  port: number;
  pid: number;
  dataDir: string;
  code?: string;
  message?: string;
  ownerPid?: number;
}

export interface ChildProgram {
  child: ChildProcess & { pid: number };
  /** The next line of its output, parsed. */
  next<T = ServeOutput>(): Promise<T>;
}

const running = new Set<ChildProcess>();
const servers = new Set<number>();

/** Runs a program of ./programs from the built package, as another process would. */
export function runProgram(name: string, args: string[], options: SpawnOptions = {}): ChildProgram {
  const child = spawn(process.execPath, [join(programs, name), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    ...options,
  }) as ChildProgram['child'];
  running.add(child);
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const next = async () => {
    const output = JSON.parse((await lines.next()).value as string);
    if (output.url) servers.add(output.pid);
    return output;
  };
  return { child, next };
}

export function serve(options: object, spawnOptions: SpawnOptions = {}): ChildProgram {
  return runProgram('serve.mjs', [JSON.stringify(options)], spawnOptions);
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

/** Ends what a test left running, and waits for the servers, which end a moment later than their programs. */
export async function endAllPrograms(): Promise<void> {
  for (const child of running) await end(child, 'SIGKILL');
  await until(() => ![...servers].some(isRunning));
  running.clear();
  servers.clear();
}

/** Kills a process as it stands together with its children, but for those in `except`: the process can react to nothing. */
export async function killWithChildren(child: ChildProcess & { pid: number }, except: number[] = []): Promise<void> {
  child.kill('SIGSTOP');
  for (const pid of childrenOf(child.pid)) if (!except.includes(pid)) process.kill(pid, 'SIGKILL');
  await end(child, 'SIGKILL');
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((candidate) => candidate > 0 && parentOf(candidate) === pid);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

/** Whether the process still runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Resolves when `condition` holds, fails after ten seconds. */
export async function until(condition: () => boolean): Promise<void> {
  for (const giveUpAt = Date.now() + 10_000; !condition(); await delay(10)) {
    if (Date.now() > giveUpAt) throw new Error(`Still not so after 10 s: ${String(condition)}`);
  }
}
