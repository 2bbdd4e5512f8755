import { MikroOrmModule } from '@mikro-orm/nestjs';
import { type DynamicModule, type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CohortModule } from 'nestjs-cohort';
import { UnusedAddress } from './customers/unused-address.js';
import { ormOptions } from './database/orm-options.js';
import { shopRules } from './retention/rules.js';
import { ShopRetention } from './retention/shop-retention.js';
import { StderrLogger } from './terminal/stderr-logger.js';

/** The record store: its tables, and Cohort over them. */
@Module({})
class AppModule {
  static on(databaseUrl: string): DynamicModule {
    return {
      module: AppModule,
      imports: [
        MikroOrmModule.forRoot({ ...ormOptions(databaseUrl), registerRequestContext: false }),
        CohortModule.forRoot({ rules: shopRules }),
      ],
      providers: [ShopRetention, UnusedAddress],
    };
  }
}

/** Starts the application on a migrated database. Close it when done. */
export function createRecordStore(databaseUrl: string): Promise<INestApplicationContext> {
  return NestFactory.createApplicationContext(AppModule.on(databaseUrl), {
    logger: new StderrLogger({ logLevels: ['warn', 'error', 'fatal'] }),
    abortOnError: false,
  });
}
