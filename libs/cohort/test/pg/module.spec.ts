import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { type INestApplicationContext, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  CohortConfigurationError,
  CohortModule,
  type CohortOptions,
  RetentionHolds,
  RetentionLedger,
  RetentionPreview,
  RetentionSweep,
  cohortEntities,
} from 'nestjs-cohort';
import { type Host, startHost } from '../support/host.js';
import { model } from '../support/models.js';
import { ACME, NOW, SessionNote, notesHost } from '../support/notes.js';
import { addNotes, countRows, holdOn } from '../support/seed.js';

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
  readonly orm?: object;
  readonly entities?: readonly object[];
}

function appModule({ cohort, orm, entities = notesHost.entities }: Wiring) {
  @Module({
    imports: [
      MikroOrmModule.forRoot({
        driver: PostgreSqlDriver,
        clientUrl: migrated.url,
        entities: [...entities, ...cohortEntities({ schema: 'retention' })] as never,
        pool: { max: 5 },
        discovery: { inferDefaultValues: false },
        registerRequestContext: false,
        ...orm,
      }),
      CohortModule.forRoot({ ...notesHost.options, ...cohort }),
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
  // acceptance 91, 137, 195, 196, 198
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

  // acceptance 135, 136, 462
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
  const exported = (Reflect.get(CohortModule.forRoot(notesHost.options), 'exports') ?? []) as { name: string }[];
  expect(exported.map((each) => each.name).sort()).toEqual([
    'RetentionHolds',
    'RetentionLedger',
    'RetentionPreview',
    'RetentionSweep',
  ]);
  for (const port of [RetentionHolds, RetentionLedger, RetentionPreview, RetentionSweep])
    expect(app.get(port)).toBeInstanceOf(port);
});
