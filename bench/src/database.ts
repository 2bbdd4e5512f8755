import { randomBytes } from 'node:crypto';
import { startEmbeddedPostgres } from 'local-stack';
import pg from 'pg';

/**
 * A commit costs here what it costs an application: nothing of durability is switched off, although the folder is thrown
 * away. Memory is ample, so that neither side waits for a checkpoint that happened to fall into its time.
 */
const SERVER_SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '1GB',
  maintenance_work_mem: '256MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '1h',
};

/** Runs `body` on a database of its own, on the server of `serverUrl` or on an embedded one, and drops it. */
export async function withDatabase<T>(serverUrl: string | undefined, body: (url: string) => Promise<T>): Promise<T> {
  const server = serverUrl ? undefined : await startEmbeddedPostgres({ serverSettings: SERVER_SETTINGS });
  const adminUrl = serverUrl || server!.url;
  const name = `cohort_bench_${randomBytes(4).toString('hex')}`;
  try {
    await withClient(adminUrl, (admin) => admin.query(`create database ${name}`));
    try {
      return await body(Object.assign(new URL(adminUrl), { pathname: `/${name}` }).href);
    } finally {
      await withClient(adminUrl, (admin) => admin.query(`drop database ${name} with (force)`));
    }
  } finally {
    await server?.stop();
  }
}

export async function withClient<T>(url: string, body: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}
