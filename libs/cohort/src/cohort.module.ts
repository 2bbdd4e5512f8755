import { randomUUID } from 'node:crypto';
import { MikroORM } from '@mikro-orm/core';
import { getMikroORMToken } from '@mikro-orm/nestjs';
import type { MikroORM as PostgreSqlMikroORM } from '@mikro-orm/postgresql';
import { type DynamicModule, Inject, Injectable, Logger, Module, type OnApplicationBootstrap } from '@nestjs/common';
import type { CohortOptions } from './cohort.options.js';
import type { EngineLogger } from './engine/context.js';
import { RetentionPreview } from './sweeps/retention-preview.js';
import { RetentionSweep } from './sweeps/retention-sweep.js';
import { RetentionHolds } from './holds/retention-holds.js';
import { RetentionLedger } from './ledger/retention-ledger.js';
import { Readiness } from './startup/readiness.js';

/** Fails the host's start on a wrong configuration, model or schema; direct callers are guarded by the same check. */
@Injectable()
class StartupValidation implements OnApplicationBootstrap {
  constructor(@Inject(Readiness) private readonly readiness: Readiness) {}

  async onApplicationBootstrap(): Promise<void> {
    await this.readiness.context();
  }
}

const PORTS = [RetentionPreview, RetentionSweep, RetentionHolds, RetentionLedger];

/** Data retention for the host's MikroORM entities. Import it once, beside MikroOrmModule. */
@Module({})
export class CohortModule {
  static forRoot(options: CohortOptions): DynamicModule {
    return {
      module: CohortModule,
      global: true,
      providers: [
        {
          provide: Readiness,
          inject: [options?.contextName ? getMikroORMToken(options.contextName) : MikroORM],
          useFactory: (orm: PostgreSqlMikroORM) =>
            new Readiness({ orm, options, logger: engineLogger(), newId: randomUUID }),
        },
        StartupValidation,
        ...PORTS,
      ],
      exports: PORTS,
    };
  }
}

function engineLogger(): EngineLogger {
  const logger = new Logger('Cohort');
  return {
    warn: (message) => logger.warn(message),
    error: (message, error) => logger.error(message, error),
  };
}
