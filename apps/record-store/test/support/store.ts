import 'reflect-metadata';
import { EntityManager } from '@mikro-orm/postgresql';
import { createTestDatabase, ensureTemplate } from 'local-stack/testing';
import { RetentionHolds, RetentionLedger } from 'nestjs-cohort';
import { createRecordStore } from '../../src/app.module.js';
import { migrate } from '../../src/database/orm-options.js';
import { temporaryFolder } from './temporary-folder.js';
import { ShopRetention } from '../../src/retention/shop-retention.js';

const MIGRATED = 'record-store';

/** The application on a database of its own, migrated and empty. */
export async function openStore() {
  await ensureTemplate(MIGRATED, async (url) => void (await migrate(url)));
  const database = await createTestDatabase({ template: MIGRATED, name: MIGRATED });
  const app = await createRecordStore(database.url, { documents: await temporaryFolder() });
  return {
    em: app.get(EntityManager),
    retention: app.get(ShopRetention),
    holds: app.get(RetentionHolds),
    ledger: app.get(RetentionLedger),
    close: async () => {
      await app.close();
      await database.drop();
    },
  };
}
