import 'reflect-metadata';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, defineConfig } from '@mikro-orm/postgresql';
import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CohortModule, cohortEntities } from 'nestjs-cohort';
import { Note, PERIOD_DAYS } from './notes.js';

/** The library in an application, with its defaults, on a database that is still empty. */
export async function startCohortHost(url: string): Promise<INestApplicationContext> {
  const config = defineConfig({
    clientUrl: url,
    entities: [Note, ...cohortEntities({ schema: 'retention' })],
    discovery: { inferDefaultValues: false },
    // Never closed for being idle: the next measurement would pay for a new connection.
    pool: { max: 3, idleTimeoutMillis: 0 },
  });
  const orm = await MikroORM.init(config);
  await orm.schema.create();
  await orm.close();

  @Module({
    imports: [
      MikroOrmModule.forRoot(config),
      CohortModule.forRoot({ rules: { notes: { period: `P${PERIOD_DAYS}D`, strategy: 'purge' } } }),
    ],
  })
  class HostModule {}
  return NestFactory.createApplicationContext(HostModule, { logger: ['warn', 'error'] });
}
