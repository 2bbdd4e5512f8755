import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { LoggerModule } from 'nestjs-pino';
import { AccessGuard } from './access/access.guard.js';
import { TokenVerifier } from './access/token-verifier.js';
import { Evidence } from './evidence/evidence.js';
import { GrpcSide } from './grpc.js';
import { EventBus } from './outbox/event-bus.js';
import { InProcessBus } from './outbox/in-process-bus.js';
import { NatsBus } from './outbox/nats-bus.js';
import { Outbox } from './outbox/outbox.js';
import { OutboxRelay } from './outbox/outbox-relay.js';
import { Database } from './platform/database.js';
import { Health } from './platform/health.js';
import { logging } from './platform/logging.js';
import { Metrics } from './platform/metrics.js';
import { PlatformController } from './platform/platform.http.js';
import { ProblemFilter } from './platform/problem.filter.js';
import { TimeAndIds } from './platform/time-and-ids.js';
import { CheckResidency } from './residency/check-residency.js';
import { ResidencyController } from './residency/residency.http.js';
import { ResidencyGrpcController } from './residency/residency.grpc.js';
import { ResidencyMemory } from './residency/residency-memory.js';
import { ResidencyService } from './residency/residency.service.js';
import { RuleActivator } from './rules/rule-activator.js';
import { RulesController } from './rules/rules.http.js';
import { RulesService } from './rules/rules.service.js';
import { Settings } from './settings.js';
import { Workers } from './workers/workers.js';

export interface AppParts {
  readonly settings: Settings;
  readonly database: Database;
  readonly grpc: GrpcSide;
  /** Tests bring their own. */
  readonly timeAndIds?: TimeAndIds;
}

/** Wires the service; decides nothing. */
@Module({})
export class AppModule {
  static of({ settings, database, grpc, timeAndIds = new TimeAndIds() }: AppParts): DynamicModule {
    return {
      module: AppModule,
      imports: [LoggerModule.forRoot(logging(settings))],
      controllers: [RulesController, ResidencyController, ResidencyGrpcController, PlatformController],
      providers: [
        { provide: Settings, useValue: settings },
        { provide: TimeAndIds, useValue: timeAndIds },
        { provide: Database, useValue: database },
        { provide: GrpcSide, useValue: grpc },
        { provide: EventBus, useFactory: () => busOf(settings) },
        { provide: APP_GUARD, useClass: AccessGuard },
        { provide: APP_FILTER, useClass: ProblemFilter },
        TokenVerifier,
        Outbox,
        OutboxRelay,
        Evidence,
        Metrics,
        Health,
        RulesService,
        RuleActivator,
        ResidencyMemory,
        ResidencyService,
        CheckResidency,
        Workers,
      ],
    };
  }
}

function busOf({ natsUrl, natsReplicas }: Settings): EventBus {
  return natsUrl === undefined ? new InProcessBus() : new NatsBus({ url: natsUrl, replicas: natsReplicas });
}
