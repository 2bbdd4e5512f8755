import { randomUUID } from 'node:crypto';
import { MikroORM } from '@mikro-orm/core';
import { getMikroORMToken } from '@mikro-orm/nestjs';
import type { MikroORM as PostgreSqlMikroORM } from '@mikro-orm/postgresql';
import {
  ConfigurableModuleBuilder,
  type DynamicModule,
  Inject,
  Injectable,
  Logger,
  Module,
  type OnApplicationBootstrap,
  type OnModuleInit,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CohortConfigurationError, describeValue } from './cohort.errors.js';
import type { CohortOptions } from './cohort.options.js';
import type { EngineLogger } from './engine/context.js';
import { RetentionRowDispatcher } from './dispatch/retention-row-dispatcher.js';
import { RetentionSettings } from './retention-settings.js';
import { RetentionPreview } from './sweeps/retention-preview.js';
import { RetentionSweep } from './sweeps/retention-sweep.js';
import { RetentionDeletion } from './holds/retention-deletion.js';
import { RetentionErasure } from './sweeps/retention-erasure.js';
import { RetentionHolds } from './holds/retention-holds.js';
import { RetentionLedger } from './ledger/retention-ledger.js';
import type { HostProvider } from './startup/check-providers.js';
import { type FindInstances, Readiness } from './startup/readiness.js';
import { HistoryPruner } from './workers/history-pruner.js';
import { RetentionHealthIndicator } from './workers/retention-health-indicator.js';
import { RetentionWorker } from './workers/retention-worker.js';

const ORM = Symbol('the MikroORM instance that Cohort works in');
const PORTS = [
  RetentionPreview,
  RetentionSweep,
  RetentionErasure,
  RetentionDeletion,
  RetentionHolds,
  RetentionLedger,
  RetentionRowDispatcher,
  RetentionSettings,
  RetentionHealthIndicator,
];

/** Where the host imports ScheduleModule, our timers stand among its own. Importing it here would run its jobs twice. */
const HOSTS_TIMERS = { token: SchedulerRegistry, optional: true };

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<
  Omit<CohortOptions, 'contextName'>
>()
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createCohortOptions')
  .setExtras<{ contextName?: string | undefined }>({ contextName: undefined }, (definition, { contextName }) => ({
    ...definition,
    global: true,
    providers: [...(definition.providers ?? []), { provide: ORM, useExisting: ormToken(contextName) }],
  }))
  .build();

/** Fails the host's start on a wrong configuration, model or schema; direct callers are guarded by the same check. */
@Injectable()
class StartupValidation implements OnModuleInit, OnApplicationBootstrap {
  constructor(
    @Inject(Readiness) private readonly readiness: Readiness,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
  ) {}

  /** Before anything of Cohort's runs by itself. */
  onModuleInit(): void {
    const modules = instancesIn(this.discovery)(StartupValidation).length;
    if (modules > 1)
      throw new CohortConfigurationError([`CohortModule is imported ${modules} times; a host has one Cohort.`]);
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.readiness.context();
  }
}

/**
 * Data retention for the host's MikroORM entities. Import it once, beside MikroOrmModule: with `forRoot(options)`, or with
 * `forRootAsync({ useFactory | useClass | useExisting, inject, imports, contextName })`, whose classes implement
 * `createCohortOptions()`.
 */
@Module({
  imports: [DiscoveryModule],
  providers: [
    {
      provide: Readiness,
      inject: [ORM, MODULE_OPTIONS_TOKEN, DiscoveryService],
      useFactory: (orm: PostgreSqlMikroORM, options: CohortOptions, discovery: DiscoveryService) =>
        new Readiness({
          orm,
          options: requireNoContext(options),
          logger: engineLogger(),
          newId: randomUUID,
          findInstances: instancesIn(discovery),
          providers: () => providersIn(discovery),
        }),
    },
    StartupValidation,
    ...PORTS.filter((port) => port !== RetentionSettings),
    { provide: RetentionSettings, inject: [Readiness], useFactory: ({ settings }: Readiness) => settings },
    {
      provide: RetentionWorker,
      inject: [Readiness, HOSTS_TIMERS],
      useFactory: (readiness: Readiness, timers?: SchedulerRegistry) => new RetentionWorker(running(readiness, timers)),
    },
    {
      provide: HistoryPruner,
      inject: [Readiness, HOSTS_TIMERS],
      useFactory: (readiness: Readiness, timers?: SchedulerRegistry) => new HistoryPruner(running(readiness, timers)),
    },
  ],
  exports: PORTS,
})
export class CohortModule extends ConfigurableModuleClass {
  static override forRoot(options: CohortOptions): DynamicModule {
    // Start-up names what is wrong with options that are no object.
    return super.forRoot(options ?? ({} as CohortOptions));
  }
}

function ormToken(contextName: unknown): string | typeof MikroORM {
  if (contextName === undefined) return MikroORM;
  if (typeof contextName === 'string' && contextName !== '') return getMikroORMToken(contextName) as string;
  throw new CohortConfigurationError([
    `contextName is ${describeValue(contextName)}; wanted: the name of a MikroORM context.`,
  ]);
}

/** Which context is meant must be known before anything can be injected. */
function requireNoContext(options: CohortOptions): CohortOptions {
  if (options?.contextName === undefined) return options;
  throw new CohortConfigurationError([
    `contextName is ${describeValue(options.contextName)} in what the factory returned; name it in forRootAsync itself.`,
  ]);
}

/** Singletons of exactly one class, under whatever tokens the host provides them. */
function instancesIn(discovery: DiscoveryService): FindInstances {
  return (type) => [
    ...new Set(
      discovery
        .getProviders()
        .filter((wrapper) => isSingleton(wrapper) && (wrapper.instance as object | null)?.constructor === type)
        .map((wrapper): unknown => wrapper.instance),
    ),
  ];
}

/** All of the host's providers, in the order in which it registered them. Those that have no one instance have only a class. */
function providersIn(discovery: DiscoveryService): HostProvider[] {
  return discovery.getProviders().flatMap((wrapper): HostProvider[] => {
    if (!isSingleton(wrapper)) return [{ type: wrapper.metatype as HostProvider['type'], instance: undefined }];
    const instance = wrapper.instance as object | null | undefined;
    return instance?.constructor ? [{ type: instance.constructor as HostProvider['type'], instance }] : [];
  });
}

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** What lives for a request, or is made for whoever injects it, has no instance that would be the one. */
function isSingleton(wrapper: Wrapper): boolean {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}

/** What the parts that run by themselves need. */
function running(readiness: Readiness, timers = new SchedulerRegistry()) {
  return { readiness, timers, logger: engineLogger(), clock: () => new Date() };
}

function engineLogger(): EngineLogger & { log(message: string): void } {
  const logger = new Logger('Cohort');
  return {
    log: (message) => logger.log(message),
    warn: (message) => logger.warn(message),
    error: (message, error) => logger.error(message, error),
  };
}
