import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort } from 'local-stack/testing';
import pg from 'pg';

/** A real PgBouncer in transaction mode in front of the server of `url`, with few connections behind it. */
export interface Pooler {
  /** The same database through it. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Where it is installed; null: it is not. */
export function findPgBouncer(): string | null {
  try {
    const path = `${process.env['PATH']}:/usr/sbin`;
    return execFileSync('sh', ['-c', 'command -v pgbouncer'], { env: { PATH: path } })
      .toString()
      .trim();
  } catch {
    return null;
  }
}

export async function startPgBouncer(binary: string, url: string): Promise<Pooler> {
  const server = new URL(url);
  const folder = await mkdtemp(join(tmpdir(), 'cohort-pgbouncer-'));
  const port = await findFreePort();
  const user = decodeURIComponent(server.username);
  const configuration = `[databases]
* = host=${server.hostname} port=${server.port} user=${user} password=${decodeURIComponent(server.password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
`;
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(file, configuration);
  // It does not run as root, and whom it runs as must be able to read this.
  await chmod(folder, 0o755);
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(binary, ['-q', ...account, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  const through = new URL(url);
  through.host = `127.0.0.1:${port}`;
  try {
    await untilItAnswers(child, through.href);
  } catch (error) {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true });
    throw error;
  }
  return {
    url: through.href,
    stop: async () => {
      if (child.exitCode === null) {
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
      await rm(folder, { recursive: true });
    },
  };
}

async function untilItAnswers(child: ChildProcess, url: string): Promise<void> {
  let said = '';
  child.stderr!.on('data', (data) => (said += String(data)));
  for (const deadline = Date.now() + 10_000; Date.now() < deadline && child.exitCode === null;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.query('select 1');
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    } finally {
      await client.end().catch(() => undefined);
    }
  }
  throw new Error(`PgBouncer does not answer: ${said}`);
}
