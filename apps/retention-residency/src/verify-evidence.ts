import 'reflect-metadata';
import { join } from 'node:path';
import { fail, startEmbeddedPostgres } from 'local-stack';
import { verifyEvidence } from './evidence/verify-evidence.js';
import { Database } from './platform/database.js';
import { openRoles } from './platform/migrate.js';

/**
 * `npm run evidence:verify`: recomputes every chain of the database that PLATFORM_DATABASE_URL names, or of the embedded one
 * in DATA_DIR. Exit code 1 and the first break of each chain where something was altered or removed.
 */
async function verify(env: NodeJS.ProcessEnv): Promise<void> {
  const place = await openPlatform(env);
  try {
    const database = await Database.openPlatform(place.url);
    try {
      const { chains, entries, breaks } = await verifyEvidence(database);
      for (const { tenantId, seq, what } of breaks) console.log(`BROKEN ${tenantId}, entry ${seq}: ${what}.`);
      const verdict = breaks.length === 0 ? 'all whole' : `${breaks.length} broken`;
      console.log(`${chains} chains, ${entries} entries read: ${verdict}.`);
      if (breaks.length > 0) process.exitCode = 1;
    } finally {
      await database.onApplicationShutdown();
    }
  } finally {
    await place.close();
  }
}

async function openPlatform(env: NodeJS.ProcessEnv): Promise<{ url: string; close(): Promise<void> }> {
  if (env.PLATFORM_DATABASE_URL) return { url: env.PLATFORM_DATABASE_URL, close: async () => undefined };
  if (env.NODE_ENV === 'production') {
    throw Object.assign(
      new Error('PLATFORM_DATABASE_URL is missing; wanted is the login of data_foundations_platform.'),
      {
        code: 'settings',
      },
    );
  }
  if (env.DATABASE_URL) {
    return { url: (await openRoles(env.DATABASE_URL)).platform, close: async () => undefined };
  }
  const server = await startEmbeddedPostgres({ dataDir: join(env.DATA_DIR || '.data', 'postgres') });
  const owner = new URL(server.url);
  owner.pathname = '/governance';
  const urls = await openRoles(owner.href);
  return { url: urls.platform, close: () => server.stop() };
}

try {
  await verify(process.env);
} catch (error) {
  fail(error);
}
