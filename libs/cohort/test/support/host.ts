import { randomUUID } from 'node:crypto';
import { afterEach } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { CompiledQuery, type Kysely } from 'kysely';
import { createTestDatabase } from 'local-stack/testing';
import {
  RetentionDeletion,
  RetentionErasure,
  RetentionHolds,
  RetentionLedger,
  RetentionPreview,
  RetentionRowDispatcher,
  RetentionSweep,
  type CohortOptions,
  cohortEntities,
  giveBackLostConnections,
} from 'nestjs-cohort';
import type { DispatchProbe, EngineLogger, Probe } from '../../src/engine/context.js';
import type { HostProvider } from '../../src/startup/check-providers.js';
import { Readiness } from '../../src/startup/readiness.js';
import { SCHEMA } from './schema.js';

type Entities = NonNullable<Parameters<typeof MikroORM.init>[0]>['entities'];

export interface HostOptions {
  readonly entities: NonNullable<Entities>;
  readonly options: CohortOptions;
  /** Schema of Cohort's tables. Default: the run's. */
  readonly cohortSchema?: string;
  readonly poolSize?: number;
  /** An existing database instead of a new one. */
  readonly url?: string;
  readonly probe?: Probe;
  /** Anonymise factories, as the host's container has them. */
  readonly factories?: readonly object[];
  /** Row handlers and observers, as the host's container has them. */
  readonly providers?: readonly object[];
  readonly dispatchProbe?: DispatchProbe;
  /** More of the MikroORM configuration. */
  readonly orm?: { readonly driverOptions?: object; readonly sessionContext?: 'transaction' | 'connection' };
}

export interface Host {
  readonly url: string;
  readonly orm: MikroORM;
  readonly readiness: Readiness;
  readonly preview: RetentionPreview;
  readonly sweep: RetentionSweep;
  readonly erasure: RetentionErasure;
  readonly deletion: RetentionDeletion;
  readonly holds: RetentionHolds;
  readonly ledger: RetentionLedger;
  readonly dispatcher: RetentionRowDispatcher;
  /** What the engine logged, messages only. */
  readonly logs: string[];
  query<T = Record<string, unknown>>(text: string, values?: unknown[]): Promise<T[]>;
  close(): Promise<void>;
}

/** A host as a test needs it: a database of its own with the entities' tables and Cohort's, and every port. */
export async function startHost(input: HostOptions): Promise<Host> {
  const database = input.url === undefined ? await createTestDatabase({ name: 'cohort' }) : undefined;
  const url = input.url ?? database!.url;
  const orm = await MikroORM.init({
    clientUrl: url,
    entities: [...(input.entities as object[]), ...cohortEntities({ schema: input.cohortSchema ?? SCHEMA })] as never,
    pool: { max: input.poolSize ?? 10 },
    discovery: { inferDefaultValues: false },
    allowGlobalContext: true,
    driverOptions: { onPoolCreated: giveBackLostConnections },
    ...(input.orm as object),
  });
  if (database) await orm.schema.create();
  const logs: string[] = [];
  const logger: EngineLogger = {
    warn: (message) => void logs.push(message),
    error: (message, error) => void logs.push(`${message}: ${(error as Error)?.message}`),
  };
  const readiness = new Readiness({
    orm,
    options: input.options,
    logger,
    newId: randomUUID,
    findInstances: (type) => (input.factories ?? []).filter((factory) => factory.constructor === type),
    providers: () =>
      (input.providers ?? []).map((instance) => ({ type: instance.constructor as HostProvider['type'], instance })),
    probe: input.probe,
    dispatchProbe: input.dispatchProbe,
  });
  return {
    url,
    orm,
    readiness,
    preview: new RetentionPreview(readiness),
    sweep: new RetentionSweep(readiness),
    erasure: new RetentionErasure(readiness),
    deletion: new RetentionDeletion(readiness),
    holds: new RetentionHolds(readiness),
    ledger: new RetentionLedger(readiness),
    dispatcher: new RetentionRowDispatcher(readiness),
    logs,
    query: async <T>(text: string, values: unknown[] = []) => {
      const client = orm.em.getDriver().getConnection().getClient() as unknown as Kysely<unknown>;
      return (await client.executeQuery(CompiledQuery.raw(text, values))).rows as T[];
    },
    close: async () => {
      await orm.close();
      await database?.drop();
    },
  };
}

const openHosts: Host[] = [];
afterEach(async () => {
  await Promise.all(openHosts.splice(0).map((host) => host.close()));
});

/** `startHost()` for one test, which closes the host at its end. */
export async function openHost(input: HostOptions): Promise<Host> {
  const host = await startHost(input);
  openHosts.push(host);
  return host;
}

/** A latch: whoever waits goes on when it is opened. */
export function latch(): { readonly opened: Promise<void>; open(): void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
