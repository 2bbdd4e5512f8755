import { expect, test } from '@jest/globals';
import { Database } from '../src/platform/database.js';
import { runSql } from '../src/platform/sql.js';
import { openProxy } from './support/cut-proxy.js';
import { governanceDatabase } from './support/governance.js';

test('a transaction whose connection is lost does not keep it from the pool, and the service can be ended', async () => {
  const place = await governanceDatabase();
  const proxy = await openProxy(place.urls.app);
  const urls = { app: proxy.through(place.urls.app), platform: proxy.through(place.urls.platform) };
  const database = await Database.open({ urls, pool: 1 });
  const one = () => database.inTenant('acme', (em) => runSql(em, 'select 1 as one'));
  try {
    for (let round = 0; round < 3; round++) {
      const lost = database.inTenant('acme', async (em) => {
        await proxy.cut();
        await runSql(em, 'select 1');
      });
      await expect(lost).rejects.toThrow();
      await proxy.mend();
      expect(await one()).toEqual([{ one: 1 }]);
    }
  } finally {
    await database.onApplicationShutdown();
    await proxy.cut();
    await place.drop();
  }
});
