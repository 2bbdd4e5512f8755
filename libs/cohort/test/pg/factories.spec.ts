import { describe, expect, test } from '@jest/globals';
import { type EntitySchema, Type } from '@mikro-orm/core';
import { type AnonymiseFactory, type AnonymiseFactoryContext, Strategy, TenantContext } from 'nestjs-cohort';
import { type HostOptions, openHost } from '../support/host.js';
import { type Model, anonymisable, dateOrNull, textOrNull } from '../support/models.js';
import { ACME, GLOBEX, NOW } from '../support/notes.js';
import { holdOn } from '../support/seed.js';

/** Remembers what it was asked. */
abstract class Recorder {
  readonly asked: AnonymiseFactoryContext[] = [];

  create(context: AnonymiseFactoryContext): unknown {
    this.asked.push(context);
    return this.value(context);
  }

  protected abstract value(context: AnonymiseFactoryContext): unknown;
}
class Constant extends Recorder implements AnonymiseFactory {
  protected value = ({ tenantId }: AnonymiseFactoryContext) => `someone of ${tenantId}`;
}
class Numbered extends Recorder implements AnonymiseFactory {
  readonly mode = 'perRow';
  protected value = () => `row ${this.asked.length}`;
}
class Initial extends Recorder implements AnonymiseFactory {
  readonly mode = 'perRowWithOriginalValue';
  protected value = ({ originalValue }: AnonymiseFactoryContext) =>
    originalValue === null ? null : (originalValue as string).slice(0, 1);
}
class YearOnly extends Recorder implements AnonymiseFactory {
  readonly mode = 'perRowWithOriginalValue';
  protected value = ({ originalValue }: AnonymiseFactoryContext) =>
    new Date(Date.UTC((originalValue as Date).getUTCFullYear(), 0, 1));
}

/** What is stored is not what the application sees. */
class Reversed extends Type<string, string> {
  override convertToDatabaseValue = (value: string) => [...value].reverse().join('');
  override convertToJSValue = (value: string) => [...value].reverse().join('');
  override getColumnType = () => 'text';
}

const RULES = { notes: { period: 'P30D', strategy: Strategy.Anonymise } };

async function open(input: Model, factories: readonly object[], more: Partial<HostOptions> = {}) {
  const note = anonymisable(input);
  const host = await openHost({ entities: [note], options: { rules: RULES }, factories, ...more });
  return { host, note };
}

async function addNotes(host: Awaited<ReturnType<typeof open>>['host'], columns: string, rows: readonly string[]) {
  await host.query(
    `insert into note(id, tenant_id, created_at, ${columns})
     select md5(ord::text)::uuid, tenant, '2020-01-01'::timestamptz + ord * interval '1 second', ${columns
       .split(', ')
       .map((column) => `r.${column}`)
       .join(', ')}
     from (values ${rows.map((row, index) => `(${index + 1}, ${row})`).join(', ')}) as r(ord, tenant, ${columns})`,
  );
}

const columnOf = async (host: Awaited<ReturnType<typeof open>>['host'], column: string) =>
  (await host.query<{ value: unknown }>(`select ${column} as value from note order by created_at`)).map(
    (row) => row.value,
  );

// acceptance 243, 147, ANON-05
test('a static factory is asked once a tenant and batch, and its value is written to every row', async () => {
  const constant = new Constant();
  const { host } = await open({ retain: { anonymise: { email: Constant } } }, [constant]);
  await addNotes(host, 'email', [`'acme', 'a'`, `'acme', 'b'`, `'globex', 'c'`, `'initech', 'd'`]);
  const results = await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX, new TenantContext('idle')], NOW));
  expect(results.map((result) => result.counts[0]?.affected)).toEqual([2, 1, 0]);
  expect(await columnOf(host, 'email')).toEqual(['someone of acme', 'someone of acme', 'someone of globex', 'd']);
  expect(constant.asked).toEqual(
    ['acme', 'globex'].map((tenantId) => ({
      entity: 'Note',
      property: 'email',
      originalValue: null,
      now: NOW,
      tenantId,
    })),
  );
});

