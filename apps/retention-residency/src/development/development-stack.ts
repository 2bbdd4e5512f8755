import { join } from 'node:path';
import { type EmbeddedPostgres, startEmbeddedPostgres, startIdentityProvider } from 'local-stack';
import { migrate, openRoles } from '../platform/migrate.js';
import { type Neighbour, startRecordStore } from './record-store.js';

/** What stands in, on a developer's machine, for what the environment does not name. */
export interface DevelopmentStack {
  /** The environment, completed. */
  readonly env: NodeJS.ProcessEnv;
  /** What runs where, for people. */
  readonly places: readonly string[];
  close(): Promise<void>;
}

const AUDIENCE = 'retention-residency';

/**
 * Starts what is missing: PostgreSQL with its data in DATA_DIR (default `.data`), the identity provider, the record store.
 * DATABASE_URL alone, without PLATFORM_DATABASE_URL, is taken for the owner's, and the roles are opened by it. With
 * NODE_ENV=production nothing is started and the environment stays as it is.
 */
export async function openDevelopmentStack(env: NodeJS.ProcessEnv): Promise<DevelopmentStack> {
  if (env.NODE_ENV === 'production') return { env, places: [], close: async () => undefined };
  const started: { stop(): Promise<unknown> }[] = [];
  const close = async () => {
    for (const part of started.splice(0).reverse()) await part.stop();
  };
  try {
    const places: string[] = [];
    const completed: NodeJS.ProcessEnv = { LOG_LEVEL: 'warn', OIDC_AUDIENCE: AUDIENCE, ...env };
    const server = await openPostgres(env, started);
    if (server) places.push(`Database       ${withDatabase(server.url, 'governance')}`);
    await completeUrls(completed, server);
    if (!env.OIDC_ISSUER) {
      const port = portOf(env.IDENTITY_PORT, 3001);
      const identity = await startIdentityProvider({ port, audience: completed.OIDC_AUDIENCE ?? AUDIENCE });
      started.push(identity);
      completed.OIDC_ISSUER = identity.issuer;
      places.push(`Identity       ${identity.issuer} (development clients, secret dev-secret)`);
    }
    const store = await openRecordStore(env, server);
    started.push(store);
    places.push(`Record store   runs beside it, on its own tables`);
    return { env: completed, places, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openPostgres(
  env: NodeJS.ProcessEnv,
  started: { stop(): Promise<unknown> }[],
): Promise<EmbeddedPostgres | undefined> {
  if (env.DATABASE_URL) return undefined;
  const server = await startEmbeddedPostgres({ dataDir: join(env.DATA_DIR || '.data', 'postgres') });
  started.push(server);
  return server;
}

/** Migrates as the owner and logs in as both roles, unless the urls of both are given. */
async function completeUrls(env: NodeJS.ProcessEnv, server: EmbeddedPostgres | undefined): Promise<void> {
  if (env.PLATFORM_DATABASE_URL) return;
  const owner = server ? withDatabase(server.url, 'governance') : (env.DATABASE_URL as string);
  for (const name of await migrate(owner)) console.log(`Applied migration ${name}.`);
  const { app, platform } = await openRoles(owner);
  env.DATABASE_URL = app;
  env.PLATFORM_DATABASE_URL = platform;
}

function openRecordStore(env: NodeJS.ProcessEnv, server: EmbeddedPostgres | undefined): Promise<Neighbour> {
  const url = server ? withDatabase(server.url, 'record_store') : env.RECORD_STORE_DATABASE_URL || env.DATABASE_URL;
  return startRecordStore({ ...env, DATABASE_URL: url });
}

function withDatabase(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

function portOf(text: string | undefined, fallback: number): number {
  const port = text === undefined || text === '' ? fallback : Number(text);
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  throw Object.assign(new Error(`IDENTITY_PORT is ${JSON.stringify(text)}: it is no port from 0 to 65535.`), {
    code: 'settings',
  });
}
