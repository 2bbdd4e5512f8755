import { readFile, readdir, readlink, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataFolder } from './data-folder.js';
import { isAlive, sendSignal } from './live-process.js';
import { DataFolderInUseError } from './local-stack.errors.js';

/** The setting by which a server knows who started it; the server writes it into its file postmaster.opts. */
export const OWNER_SETTING = 'local_stack.owner_pid';

const POLL_MS = 25;
const POLLS_PER_SIGNAL = 400;
const POLLS_FOR_STATUS = 200;

/** The live server on a folder. `ownerPid` is undefined when something else than this library started it. */
export interface RunningServer {
  pid: number;
  ownerPid?: number;
}

export async function findRunningServer({ pgdata }: DataFolder): Promise<RunningServer | undefined> {
  for (let polls = 0; ; polls++) {
    const { pid, status } = await readLockFile(pgdata);
    if (pid === undefined || !(await isServerOn(pgdata, pid))) return undefined;
    // A server writes its options after its lock file and before its status: until then they are its predecessor's.
    if (status) return { pid, ownerPid: await readOwner(pgdata) };
    if (polls === POLLS_FOR_STATUS) return { pid };
    await delay(POLL_MS);
  }
}

/**
 * Makes the folder free for a start. A server whose owner lives, or that somebody started by hand, is in use:
 * DataFolderInUseError. One that outlived its owner serves nobody and is stopped.
 */
export async function claimFolder(folder: DataFolder): Promise<void> {
  const running = await findRunningServer(folder);
  if (!running) return removeMisleadingLock(folder);
  const { pid, ownerPid } = running;
  if (ownerPid === undefined || isAlive(ownerPid)) throw new DataFolderInUseError(folder.dataDir, pid, ownerPid);
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    sendSignal(pid, signal);
    for (let polls = 0; polls < POLLS_PER_SIGNAL; polls++) {
      if (!(await isServerOn(folder.pgdata, pid))) return;
      await delay(POLL_MS);
    }
  }
  throw new DataFolderInUseError(folder.dataDir, pid, ownerPid);
}

/**
 * Ends what a killed postmaster left behind: a backend in the middle of a long statement does not notice that end, and
 * no new server starts while it lives. Without /proc there is only waiting for them.
 */
export async function endLeftBackends({ pgdata }: DataFolder): Promise<void> {
  if (process.platform !== 'linux') return;
  for (const pid of (await readdir('/proc')).map(Number).filter(Boolean)) {
    const program = await readlink(`/proc/${pid}/exe`).catch(() => '');
    if (basename(program) === 'postgres' && (await isServerOn(pgdata, pid))) sendSignal(pid, 'SIGQUIT');
  }
}

export async function readLockFile(pgdata: string): Promise<{ pid?: number; status?: string }> {
  const lines = (await readFile(join(pgdata, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
  return { pid: Number(lines[0]) || undefined, status: lines[7]?.trim() };
}

async function readOwner(pgdata: string): Promise<number | undefined> {
  const options = await readFile(join(pgdata, 'postmaster.opts'), 'utf8').catch(() => '');
  const owner = new RegExp(`${OWNER_SETTING}=(\\d+)`).exec(options)?.[1];
  return owner === undefined ? undefined : Number(owner);
}

/** PostgreSQL takes any live process under the pid in its lock file, a stranger or a zombie too, for a server. */
async function removeMisleadingLock({ pgdata }: DataFolder): Promise<void> {
  const { pid } = await readLockFile(pgdata);
  if (pid === undefined || !isAlive(pid) || (await isServerOn(pgdata, pid))) return;
  // Safe should a server live after all: its shared memory is tied to the folder, and the next server looks at that too.
  await rm(join(pgdata, 'postmaster.pid'), { force: true });
}

/** The working directory of a server is its data folder. Where that cannot be read, a live pid counts. */
async function isServerOn(pgdata: string, pid: number): Promise<boolean> {
  if (!isAlive(pid)) return false;
  if (process.platform !== 'linux') return true;
  return readlink(`/proc/${pid}/cwd`).then(
    (cwd) => cwd === pgdata,
    // A zombie has none.
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT' && error.code !== 'ESRCH',
  );
}
