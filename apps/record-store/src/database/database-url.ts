/** DATABASE_URL, checked; undefined where it is not set. Throws DatabaseUrlError. */
export function readDatabaseUrl(env: NodeJS.ProcessEnv): URL | undefined {
  const text = env.DATABASE_URL;
  if (!text) return undefined;
  const url = URL.parse(text);
  if (url && ['postgres:', 'postgresql:'].includes(url.protocol)) return url;
  // Not its value: it may hold a password.
  throw new DatabaseUrlError('DATABASE_URL is not a URL such as postgres://user:password@host:5432/database.');
}

/** The same server, another database. */
export function withDatabase(url: URL | string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

/** A database was asked for in a way that cannot be followed. */
export class DatabaseUrlError extends Error {
  readonly code = 'database-url';
}
