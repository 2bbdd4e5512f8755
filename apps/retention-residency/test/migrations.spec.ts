import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { type TestDatabase, createTestDatabase } from 'local-stack/testing';
import { ormOptions } from '../src/platform/orm-options.js';

describe('the migrations of the governance service', () => {
  let database: TestDatabase;
  let orm: MikroORM;

  beforeAll(async () => {
    database = await createTestDatabase({ name: 'governance-migrations' });
    orm = await MikroORM.init(ormOptions({ url: database.url }));
  });

  afterAll(async () => {
    await orm.close();
    await database.drop();
  });

  test('make exactly what the model asks for', async () => {
    await orm.migrator.up();
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('');
    expect(await orm.migrator.checkSchema()).toBe(false);
  });

  test('have nothing to do the second time', async () => {
    expect(await orm.migrator.up()).toEqual([]);
  });

  test('go down to nothing, and up again', async () => {
    await orm.migrator.down({ to: 0 });
    const left = await orm.em.execute(
      `select 1 from information_schema.schemata where schema_name = 'data_foundations'`,
    );
    expect(left).toEqual([]);
    await orm.migrator.up();
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('');
  });

  test('are the ones that their checksums were taken of', () => {
    const folder = new URL('../../../migrations/src/retention-residency/', import.meta.url);
    const sums = readdirSync(folder)
      .filter((file) => file.endsWith('.ts') && file !== 'migrations.ts')
      .sort()
      .map((file) => {
        const sum = createHash('sha256').update(readFileSync(new URL(file, folder)));
        return `${sum.digest('hex')}  ${file}\n`;
      });
    expect(sums.join('')).toBe(readFileSync(new URL('checksums.txt', folder), 'utf8'));
  });
});