// acceptance 244, ANON-06
describe('a factory that is asked for every row', () => {
  test('gets no original value unless it wants one, and held rows are not shown to it', async () => {
    const numbered = new Numbered();
    const { host, note } = await open({ retain: { anonymise: { email: Numbered } } }, [numbered]);
    await addNotes(host, 'email', [`'acme', 'a'`, `'acme', 'b'`, `'acme', 'c'`]);
    const [held] = await host.query<{ id: string }>(`select id from note where email = 'b'`);
    await host.holds.create(holdOn(note, held!.id));
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.counts[0]).toMatchObject({ affected: 2, held: 1 });
    expect(await columnOf(host, 'email')).toEqual(['row 1', 'b', 'row 2']);
    expect(numbered.asked.map((context) => context.originalValue)).toEqual([null, null]);
  });

  test('gets the value that it replaces, row by row, in order of the anchors', async () => {
    const initial = new Initial();
    const { host } = await open({ retain: { anonymise: { email: Initial } } }, [initial]);
    await addNotes(host, 'email', [`'acme', 'zoe'`, `'globex', 'bob'`, `'acme', null`]);
    await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW));
    expect(await columnOf(host, 'email')).toEqual(['z', 'b', null]);
    expect(new Map(initial.asked.map((each) => [each.originalValue, each.tenantId]))).toEqual(
      new Map([
        ['zoe', 'acme'],
        [null, 'acme'],
        ['bob', 'globex'],
      ]),
    );
  });

  test('keeps each value with its row over many batches', async () => {
    const { host } = await open({ retain: { anonymise: { email: Initial } } }, [new Initial()], {
      options: { rules: RULES, sweepBatchSize: 7, parallelism: 3 },
    });
    await host.query(
      `insert into note(id, tenant_id, created_at, email)
       select md5(i::text)::uuid, 'acme', '2020-01-01', chr(97 + i % 26) || i from generate_series(1, 500) as i`,
    );
    await host.query('alter table note add before text');
    await host.query('update note set before = email');
    expect((await host.sweep.sweep(ACME, NOW)).counts[0]).toMatchObject({ affected: 500 });
    expect(await host.query('select 1 from note where email is distinct from left(before, 1)')).toEqual([]);
  });
});

// acceptance 245, 246, ANON-07, ANON-08, ANON-09
describe('converters', () => {
  test('of the property show the factory what the application sees, and store what it made', async () => {
    const initial = new Initial();
    const { host } = await open(
      { properties: { email: { type: Reversed, nullable: true } }, retain: { anonymise: { email: Initial } } },
      [initial],
    );
    await addNotes(host, 'email', [`'acme', 'ecila'`, `'acme', null`]);
    await host.sweep.sweep(ACME, NOW);
    expect(initial.asked.map((context) => context.originalValue)).toEqual(['alice', null]);
    expect(await columnOf(host, 'email')).toEqual(['a', null]);
  });

  test.each([
    [
      'a date and time',
      dateOrNull,
      `'1984-05-06T07:08:09Z'::timestamptz`,
      new Date('1984-05-06T07:08:09Z'),
      '1984-01-01T00:00:00.000Z',
      YearOnly,
    ],
  ])('%s', async (_, property, stored, original, written, Factory) => {
    const factory = new Factory();
    const { host } = await open({ properties: { email: property }, retain: { anonymise: { email: Factory } } }, [
      factory,
    ]);
    await addNotes(host, 'email', [`'acme', ${stored}`]);
    await host.sweep.sweep(ACME, NOW);
    expect(factory.asked.map((context) => context.originalValue)).toEqual([original]);
    expect(new Date((await columnOf(host, 'email'))[0] as string).toISOString()).toBe(written);
  });
});

// ANON-08: every type that a column of the ORM may have takes what a factory makes of it.
test.each([
  ['bigint', { type: 'bigint' }, 12345678901234567890n % 2n ** 60n],
  ['integer', { type: 'integer' }, 42],
  ['boolean', { type: 'boolean' }, false],
  ['json', { type: 'json' }, { gone: ['a', 1, null] }],
  ['list', { type: 'string[]' }, ['a,b', '"quoted"', 'c']],
  ['bytes', { type: 'blob' }, Buffer.from([0, 1, 255])],
  ['date', { type: 'date' }, '2001-02-03'],
  ['decimal', { type: 'decimal', precision: 10, scale: 2 }, '12.34'],
  ['enumeration', { type: 'string', enum: true, items: ['a', 'gone'] }, 'gone'],
  ['uuid', { type: 'uuid' }, 'a3f467fe-c5d0-4f17-9897-83c373cc1dc8'],
])('a value for a column of type %s reads back as it was made', async (_, property, value) => {
  class Made implements AnonymiseFactory {
    readonly mode = 'perRow';
    create = () => value;
  }
  const { host, note } = await open(
    { properties: { email: { ...property, nullable: true } }, retain: { anonymise: { email: Made } } },
    [new Made()],
  );
  await addNotes(host, 'anonymised_at', [`'acme', null::timestamptz`]);
  expect(await host.sweep.sweep(ACME, NOW)).toMatchObject({ status: 'succeeded' });
  const [read] = await host.orm.em
    .fork()
    .findAll<{ email: unknown }>(note as unknown as EntitySchema<{ email: unknown }>);
  expect(read!.email).toEqual(value);
});

