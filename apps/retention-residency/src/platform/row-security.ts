import { PLATFORM } from '../vocabulary.js';

/** The role of requests: it sees the rows of one tenant, the one of its transaction. */
export const APP_ROLE = 'data_foundations_app';
/** The role of platform work: workers, platform rules, migrations of data. It sees every row. */
export const PLATFORM_ROLE = 'data_foundations_platform';
/** Set by MikroORM at the start of each transaction, for that transaction alone. */
export const TENANT_SETTING = 'data_foundations.tenant_id';

/** Row-level security of a table with a tenant: no tenant set, no rows. */
export function tenantRows() {
  return {
    rowLevelSecurity: 'force' as const,
    policies: [
      {
        name: 'own_tenant',
        roles: [APP_ROLE],
        using: `tenant_id = current_setting('${TENANT_SETTING}'::text, true)`,
        check: `tenant_id = current_setting('${TENANT_SETTING}'::text, true)`,
      },
      { name: 'platform', roles: [PLATFORM_ROLE], using: 'true', check: 'true' },
    ],
  };
}

/** As `tenantRows`, and every tenant reads what the platform says. */
export function tenantAndPlatformRows() {
  const { rowLevelSecurity, policies } = tenantRows();
  const readPlatform = {
    name: 'read_platform',
    command: 'select' as const,
    roles: [APP_ROLE],
    using: `tenant_id = '${PLATFORM}'::text`,
  };
  return { rowLevelSecurity, policies: [...policies, readPlatform] };
}
