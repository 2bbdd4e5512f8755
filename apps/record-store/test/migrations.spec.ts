import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { type TestDatabase, createTestDatabase } from 'local-stack/testing';
import { CohortConfigurationError } from 'nestjs-cohort';
import { temporaryFolder } from './support/temporary-folder.js';
import { createRecordStore } from '../src/app.module.js';
import { migrate, ormOptions } from '../src/database/orm-options.js';

describe('the migrations of the record store', () => {
  let database: TestDatabase;
  let orm: MikroORM;

  beforeAll(async () => {
    database = await createTestDatabase({ name: 'migrations' });
    orm = await MikroORM.init(ormOptions(database.url));
  });

  afterAll(async () => {
    await orm.close();
    await database.drop();
  });

  const tables = async () => {
    const rows = await orm.em.getConnection().execute<{ name: string }[]>(
      `select table_schema || '.' || table_name as name from information_schema.tables
       where table_schema in ('public', 'retention') order by 1`,
    );
    return rows.map(({ name }) => name);
  };

  test('make exactly what the model asks for', async () => {
    await orm.migrator.up();
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('');
    expect(await orm.migrator.checkSchema()).toBe(false);
    expect((await tables()).filter((name) => name.startsWith('retention.'))).toHaveLength(10);
  });

  test('have nothing to do the second time', async () => {
    expect(await orm.migrator.up()).toEqual([]);
  });

  test('go down to an empty database, and up again', async () => {
    await orm.migrator.down({ to: 0 });
    expect(await tables()).toEqual(['public.mikro_orm_migrations']);
    await orm.migrator.up();
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('');
  });

  // acceptance 198
  test('are what a fresh database lacks for the store to start on', async () => {
    const fresh = await createTestDatabase({ name: 'fresh' });
    try {
      await expect(createRecordStore(fresh.url, { documents: await temporaryFolder() })).rejects.toThrow(
        CohortConfigurationError,
      );
      expect(await migrate(fresh.url)).not.toEqual([]);
      const app = await createRecordStore(fresh.url, { documents: await temporaryFolder() });
      await app.close();
    } finally {
      await fresh.drop();
    }
  });

  // acceptance 88: what has run somewhere is never edited; a new migration adds its line to checksums.txt
  test('are the ones that their checksums were taken of', () => {
    const folder = new URL('../../../migrations/src/record-store/', import.meta.url);
    const sums = readdirSync(folder)
      .filter((file) => file.endsWith('.ts') && file !== 'migrations.ts')
      .sort()
      .map(
        (file) =>
          `${createHash('sha256')
            .update(readFileSync(new URL(file, folder)))
            .digest('hex')}  ${file}\n`,
      );
    expect(sums.length).toBeGreaterThan(0);
    expect(sums.join('')).toBe(readFileSync(new URL('checksums.txt', folder), 'utf8'));
  });
});
