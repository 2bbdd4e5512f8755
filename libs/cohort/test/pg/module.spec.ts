import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { type DynamicModule, type INestApplicationContext, Injectable, Module, Scope, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  AuditObserver,
  CohortConfigurationError,
  CohortModule,
  type CohortOptions,
  type CohortOptionsFactory,
  type AnonymiseFactory,
  type RetentionAfterContext,
  type RetentionAuditObserver,
  type RetentionRowHandler,
  RowHandler,
  type SweepEvent,
  RetentionCategoryCapabilities,
  RetentionHolds,
  RetentionLedger,
  RetentionPreview,
  RetentionRowDispatcher,
  RetentionRule,
  RetentionRuleProvider,
  RetentionSweep,
  Strategy,
  cohortEntities,
} from 'nestjs-cohort';
import { type Host, startHost } from '../support/host.js';
import { anonymisable, model } from '../support/models.js';
import { ACME, NOW, SessionNote, notesHost } from '../support/notes.js';
import { addNotes, countRows, holdOn, until } from '../support/seed.js';
import { SCHEMA } from '../support/schema.js';

/** Stands for the host's database, whose migrations have run. */
let migrated: Host;
const apps: INestApplicationContext[] = [];
beforeAll(async () => {
  migrated = await startHost(notesHost);
});
afterEach(() => Promise.all(apps.splice(0).map((app) => app.close())));
afterAll(() => migrated.close());

@Injectable()
class Janitor {
  constructor(
    readonly preview: RetentionPreview,
    readonly sweep: RetentionSweep,
    readonly holds: RetentionHolds,
    readonly ledger: RetentionLedger,
  ) {}
}

/** A module that does not import Cohort itself. */
@Module({ providers: [Janitor], exports: [Janitor] })
class JanitorModule {}

interface Wiring {
  readonly cohort?: Partial<CohortOptions>;
  /** In the place of CohortModule.forRoot with the options above. */
  readonly modules?: readonly (DynamicModule | Type)[];
  readonly orm?: object;
  readonly entities?: readonly object[];
}

function appModule({
  cohort,
  orm,
  entities = notesHost.entities,
  modules = [CohortModule.forRoot({ ...notesHost.options, ...cohort })],
}: Wiring) {
  @Module({
    imports: [
      MikroOrmModule.forRoot({
        driver: PostgreSqlDriver,
        clientUrl: migrated.url,
        entities: [...entities, ...cohortEntities({ schema: SCHEMA })] as never,
        pool: { max: 5 },
        discovery: { inferDefaultValues: false },
        registerRequestContext: false,
        ...orm,
      }),
      ...modules,
      JanitorModule,
    ],
  })
  class AppModule {}
  return AppModule;
}

async function start(wiring: Wiring = {}): Promise<INestApplicationContext> {
  const app = await NestFactory.createApplicationContext(appModule(wiring), { logger: false, abortOnError: false });
  apps.push(app);
  return app;
}

const refusalOf = async (wiring: Wiring) => {
  const error = await start(wiring).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CohortConfigurationError);
  return (error as CohortConfigurationError).problems;
};

