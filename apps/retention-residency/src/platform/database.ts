import { type EntityManager, IsolationLevel, MikroORM } from '@mikro-orm/postgresql';
import type { OnApplicationShutdown } from '@nestjs/common';
import type { RoleUrls } from './migrate.js';
import { ormOptions } from './orm-options.js';
import { PLATFORM_ROLE, TENANT_SETTING } from './row-security.js';

/** Of the statements of one request. A hung database fails it instead of holding a connection for ever. */
const LIMITS = { statement_timeout: '10s', lock_timeout: '5s', idle_in_transaction_session_timeout: '30s' };
/** A little more than the server gives a statement: then it is the server that does not work. */
const ANSWER_MS = 12_000;

export interface DatabaseSettings {
  readonly urls: RoleUrls;
  /** Connections for requests. */
  readonly pool: number;
}

/** The database, as each of the two roles. Every piece of work is one transaction. */
export class Database implements OnApplicationShutdown {
  private constructor(
    private readonly app: MikroORM | null,
    private readonly platform: MikroORM,
  ) {}

  /** Connects as both roles; throws what the driver throws, and DatabaseRoleError for roles that see too much. */
  static async open({ urls, pool }: DatabaseSettings): Promise<Database> {
    const app = await MikroORM.init(ormOptions({ url: urls.app, pool, answerMs: ANSWER_MS }));
    const settings = ormOptions({ url: urls.platform, pool: 5, answerMs: ANSWER_MS });
    const platform = await MikroORM.init(settings).catch(async (error: unknown) => {
      await app.close();
      throw error;
    });
    const database = new Database(app, platform);
    try {
      await refuseMightyRole(app, 'DATABASE_URL', { mayBePlatform: false });
      await refuseMightyRole(platform, 'PLATFORM_DATABASE_URL', { mayBePlatform: true });
    } catch (error) {
      await database.onApplicationShutdown();
      throw error;
    }
    return database;
  }

  /** As the platform role alone, for programs that serve nobody. */
  static async openPlatform(url: string): Promise<Database> {
    return new Database(null, await MikroORM.init(ormOptions({ url, pool: 1, answerMs: ANSWER_MS })));
  }

  /** A transaction that sees the rows of one tenant. */
  inTenant<T>(tenantId: string, body: (em: EntityManager) => Promise<T>): Promise<T> {
    if (this.app === null) throw new Error('This database was opened for the platform alone.');
    const em = this.app.em.fork();
    em.setSessionContext({ variables: { ...LIMITS, [TENANT_SETTING]: tenantId } });
    return em.transactional(body);
  }

  /** A transaction that sees the rows of every tenant: for workers, and for what a PlatformAdmin does to the platform. */
  asPlatform<T>(body: (em: EntityManager) => Promise<T>): Promise<T> {
    return this.fork().transactional(body);
  }

  /** As `asPlatform`, all statements seeing the same moment. Nothing is written. */
  atOneMoment<T>(body: (em: EntityManager) => Promise<T>): Promise<T> {
    return this.fork().transactional(body, { isolationLevel: IsolationLevel.REPEATABLE_READ, readOnly: true });
  }

  private fork(): EntityManager {
    const em = this.platform.em.fork();
    em.setSessionContext({ variables: LIMITS });
    return em;
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([this.app?.close(), this.platform.close()]);
  }
}

/** A role that the policies do not hold would show every tenant to every other. */
async function refuseMightyRole(
  orm: MikroORM,
  variable: string,
  { mayBePlatform }: { mayBePlatform: boolean },
): Promise<void> {
  const [role] = await orm.em.getConnection().execute<{ name: string; sees_all: boolean }[]>(
    `select rolname as name,
       rolsuper or rolbypassrls or (not ?::boolean and exists (
         select from pg_roles platform
         where platform.rolname = ? and pg_has_role(pg_roles.oid, platform.oid, 'member')
       )) as sees_all
     from pg_roles
     where rolname = current_user`,
    [mayBePlatform, PLATFORM_ROLE],
  );
  if (role?.sees_all) throw new DatabaseRoleError(variable, role.name);
}

/** A role was given that row-level security does not hold. */
export class DatabaseRoleError extends Error {
  readonly code = 'database-role';

  constructor(variable: string, role: string) {
    super(
      `${variable} logs in as ${role}, which sees the rows of every tenant. Give the login of a role without SUPERUSER and BYPASSRLS that is no member of the platform's: data_foundations_app for DATABASE_URL, data_foundations_platform for PLATFORM_DATABASE_URL.`,
    );
    this.name = 'DatabaseRoleError';
  }
}
