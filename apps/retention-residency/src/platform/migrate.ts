import { createHmac } from 'node:crypto';
import { MikroORM } from '@mikro-orm/postgresql';
import { ormOptions } from './orm-options.js';
import { APP_ROLE, PLATFORM_ROLE } from './row-security.js';

/** Urls of one database, for each of the two roles. */
export interface RoleUrls {
  readonly app: string;
  readonly platform: string;
}

/** Brings a database up to date, as its owner. Returns the names of what was applied. */
export async function migrate(ownerUrl: string): Promise<string[]> {
  return withOwner(ownerUrl, async (orm) => (await orm.migrator.up()).map(({ name }) => name));
}

/**
 * For development: gives both roles a login, with passwords that follow from the owner's, so that every replica that knows
 * the owner's url comes to the same. In production whoever runs the server does this.
 */
export async function openRoles(ownerUrl: string): Promise<RoleUrls> {
  const urls = roleUrls(ownerUrl);
  await withOwner(ownerUrl, async (orm) => {
    await orm.em.transactional(async (em) => {
      // Two at once would fail on the same catalog row.
      await em.execute(`select pg_advisory_xact_lock(hashtextextended('data_foundations roles', 0))`);
      for (const [role, url] of [
        [APP_ROLE, urls.app],
        [PLATFORM_ROLE, urls.platform],
      ] as const) {
        await em.execute(`alter role ${role} login password '${new URL(url).password}'`);
      }
    });
  });
  return urls;
}

/** The urls that `openRoles` makes valid. */
export function roleUrls(ownerUrl: string): RoleUrls {
  return { app: roleUrl(ownerUrl, APP_ROLE), platform: roleUrl(ownerUrl, PLATFORM_ROLE) };
}

function roleUrl(ownerUrl: string, role: string): string {
  const url = new URL(ownerUrl);
  const password = createHmac('sha256', decodeURIComponent(url.password)).update(role).digest('hex');
  url.username = role;
  url.password = password;
  return url.href;
}

async function withOwner<T>(url: string, body: (orm: MikroORM) => Promise<T>): Promise<T> {
  const orm = await MikroORM.init(ormOptions({ url, pool: 1 }));
  try {
    return await body(orm);
  } finally {
    await orm.close();
  }
}
