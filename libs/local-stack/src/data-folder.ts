import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, readdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { ExitWatch } from './exit-watch.js';
import { isAlive } from './live-process.js';
import { PostgresBinariesMissingError, PostgresStartError } from './local-stack.errors.js';
import { thisPlatform, type PostgresBinaries } from './postgres-binaries.js';
import { commandAs, type ServerAccount } from './server-account.js';

/** The folder and what lies in it. `cluster` appears whole or not at all. */
export interface DataFolder {
  dataDir: string;
  isKept: boolean;
  cluster: string;
  pgdata: string;
  passwordFile: string;
  log: string;
}

/** What the programs that work on a folder need. */
export interface ClusterInput {
  folder: DataFolder;
  binaries: PostgresBinaries;
  account: ServerAccount;
  watch: ExitWatch;
}

export async function openDataFolder(dataDir: string | undefined): Promise<DataFolder> {
  const isKept = dataDir !== undefined;
  const path = isKept ? resolve(dataDir) : await mkdtemp(join(tmpdir(), 'embedded-postgres-'));
  await mkdir(path, { recursive: true });
  // The server's account must be able to walk into a folder that root made for itself.
  if (!isKept && process.getuid?.() === 0) await chmod(path, 0o711);
  // The real path is what a server reports as its working directory.
  const real = await realpath(path);
  const cluster = join(real, 'cluster');
  return {
    dataDir: real,
    isKept,
    cluster,
    pgdata: join(cluster, 'pgdata'),
    passwordFile: join(cluster, 'password'),
    log: join(real, 'postgres.log'),
  };
}

/**
 * Makes the cluster unless it is there. initdb works in a folder of its own that takes its final name when all is done:
 * an initdb killed half way leaves nothing behind that looks like a cluster, and of two at once exactly one wins.
 */
export async function createCluster(input: ClusterInput): Promise<void> {
  const { folder } = input;
  await removeAbandoned(folder);
  if (await stat(folder.cluster).catch(() => undefined)) return;
  const staged = await mkdtemp(join(folder.dataDir, `.new-${process.pid}-`));
  try {
    await runInitdb(input, staged);
    await rename(staged, folder.cluster).catch(async (error: unknown) => {
      // The other one has won when its cluster is there.
      if (!(await stat(folder.cluster).catch(() => undefined))) throw error;
    });
  } finally {
    await removeTree(staged);
  }
}

async function runInitdb(input: ClusterInput, staged: string): Promise<void> {
  const { folder, binaries, account, watch } = input;
  const passwordFile = join(staged, 'password');
  await writeFile(passwordFile, randomBytes(18).toString('base64url'), { mode: 0o600 });
  if (account.uid !== undefined && account.gid !== undefined) {
    for (const path of [staged, passwordFile]) await chown(path, account.uid, account.gid);
  }
  const sync = folder.isKept ? [] : ['--no-sync'];
  // C.UTF-8 is not known everywhere outside Linux; C sorts alike.
  const locale = process.platform === 'linux' ? 'C.UTF-8' : 'C';
  const access = ['-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`];
  const initdbArgs = ['-D', join(staged, 'pgdata'), ...access, '-E', 'UTF8', `--locale=${locale}`, ...sync];
  const { file, args, options } = commandAs(account, binaries.initdb, initdbArgs);
  const initdb = promisify(execFile)(file, args, { ...options, cwd: staged });
  watch.follow(initdb.child.pid);
  try {
    await initdb;
  } catch (error) {
    const { code, message, stderr = '' } = error as NodeJS.ErrnoException & { stderr?: string };
    // Also said of a file that is there but lacks its loader: a system without glibc.
    if (code === 'ENOENT') throw new PostgresBinariesMissingError(thisPlatform(), binaries.initdb);
    const isLinkMissing = /shared librar|Library not loaded/.test(stderr);
    const hint = isLinkMissing ? '; the install script of the binaries has not run, "npm rebuild" makes up for it' : '';
    throw new PostgresStartError(folder.dataDir, `initdb failed (${message.split('\n')[0]}${hint})`, stderr);
  } finally {
    watch.follow(undefined);
  }
}

async function removeAbandoned({ dataDir }: DataFolder): Promise<void> {
  for (const name of await readdir(dataDir)) {
    const pid = Number(/^\.new-(\d+)-/.exec(name)?.[1]);
    if (pid && !isAlive(pid)) await removeTree(join(dataDir, name));
  }
}

/** Tries again for a moment, since a program that was just told to end may still write there. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 5 });
}