// acceptance 252
test('literals, static and per-row factories of one entity are written together', async () => {
  const { host } = await open(
    {
      properties: { name: textOrNull, city: textOrNull, code: textOrNull, email: textOrNull },
      retain: { anonymise: { email: 'null', name: Initial, city: Constant, code: ['fixedLiteral', 'X'] } },
    },
    [new Initial(), new Constant()],
  );
  await addNotes(host, 'email, name, city, code', [
    `'acme', 'e1', 'ann', 'c1', 'k1'`,
    `'globex', 'e2', 'ben', 'c2', 'k2'`,
  ]);
  await Array.fromAsync(host.sweep.sweepMany([ACME, GLOBEX], NOW));
  expect(await host.query('select email, name, city, code from note order by created_at')).toEqual([
    { email: null, name: 'a', city: 'someone of acme', code: 'X' },
    { email: null, name: 'b', city: 'someone of globex', code: 'X' },
  ]);
});

// ANON-11
describe('a factory that fails', () => {
  test.each<[string, () => unknown, string]>([
    [
      'throws',
      () => {
        throw new TypeError('ann@example.test');
      },
      'type=TypeError',
    ],
    ['returns nothing', () => undefined, 'type=FactoryValueError'],
    ['returns a promise', () => Promise.resolve('x'), 'type=FactoryValueError'],
    ['returns a promise that fails', () => Promise.reject(new Error('ada@mail.test')), 'type=FactoryValueError'],
    ['returns a function', () => () => 'x', 'type=FactoryValueError'],
    ['returns an invalid Date', () => new Date(NaN), 'type=FactoryValueError'],
  ])('because it %s fails its entity, and the batch is rolled back', async (_, create, envelope) => {
    class Broken implements AnonymiseFactory {
      readonly mode = 'perRow';
      create = create;
    }
    const { host } = await open({ retain: { anonymise: { email: Broken } } }, [new Broken()]);
    await addNotes(host, 'email', [`'acme', 'ann@example.test'`]);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result).toMatchObject({ status: 'partiallyFailed', counts: [] });
    expect(result.entityFailures[0]!.error).toContain(envelope);
    expect(result.entityFailures[0]!.error).not.toContain('ann');
    expect(await columnOf(host, 'email')).toEqual(['ann@example.test']);
  });

  // acceptance 251, ANON-10
  test.each([
    ['a literal', ['fixedLiteral', 'longer than five'] as const],
    ['a static factory', Constant],
    ['a factory for every row', Numbered],
  ])('by a value of %s that is too long refuses the row and cuts nothing', async (_, how) => {
    class LongNumbered extends Numbered {}
    const anonymise = { email: how === Numbered ? LongNumbered : how };
    LongNumbered.prototype.create = () => 'longer than five';
    const { host } = await open(
      { properties: { email: { ...textOrNull, columnType: 'varchar(5)' } }, retain: { anonymise } },
      [new Constant(), new LongNumbered()],
    );
    await addNotes(host, 'email', [`'acme', 'ann'`]);
    const result = await host.sweep.sweep(ACME, NOW);
    expect(result.entityFailures[0]!.error).toContain('code=sqlstate:22001');
    expect(await columnOf(host, 'email')).toEqual(['ann']);
  });
});

// acceptance 115, 116, 144
describe('start-up', () => {
  class Plain implements AnonymiseFactory {
    create = () => 'x';
  }
  class NoFactory {
    readonly make = () => 'x';
  }
  class OddMode {
    readonly mode = 'sometimes';
    create = () => 'x';
  }
  const problemsOf = async (factories: readonly object[], how: object, strategy: Strategy = Strategy.Anonymise) => {
    const { host } = await open({ retain: { anonymise: { email: how } } }, factories, {
      options: { rules: { notes: { period: 'P30D', strategy } } },
    });
    return host.readiness.context().then(
      () => [],
      (error: { problems: string[] }) => error.problems,
    );
  };

  // VAL-01, VAL-65, VAL-66, VAL-67
  test.each<[string, object, readonly object[], string]>([
    ['no factory', NoFactory, [new NoFactory()], 'has no method create'],
    ['one of an unknown mode', OddMode, [new OddMode()], "has mode 'sometimes'"],
    ['one that nobody registered', Plain, [new NoFactory()], 'is not registered'],
    ['one that is registered twice', Plain, [new Plain(), new Plain()], 'is registered 2 times'],
    ['one of which only a subclass is registered', Plain, [new (class extends Plain {})()], 'is not registered'],
  ])('refuses %s', async (_, how, factories, problem) => {
    expect(await problemsOf(factories, how)).toEqual([expect.stringContaining(problem)]);
  });

  // VAL-01 near miss, VAL-65 near miss, VAL-66 near miss
  test('takes one that is registered once, beside others', async () => {
    class Other extends Plain {}
    expect(await problemsOf([new Other(), new Plain(), new NoFactory()], Plain)).toEqual([]);
  });

  // VAL-67 near miss
  test('takes any where the category cannot anonymise, except one that is registered twice', async () => {
    expect(await problemsOf([], Plain, Strategy.Purge)).toEqual([]);
    expect(await problemsOf([new NoFactory()], NoFactory, Strategy.Purge)).toEqual([]);
    expect(await problemsOf([new Plain(), new Plain()], Plain, Strategy.Purge)).toEqual([
      expect.stringContaining('is registered 2 times'),
    ]);
  });
});