describe('CohortModule.forRoot', () => {
  // acceptance 91, 137, 195, 196
  test('gives every port to whoever asks for it, and they work', async () => {
    const janitor = (await start()).get(Janitor);
    const [held] = await addNotes(migrated, [{}, {}, { days: 1 }]);
    await janitor.holds.create(holdOn(SessionNote, held!));
    const notesOf = ({ counts }: { counts: readonly { entity: string }[] }) =>
      counts.find((each) => each.entity === 'SessionNote');
    expect(notesOf(await janitor.preview.preview(ACME, NOW))).toMatchObject({ affected: 1, held: 1 });
    const result = await janitor.sweep.sweep(ACME, NOW, { actor: 'janitor' });
    expect(notesOf(result)).toMatchObject({ affected: 1, held: 1 });
    expect(await countRows(migrated, 'session_notes')).toBe(2);
    expect(await janitor.ledger.run(result.sweepId)).toMatchObject({ status: 'succeeded', actor: 'janitor' });
  });

  // acceptance 135, 136, 462, 227, 238
  test('fails the start of a host with a wrong model, with every problem', async () => {
    const problems = await refusalOf({
      entities: [
        model({ properties: { createdAt: { type: 'Date', columnType: 'timestamp' } } }),
        model({ name: 'Memo', retain: { category: 'unheard-of' } }),
      ],
      cohort: { rules: { notes: { period: 'P30D', strategy: 'purge' } }, parallelism: 4 },
    });
    expect(problems).toEqual([
      expect.stringContaining("Category 'unheard-of' is used by an entity"),
      expect.stringContaining("Note: 'createdAt' is timestamp; wanted: timestamptz."),
      expect.stringContaining('The connection pool holds 5; wanted: at least 6'),
    ]);
  });

  // acceptance 140, 197, VAL-12
  test.each([
    ['without rules', { rules: undefined as never }, /^rules is undefined/],
    [
      'with options out of range',
      { sweepBatchSize: 0 },
      /^sweepBatchSize is 0; wanted: a whole number from 1 to 100000/,
    ],
  ])('fails the start of a host %s', async (_, cohort, problem) => {
    expect(await refusalOf({ cohort })).toEqual([expect.stringMatching(problem)]);
  });

  // acceptance 196, 462
  test('fails the start of a host whose migrations have not run', async () => {
    const problems = await refusalOf({
      entities: [model()],
      cohort: { rules: { notes: { period: 'P30D', strategy: 'purge' } } },
    });
    expect(problems).toEqual(['Note: table public.note does not exist; apply the pending migrations.']);
  });
});

@Injectable()
class Policies extends RetentionRuleProvider {
  asked = 0;

  override getCapabilities() {
    return new RetentionCategoryCapabilities([Strategy.Purge]);
  }

  override resolve() {
    this.asked++;
    return new RetentionRule({ period: 'P30D', strategy: Strategy.Purge });
  }
}

/** A module of the host's, with the providers given. */
function hostModule(...providers: NonNullable<DynamicModule['providers']>): Type {
  @Module({ providers, exports: providers })
  class HostModule {}
  return HostModule;
}

const purgedOf = async (app: INestApplicationContext) =>
  (await app.get(RetentionPreview).preview(ACME, NOW)).counts.map(({ entity, strategy }) => `${entity}: ${strategy}`);

describe('CohortModule.forRootAsync', () => {
  const options = { rules: { 'session-notes': { period: 'P30D', strategy: 'purge' as const } } };
  const entities = [SessionNote];
  @Injectable()
  class Settings implements CohortOptionsFactory {
    createCohortOptions = () => options;
  }
  const settings = hostModule(Settings);

  // design 3
  test.each<[string, () => DynamicModule]>([
    [
      'useFactory, which may wait and be given what it needs',
      () =>
        CohortModule.forRootAsync({
          imports: [settings],
          inject: [Settings],
          useFactory: async (given: Settings) => Promise.resolve(given.createCohortOptions()),
        }),
    ],
    ['useClass', () => CohortModule.forRootAsync({ useClass: Settings })],
    ['useExisting', () => CohortModule.forRootAsync({ imports: [settings], useExisting: Settings })],
  ])('takes its options from %s', async (_, cohort) => {
    expect(await purgedOf(await start({ entities, modules: [cohort()] }))).toEqual(['SessionNote: purge']);
  });

  test('works in the context that it names', async () => {
    const modules = [CohortModule.forRootAsync({ contextName: 'archive', useFactory: () => options })];
    const app = await start({ entities, modules, orm: { contextName: 'archive' } });
    expect(await purgedOf(app)).toEqual(['SessionNote: purge']);
  });

  test('does not ignore a context that only its factory names', async () => {
    const useFactory = () => ({ ...options, contextName: 'records' });
    expect(await refusalOf({ entities, modules: [CohortModule.forRootAsync({ useFactory })] })).toEqual([
      "contextName is 'records' in what the factory returned; name it in forRootAsync itself.",
    ]);
  });

  // acceptance 197
  test.each([
    ['nothing', undefined, /^The options of CohortModule are undefined/],
    ['null', null, /^The options of CohortModule are null/],
    ['a misspelt option', { ...options, sweepbatchSize: 5 }, /^sweepbatchSize is no option/],
  ])('fails the start where its factory returns %s', async (_, returned, problem) => {
    const modules = [CohortModule.forRootAsync({ useFactory: () => returned as never })];
    expect(await refusalOf({ entities, modules })).toContainEqual(expect.stringMatching(problem));
  });
});

