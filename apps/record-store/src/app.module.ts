import { MikroOrmModule } from '@mikro-orm/nestjs';
import { type DynamicModule, type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CohortModule } from 'nestjs-cohort';
import { UnusedAddress } from './customers/unused-address.js';
import { ormOptions } from './database/orm-options.js';
import { DOCUMENTS_FOLDER, InvoiceDocuments } from './invoices/invoice-documents.js';
import { RetentionJournal } from './retention/retention-journal.js';
import { shopRules } from './retention/rules.js';
import { ShopRetention } from './retention/shop-retention.js';
import { ShopTenants } from './retention/shop-tenants.js';
import { StderrLogger } from './terminal/stderr-logger.js';

export interface StoreSettings {
  /** Folder of the invoices' PDFs. */
  readonly documents: string;
  /** When the worker sweeps, as cron in UTC. Default: never. */
  readonly schedule?: string | null;
}

/** The record store: its tables, and Cohort over them. */
@Module({})
class AppModule {
  static on(databaseUrl: string, { documents, schedule = null }: StoreSettings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        MikroOrmModule.forRoot({ ...ormOptions(databaseUrl), registerRequestContext: false }),
        CohortModule.forRoot({ rules: shopRules, tenants: ShopTenants, schedule }),
      ],
      providers: [
        ShopRetention,
        ShopTenants,
        UnusedAddress,
        InvoiceDocuments,
        RetentionJournal,
        { provide: DOCUMENTS_FOLDER, useValue: documents },
      ],
    };
  }
}

/** Starts the application on a migrated database. Close it when done. */
export function createRecordStore(databaseUrl: string, settings: StoreSettings): Promise<INestApplicationContext> {
  return NestFactory.createApplicationContext(AppModule.on(databaseUrl, settings), {
    logger: new StderrLogger({ logLevels: ['warn', 'error', 'fatal'] }),
    abortOnError: false,
  });
}
