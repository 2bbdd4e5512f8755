import 'reflect-metadata';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, defineConfig } from '@mikro-orm/postgresql';
import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CohortModule, cohortEntities } from 'nestjs-cohort';
import { Job, NoHandler } from './jobs.js';
import { Note, PERIOD_DAYS } from './notes.js';

const RULE = { period: `P${PERIOD_DAYS}D`, strategy: 'purge' as const };

/** The library in an application, with its defaults, on a database that is still empty. */
export async function startCohortHost(url: string): Promise<INestApplicationContext> {
  const config = defineConfig({
    clientUrl: url,
    entities: [Note, Job, ...cohortEntities({ schema: 'retention' })],
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
      CohortModule.forRoot({
        rules: { notes: RULE, jobs: RULE },
        // What is queued is left to the measurement.
        rowHandlerDispatch: { pollInterval: 'P1D' },
      }),
    ],
    providers: [NoHandler],
  })
  class HostModule {}
  return NestFactory.createApplicationContext(HostModule, { logger: ['warn', 'error'] });
}
