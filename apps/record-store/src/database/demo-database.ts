import { randomBytes } from 'node:crypto';
import { MikroORM } from '@mikro-orm/postgresql';
import { startEmbeddedPostgres } from 'local-stack';
import { readDatabaseUrl, withDatabase } from './database-url.js';

/**
 * Lends a new, empty database to `body` and removes it afterwards, whatever came of it: one on the server of DATABASE_URL,
 * or a throw-away server.
 */
export async function withDemoDatabase<T>(env: NodeJS.ProcessEnv, body: (url: string) => Promise<T>): Promise<T> {
  const given = readDatabaseUrl(env);
  if (!given) {
    const server = await startEmbeddedPostgres();
    return body(server.url).finally(() => server.stop());
  }
  const name = `cohort_demo_${randomBytes(6).toString('hex')}`;
  await runOn(given, `create database ${name}`);
  return body(withDatabase(given, name)).finally(() => runOn(given, `drop database if exists ${name} with (force)`));
}

async function runOn(url: URL, statement: string): Promise<void> {
  const orm = await MikroORM.init({
    clientUrl: url.href,
    entities: [],
    discovery: { warnWhenNoEntities: false },
    logger: (message) => console.error(message),
  });
  try {
    await orm.em.getConnection().execute(statement);
  } finally {
    await orm.close();
  }
}