describe('rules given as a class', () => {
  const rules = (...modules: Type[]) => ({
    entities: [SessionNote],
    modules: [...modules, CohortModule.forRoot({ rules: Policies })],
  });

  // VAL-12 near miss, acceptance 208
  test('are the provider that the host registered', async () => {
    const app = await start(rules(hostModule(Policies)));
    expect(await purgedOf(app)).toEqual(['SessionNote: purge']);
    expect(app.get(Policies, { strict: false }).asked).toBe(1);
  });

  // VAL-12, acceptance 462
  test.each<[string, Type[], string]>([
    ['nobody registered', [], '(seen: 0)'],
    ['two modules registered', [hostModule(Policies), hostModule(Policies)], '(seen: 2)'],
    [
      'lives for one request',
      [hostModule({ provide: Policies, useClass: Policies, scope: Scope.REQUEST })],
      '(seen: 0)',
    ],
  ])('that %s fail the start', async (_, modules, seen) => {
    expect(await refusalOf(rules(...modules))).toEqual([expect.stringMatching(/^rules is the class Policies/)]);
    expect((await refusalOf(rules(...modules)))[0]).toContain(seen);
  });

  test('that are no rules fail the start', async () => {
    class Nothing {}
    const modules = [hostModule(Nothing), CohortModule.forRoot({ rules: Nothing as never })];
    expect(await refusalOf({ entities: [SessionNote], modules })).toEqual([
      expect.stringMatching(/^rules is the class Nothing/),
    ]);
  });
});

// acceptance 144, ANON-14
describe('factories of the host', () => {
  @Injectable()
  class Pseudonyms implements AnonymiseFactory {
    create = () => 'someone';
  }
  const how = (...modules: Type[]) => ({
    entities: [contact],
    modules: [...modules, CohortModule.forRoot({ rules: { notes: { period: 'P30D', strategy: 'anonymise' } } })],
  });
  const contact = anonymisable({ name: 'Acquaintance', retain: { anonymise: { email: Pseudonyms } } });
  beforeAll(() =>
    migrated.query(
      'create table acquaintance(id uuid primary key, tenant_id text not null, created_at timestamptz not null, email text, anonymised_at timestamptz)',
    ),
  );

  // VAL-01 near miss, VAL-66 near miss
  test('are found among its providers', async () => {
    await migrated.query(
      `insert into acquaintance(id, tenant_id, created_at, email) values (gen_random_uuid(), 'acme', '2020-01-01', 'ann')`,
    );
    const app = await start(how(hostModule({ provide: 'under another token', useClass: Pseudonyms })));
    await app.get(RetentionSweep).sweep(ACME, NOW);
    expect(await migrated.query('select email from acquaintance')).toEqual([{ email: 'someone' }]);
  });

  // VAL-01, VAL-66
  test.each<[string, Type[], string]>([
    ['that nobody registered', [], 'is not registered'],
    ['that two modules registered', [hostModule(Pseudonyms), hostModule(Pseudonyms)], 'is registered 2 times'],
    [
      'that live for one request',
      [hostModule({ provide: Pseudonyms, useClass: Pseudonyms, scope: Scope.REQUEST })],
      'is not registered',
    ],
    [
      'that are made for each who injects them',
      [hostModule({ provide: Pseudonyms, useClass: Pseudonyms, scope: Scope.TRANSIENT })],
      'is not registered',
    ],
  ])('%s fail the start', async (_, modules, problem) => {
    expect(await refusalOf(how(...modules))).toEqual([expect.stringContaining(problem)]);
  });
});

