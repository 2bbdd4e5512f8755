import { join } from 'node:path';
import { startEmbeddedPostgres } from 'local-stack';
import { DatabaseUrlError, readDatabaseUrl, withDatabase } from './database-url.js';

/** The database that the record store runs on. */
export interface OpenDatabase {
  readonly url: string;
  /** For people. Without a password, unless it guards nothing but an embedded server. */
  readonly place: string;
  close(): Promise<void>;
}

/**
 * DATABASE_URL, or an embedded PostgreSQL whose data stays under DATA_DIR (default `.data`). With NODE_ENV=production
 * nothing is embedded. Throws DatabaseUrlError, and what the embedded server throws.
 */
export async function openDatabase(env: NodeJS.ProcessEnv): Promise<OpenDatabase> {
  const given = readDatabaseUrl(env);
  if (given) {
    const { host, pathname } = given;
    return { url: given.href, place: `${pathname.slice(1)} on ${host} (DATABASE_URL)`, close: async () => undefined };
  }
  if (env.NODE_ENV === 'production') {
    throw new DatabaseUrlError('NODE_ENV is production, so nothing is embedded: set DATABASE_URL to your PostgreSQL.');
  }
  const server = await startEmbeddedPostgres({ dataDir: join(env.DATA_DIR || '.data', 'postgres') });
  const url = withDatabase(server.url, 'record_store');
  return { url, place: `${url} (embedded, data in ${server.dataDir})`, close: () => server.stop() };
}
