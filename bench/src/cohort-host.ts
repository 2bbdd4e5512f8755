import 'reflect-metadata';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, defineConfig } from '@mikro-orm/postgresql';
import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CohortModule, cohortEntities } from 'nestjs-cohort';
import { Job, NoHandler } from './jobs.js';
import { Note, PERIOD_DAYS } from './notes.js';

const RULE = { period: `P${PERIOD_DAYS}D`, strategy: 'purge' as const };

/** How an application differs from one with the defaults. */
export interface HostVariant {
  readonly parallelism?: number;
  readonly auditRowDetail?: 'perRow';
  readonly strategy?: 'anonymise';
}

/** The tables of an application, in a database that is still empty. */
export async function createTables(url: string): Promise<void> {
  const orm = await MikroORM.init(configOf(url, 1));
  await orm.schema.create();
  await orm.close();
}

/** The library in an application. */
export async function startCohortHost(url: string, variant: HostVariant = {}): Promise<INestApplicationContext> {
  const { parallelism = 1, ...rule } = variant;

  @Module({
    imports: [
      MikroOrmModule.forRoot(configOf(url, parallelism)),
      CohortModule.forRoot({
        rules: { notes: { ...RULE, ...rule }, jobs: RULE },
        parallelism,
        // What is queued is left to the measurement.
        rowHandlerDispatch: { pollInterval: 'P1D' },
      }),
    ],
    providers: [NoHandler],
  })
  class HostModule {}
  return NestFactory.createApplicationContext(HostModule, { logger: ['warn', 'error'] });
}

function configOf(url: string, parallelism: number) {
  return defineConfig({
    clientUrl: url,
    entities: [Note, Job, ...cohortEntities({ schema: 'retention' })],
    discovery: { inferDefaultValues: false },
    // Never closed for being idle: the next measurement would pay for a new connection.
    pool: { max: parallelism + 2, idleTimeoutMillis: 0 },
  });
}