describe('row handlers and observers of the host', () => {
  @Injectable()
  @RowHandler(SessionNote)
  class Blobs implements RetentionRowHandler<SessionNote> {
    readonly gone: string[] = [];
    onAfter({ recordId }: RetentionAfterContext) {
      this.gone.push(recordId);
    }
  }
  @Injectable()
  @AuditObserver()
  class Exporter implements RetentionAuditObserver {
    readonly events: string[] = [];
    onCommitted({ type }: SweepEvent) {
      this.events.push(type);
    }
  }
  const options = { ...notesHost.options, rowHandlerDispatch: { pollInterval: 20 } };
  const how = (...modules: Type[]) => ({ modules: [...modules, CohortModule.forRoot(options)] });

  // acceptance 138, 142, 409, 418, 458
  test('are found among its providers, and do their work until it stops', async () => {
    const app = await start(how(hostModule({ provide: 'under another token', useClass: Blobs }, Exporter)));
    const [id] = await addNotes(migrated, [{}]);
    await app.get(RetentionSweep).sweep(ACME, NOW);
    const { gone } = app.get<Blobs>('under another token', { strict: false });
    await until(async () => (gone.includes(id!) ? 1 : 0));
    const { events } = app.get(Exporter, { strict: false });
    expect([events[0], events.at(-1)]).toEqual(['started', 'completed']);
  });

  test.each<[string, Type[], string]>([
    ['handlers that two modules registered', [hostModule(Blobs), hostModule(Blobs)], 'Blobs is registered 2 times'],
    ['handlers of a request', [hostModule({ provide: Blobs, useClass: Blobs, scope: Scope.REQUEST })], 'Blobs lives'],
    ['transient handlers', [hostModule({ provide: Blobs, useClass: Blobs, scope: Scope.TRANSIENT })], 'Blobs lives'],
    ['observers that two modules registered', [hostModule(Exporter), hostModule(Exporter)], 'Exporter is registered 2'],
  ])('fail the start: %s', async (_, modules, problem) => {
    expect(await refusalOf(how(...modules))).toEqual([expect.stringContaining(problem)]);
  });
});

// DI-01
test('a second Cohort in one host fails the start', async () => {
  const modules = [
    CohortModule.forRoot(notesHost.options),
    CohortModule.forRoot({ ...notesHost.options, parallelism: 2 }),
  ];
  expect(await refusalOf({ modules })).toEqual(['CohortModule is imported 2 times; a host has one Cohort.']);
});

describe('contextName', () => {
  const named = { orm: { contextName: 'records' }, cohort: { contextName: 'records' } };

  // design 3
  test('chooses the MikroORM context that Cohort works in', async () => {
    const app = await start(named);
    expect(() => app.get(MikroORM)).toThrow();
    const { counts } = await app.get(RetentionPreview).preview(ACME, NOW);
    expect(counts.map((each) => each.entity)).toEqual(['CaseContact', 'SessionNote', 'Ticket']);
  });

  test('of a context that is not there fails the start', async () => {
    await expect(start({ ...named, cohort: { contextName: 'elsewhere' } })).rejects.toThrow('elsewhere_MikroORM');
  });
});

// DI: a global module needs no second import, and nothing of it but the ports is there to be injected
test('only the ports are exported', async () => {
  const app = await start();
  const exported = Reflect.getMetadata('exports', CohortModule) as { name: string }[];
  expect(exported.map((each) => each.name).sort()).toEqual([
    'RetentionDeletion',
    'RetentionErasure',
    'RetentionHealthIndicator',
    'RetentionHolds',
    'RetentionLedger',
    'RetentionPreview',
    'RetentionRowDispatcher',
    'RetentionSettings',
    'RetentionSweep',
  ]);
  for (const port of [RetentionHolds, RetentionLedger, RetentionPreview, RetentionRowDispatcher, RetentionSweep])
    expect(app.get(port)).toBeInstanceOf(port);
});
