import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type CohortOptions,
  InvalidArgumentError,
  RetentionCategoryCapabilities,
  RetentionHoldError,
  type RetentionResolutionContext,
  RetentionRule,
  RetentionRuleProvider,
  TENANTLESS,
} from 'nestjs-cohort';
import { type Host, startHost } from '../support/host.js';
import { model } from '../support/models.js';
import { ACME, CONTACT_ID, GLOBEX, NOTE_ID, NOW, SessionNote, Signal, Ticket, notesHost } from '../support/notes.js';
import { addContacts, addNotes, addTickets, countRows } from '../support/seed.js';
import { OURS, SCHEMA } from '../support/schema.js';

const HOLD_ID = '5d0c2a7e-8f0e-4f1c-9a53-0b8f5b1f6f01';
const ZERO = '00000000-0000-0000-0000-000000000000';
const INVALID = new Date(NaN);
const LONG_PAST = new Date('2020-01-01T00:00:00Z');
const FAR_AHEAD = new Date('2200-01-01T00:00:00Z');

let host: Host;
let note: string;
beforeAll(async () => {
  host = await startHost(notesHost);
  [note] = (await addNotes(host, [{}, { tenant: 'globex' }])) as [string];
  await addContacts(host, [{}]);
  await addTickets(host, [{ id: '7' }]);
  await host.query(`insert into signals(id, seen_at) values (1, '2020-01-01')`);
  await host.readiness.context();
});
afterAll(() => host.close());

const tables = ['session_notes', 'case_contacts', 'tickets', 'signals'];
const ours = () =>
  host.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = '${SCHEMA}'`,
  );

/** How many rows every table has, and how many of the retained ones are as they were. */
async function state(): Promise<unknown> {
  const names = [...tables, ...(await ours()).map(({ name }) => name).sort()];
  const counts = await Promise.all(names.map(async (name) => [name, await countRows(host, name)] as const));
  const untouched = await countRows(host, 'case_contacts', 'anonymised_at is null');
  return { ...Object.fromEntries(counts), untouched, undeleted: await countRows(host, 'tickets', 'not is_deleted') };
}

type Ports = Pick<Host, 'preview' | 'sweep' | 'holds' | 'ledger' | 'orm'>;
type Call = (ports: Ports, value: never) => Promise<unknown>;

/** The call fails as `type`, its message matches, and every table is as it was. */
async function expectRefusal(
  call: () => Promise<unknown>,
  type: typeof InvalidArgumentError | typeof RetentionHoldError,
  message: string | RegExp,
): Promise<void> {
  const before = await state();
  const error = await call().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(type);
  expect((error as Error).message).toMatch(message);
  expect(await state()).toEqual(before);
}

const all = async (results: AsyncIterable<unknown>) => {
  for await (const result of results) void result;
};
const hold = (change: object) =>
  ({ holdId: HOLD_ID, entity: SessionNote, recordId: note, tenant: ACME, reason: 'matter 7', ...change }) as never;

const NO_TENANT = [null, undefined, NaN, 7, '', 'acme', {}, { id: 'acme' }, [ACME]];
const NO_INSTANT = [
  null,
  undefined,
  NaN,
  0,
  1_800_000_000_000,
  '',
  '2026-06-30',
  '2026-06-30T12:00:00Z',
  {},
  INVALID,
  new Date(8.64e15),
  new Date(-8.64e15),
];
const NO_IDENTITY = [
  null,
  undefined,
  NaN,
  7,
  '',
  'hold-1',
  `${HOLD_ID}0`,
  HOLD_ID.replaceAll('-', ''),
  ` ${HOLD_ID}`,
  {},
  ZERO,
];
const NO_TEXT = [null, undefined, NaN, 7, '', ' ', {}];
const NO_ENTITY = [null, undefined, NaN, 7, '', 'SessionNote', 'session_notes', ZERO];

/** For every value that a parameter must not have: the call with it, and the name under which it is refused. */
const refused: {
  readonly title: string;
  readonly call: Call;
  readonly argument: string;
  readonly values: readonly unknown[];
}[] = [
  {
    title: 'preview: tenant',
    call: ({ preview }, value) => preview.preview(value, NOW),
    argument: 'tenant',
    values: NO_TENANT,
  },
  {
    title: 'preview: now',
    call: ({ preview }, value) => preview.preview(ACME, value),
    argument: 'now',
    values: NO_INSTANT,
  },
  {
    title: 'sweep: tenant',
    call: ({ sweep }, value) => sweep.sweep(value, NOW),
    argument: 'tenant',
    values: NO_TENANT,
  },
  { title: 'sweep: now', call: ({ sweep }, value) => sweep.sweep(ACME, value), argument: 'now', values: NO_INSTANT },
  {
    title: 'sweep: dryRun',
    call: ({ sweep }, dryRun) => sweep.sweep(ACME, NOW, { dryRun }),
    argument: 'options.dryRun',
    values: [null, 0, 1, '', 'false', {}],
  },
  {
    title: 'sweep: actor',
    call: ({ sweep }, actor) => sweep.sweep(ACME, NOW, { actor }),
    argument: 'options.actor',
    values: [null, NaN, 7, '', '  ', {}, 'a'.repeat(201)],
  },
  {
    title: 'sweep: signal',
    call: ({ sweep }, signal) => sweep.sweep(ACME, NOW, { signal }),
    argument: 'options.signal',
    values: [null, 7, '', {}, new AbortController()],
  },
  {
    title: 'sweepMany: one of the tenants',
    call: ({ sweep }, value) => all(sweep.sweepMany([ACME, GLOBEX, value, TENANTLESS], NOW)),
    argument: 'tenants[2]',
    values: NO_TENANT,
  },
  {
    title: 'sweepMany: now',
    call: ({ sweep }, value) => all(sweep.sweepMany([ACME, GLOBEX], value)),
    argument: 'now',
    values: NO_INSTANT,
  },
  {
    title: 'sweepMany: dryRun',
    call: ({ sweep }, dryRun) => all(sweep.sweepMany([ACME, GLOBEX], NOW, { dryRun })),
    argument: 'options.dryRun',
    values: [null, 'false'],
  },
  {
    title: 'holds.create: hold',
    call: ({ holds }, value) => holds.create(value),
    argument: 'hold',
    values: [null, undefined, NaN, 7, '', HOLD_ID],
  },
  {
    title: 'holds.create: one of a list',
    call: ({ holds }, value) => holds.create([hold({}), value]),
    argument: 'holds[1]',
    values: [null, undefined, NaN, 7, '', HOLD_ID],
  },
  // acceptance 30, 33, DOM-06
  {
    title: 'holds.create: holdId',
    call: ({ holds }, holdId) => holds.create(hold({ holdId })),
    argument: 'hold.holdId',
    values: NO_IDENTITY,
  },
  {
    title: 'holds.create: entity',
    call: ({ holds }, entity) => holds.create(hold({ entity })),
    argument: 'hold.entity',
    values: NO_ENTITY,
  },
  // acceptance 32
  {
    title: 'holds.create: recordId',
    call: ({ holds }, recordId) => holds.create(hold({ recordId })),
    argument: 'hold.recordId',
    values: NO_TEXT,
  },
  // acceptance 34
  {
    title: 'holds.create: tenant',
    call: ({ holds }, tenant) => holds.create(hold({ tenant })),
    argument: 'hold.tenant',
    values: NO_TENANT,
  },
  // acceptance 31
  {
    title: 'holds.create: reason',
    call: ({ holds }, reason) => holds.create(hold({ reason })),
    argument: 'hold.reason',
    values: NO_TEXT,
  },
  {
    title: 'holds.create: createdAt',
    call: ({ holds }, createdAt) => holds.create(hold({ createdAt })),
    argument: 'hold.createdAt',
    values: NO_INSTANT.filter((value) => value !== undefined),
  },
  {
    title: 'holds.create: expiresAt',
    call: ({ holds }, expiresAt) => holds.create(hold({ expiresAt })),
    argument: 'hold.expiresAt',
    values: NO_INSTANT.filter((value) => value !== undefined),
  },
  // acceptance 36
  {
    title: 'holds.create: expiresAt before createdAt',
    call: ({ holds }, expiresAt) => holds.create(hold({ createdAt: NOW, expiresAt })),
    argument: 'hold.expiresAt',
    values: [new Date(NOW.getTime() - 1)],
  },
  {
    title: 'holds.release: holdId',
    call: ({ holds }, value) => holds.release(value),
    argument: 'holdId',
    values: NO_IDENTITY,
  },
  {
    title: 'holds.release: at',
    call: ({ holds }, at) => holds.release(HOLD_ID, at),
    argument: 'at',
    values: NO_INSTANT.filter((value) => value !== undefined),
  },
  {
    title: 'holds.list: filter',
    call: ({ holds }, value) => holds.list(value),
    argument: 'filter',
    values: [null, undefined, NaN, 7, ''],
  },
  {
    title: 'holds.list: activeAsOf',
    call: ({ holds }, activeAsOf) => holds.list({ activeAsOf }),
    argument: 'filter.activeAsOf',
    values: NO_INSTANT,
  },
  {
    title: 'holds.list: tenant',
    call: ({ holds }, tenant) => holds.list({ activeAsOf: NOW, tenant }),
    argument: 'filter.tenant',
    values: NO_TENANT.filter((value) => value !== undefined),
  },
  {
    title: 'holds.list: entity',
    call: ({ holds }, entity) => holds.list({ activeAsOf: NOW, entity }),
    argument: 'filter.entity',
    values: NO_ENTITY.filter((value) => value !== undefined),
  },
  {
    title: 'holds.hasActive: target',
    call: ({ holds }, value) => holds.hasActive(value),
    argument: 'target',
    values: [null, undefined, NaN, 7, ''],
  },
  {
    title: 'holds.hasActive: entity',
    call: ({ holds }, entity) => holds.hasActive({ entity, recordId: note, tenant: ACME }),
    argument: 'target.entity',
    values: NO_ENTITY,
  },
  {
    title: 'holds.hasActive: recordId',
    call: ({ holds }, recordId) => holds.hasActive({ entity: SessionNote, recordId, tenant: ACME }),
    argument: 'target.recordId',
    values: NO_TEXT,
  },
  {
    title: 'holds.hasActive: tenant',
    call: ({ holds }, tenant) => holds.hasActive({ entity: SessionNote, recordId: note, tenant }),
    argument: 'target.tenant',
    values: NO_TENANT,
  },
  {
    title: 'holds.hasActive: asOf',
    call: ({ holds }, asOf) => holds.hasActive({ entity: SessionNote, recordId: note, tenant: ACME, asOf }),
    argument: 'target.asOf',
    values: NO_INSTANT.filter((value) => value !== undefined),
  },
  {
    title: 'ledger.runs: limit',
    call: ({ ledger }, limit) => ledger.runs({ limit }),
    argument: 'options.limit',
    values: [null, NaN, -1, 0, 1001, 1.5, 1e12, '', '10', {}],
  },
  {
    title: 'ledger.runs: cursor',
    call: ({ ledger }, cursor) => ledger.runs({ cursor }),
    argument: 'options.cursor',
    values: [null, NaN, 7, '', 'x', '~', `2026-06-30T12:00:00.000Z~x`, `yesterday~${HOLD_ID}`, {}],
  },
  {
    title: 'ledger.run: sweepId',
    call: ({ ledger }, value) => ledger.run(value),
    argument: 'sweepId',
    values: NO_IDENTITY.filter((value) => value !== ZERO),
  },
  {
    title: 'ledger.rowDetails: sweepId',
    call: ({ ledger }, value) => ledger.rowDetails(value),
    argument: 'sweepId',
    values: NO_IDENTITY.filter((value) => value !== ZERO),
  },
  {
    title: 'ledger.rowDetails: limit',
    call: ({ ledger }, limit) => ledger.rowDetails(HOLD_ID, { limit }),
    argument: 'options.limit',
    values: [null, NaN, -1, 0, 1001, '10'],
  },
  {
    title: 'ledger.rowDetails: cursor',
    call: ({ ledger }, cursor) => ledger.rowDetails(HOLD_ID, { cursor }),
    argument: 'options.cursor',
    values: [NaN, -1, '', 'x', '1.5', '-1', '1'.repeat(19), {}],
  },
  // Ignored, these would end in a TypeError, a database error or a sweep of real rows.
  {
    title: 'preview: options',
    call: ({ preview }, value) => preview.preview(ACME, NOW, value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'preview: signal',
    call: ({ preview }, signal) => preview.preview(ACME, NOW, { signal }),
    argument: 'options.signal',
    values: [null, 7, {}, new AbortController()],
  },
  {
    title: 'sweep: options',
    call: ({ sweep }, value) => sweep.sweep(ACME, NOW, value),
    argument: 'options',
    values: [null, 7, true, 'dryRun'],
  },
  {
    title: 'sweepMany: options',
    call: ({ sweep }, value) => all(sweep.sweepMany([ACME], NOW, value)),
    argument: 'options',
    values: [null, true],
  },
  {
    title: 'sweepMany: tenants',
    call: ({ sweep }, value) => all(sweep.sweepMany(value, NOW)),
    argument: 'tenants',
    values: [null, undefined, 7, {}, ACME],
  },
  {
    title: 'sweep: actor',
    call: ({ sweep }, actor) => sweep.sweep(ACME, NOW, { actor }),
    argument: 'options.actor',
    values: ['a\0b'],
  },
  {
    title: 'holds.create: options',
    call: ({ holds }, value) => holds.create(hold({}), value),
    argument: 'options',
    values: [null, 7],
  },
  {
    title: 'holds.create: em',
    call: ({ holds }, em) => holds.create(hold({}), { em }),
    argument: 'options.em',
    values: [null, 7, {}],
  },
  {
    title: 'holds.create: reason',
    call: ({ holds }, reason) => holds.create(hold({ reason })),
    argument: 'hold.reason',
    values: ['a\0b'],
  },
  {
    title: 'holds.release: options',
    call: ({ holds }, value) => holds.release(HOLD_ID, NOW, value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'holds.list: options',
    call: ({ holds }, value) => holds.list({ activeAsOf: NOW }, value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'holds.hasActive: options',
    call: ({ holds }, value) => holds.hasActive({ entity: SessionNote, recordId: note, tenant: ACME }, value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'ledger.runs: options',
    call: ({ ledger }, value) => ledger.runs(value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'ledger.runs: tenantId',
    call: ({ ledger }, tenantId) => ledger.runs({ tenantId }),
    argument: 'options.tenantId',
    values: [null, 7, '', {}, ACME],
  },
  {
    title: 'ledger.rowDetails: options',
    call: ({ ledger }, value) => ledger.rowDetails(HOLD_ID, value),
    argument: 'options',
    values: [null],
  },
  {
    title: 'ledger.rowDetails: cursor',
    call: ({ ledger }, cursor) => ledger.rowDetails(HOLD_ID, { cursor }),
    argument: 'options.cursor',
    values: [null, 7],
  },
];

const casesOf = (table: typeof refused) =>
  table.flatMap(({ title, call, argument, values }) => values.map((value) => ({ title, call, argument, value })));
const refusalOf = (argument: string) =>
  new RegExp(`^${argument.replaceAll(/[[\].]/g, '\\$&')} is [^;]+; wanted: .+\\.$`);

// acceptance 195, field case C21
describe('refused by its name, with what was seen and what is wanted, and nothing is written', () => {
  test.each(casesOf(refused))('$title $value', async ({ call, argument, value }) => {
    await expectRefusal(() => call(host, value as never), InvalidArgumentError, refusalOf(argument));
  });
});

// acceptance 351-353, 355, 462
describe('a hold on what cannot be held is refused, and nothing is stored', () => {
  class Stranger {}
  const missing = '9d1f6f5a-0000-4000-8000-000000000001';
  test.each([
    [
      'a class that is not an entity',
      () => hold({ entity: Stranger }),
      'hold-unknown-entity',
      /the function Stranger is not a retained entity.*SessionNote \(/,
    ],
    ['an object', () => hold({ entity: {} }), 'hold-unknown-entity', /is not a retained entity/],
    [
      'an entity of another model',
      () => hold({ entity: model({ name: 'Elsewhere' }) }),
      'hold-unknown-entity',
      /is not a retained entity/,
    ],
    [
      'an entity id that nobody has',
      () => hold({ entity: HOLD_ID }),
      'hold-unknown-entity',
      new RegExp(`'${HOLD_ID}' is not a retained entity`),
    ],
    [
      'a record id that is no UUID',
      () => hold({ recordId: 'note-1' }),
      'hold-record-id-invalid',
      /'note-1' is not an id of SessionNote, whose key is uuid/,
    ],
    [
      'a UUID cut short',
      () => hold({ recordId: NOTE_ID.slice(1) }),
      'hold-record-id-invalid',
      /is not an id of SessionNote/,
    ],
    [
      'a text in place of a number',
      () => hold({ entity: Ticket, recordId: 'seven' }),
      'hold-record-id-invalid',
      /'seven' is not an id of Ticket, whose key is int/,
    ],
    [
      'a number that no key can be',
      () => hold({ entity: Ticket, recordId: '99999999999' }),
      'hold-record-id-invalid',
      /'99999999999' is not an id of Ticket, whose key is int/,
    ],
    [
      'half a number',
      () => hold({ entity: Signal, recordId: '1.5', tenant: TENANTLESS }),
      'hold-record-id-invalid',
      /'1.5' is not an id of Signal, whose key is bigint/,
    ],
    [
      'SQL',
      () => hold({ entity: Ticket, recordId: "7'); drop table tickets; --" }),
      'hold-record-id-invalid',
      /is not an id of Ticket/,
    ],
    [
      'a row that is not there',
      () => hold({ recordId: missing }),
      'hold-record-missing',
      new RegExp(`There is no SessionNote '${missing}' to hold`),
    ],
    [
      'a row of another tenant',
      () => hold({ tenant: GLOBEX }),
      'hold-tenant-mismatch',
      /does not belong to tenant 'globex'/,
    ],
    [
      'a tenanted row without a tenant',
      () => hold({ tenant: TENANTLESS }),
      'hold-tenant-mismatch',
      /SessionNote belongs to tenants/,
    ],
    [
      'a tenantless row of a tenant',
      () => hold({ entity: Signal, recordId: '1' }),
      'hold-tenant-mismatch',
      /Signal is tenantless; pass TENANTLESS/,
    ],
  ])('%s', async (_, request, code, message) => {
    await expectRefusal(() => host.holds.create(request()), RetentionHoldError, message);
    await expect(host.holds.create(request())).rejects.toMatchObject({ code });
    // One that is right does not carry one that is wrong.
    await expectRefusal(
      () => host.holds.create([hold({}), { ...(request() as object), holdId: NOTE_ID } as never]),
      RetentionHoldError,
      message,
    );
  });

  test('a hold that is not there cannot be released', async () => {
    await expectRefusal(
      () => host.holds.release(HOLD_ID),
      RetentionHoldError,
      `There is no hold ${HOLD_ID} to release`,
    );
  });

  test.each([
    ['an entity id that nobody has', { entity: HOLD_ID }, 'hold-unknown-entity'],
    ['a class that is not an entity', { entity: Stranger }, 'hold-unknown-entity'],
    ['a record id that is no UUID', { entity: SessionNote, recordId: 'note-1' }, 'hold-record-id-invalid'],
    ['a tenanted row without a tenant', { entity: SessionNote, tenant: TENANTLESS }, 'hold-tenant-mismatch'],
  ])('nor asked for: %s', async (_, target, code) => {
    const question = { recordId: note, tenant: ACME, ...target };
    await expectRefusal(() => host.holds.hasActive(question), RetentionHoldError, /./);
    await expect(host.holds.hasActive(question)).rejects.toMatchObject({ code });
  });

  test('nor listed', async () => {
    await expect(host.holds.list({ activeAsOf: NOW, entity: HOLD_ID })).rejects.toMatchObject({
      code: 'hold-unknown-entity',
    });
    await expect(host.holds.list({ activeAsOf: NOW, entity: Stranger })).rejects.toMatchObject({
      code: 'hold-unknown-entity',
    });
  });

  // acceptance 37, 354
  test('near misses are stored: expiry at creation, an entity id and a UUID in another spelling', async () => {
    const em = host.orm.em.fork();
    await em.begin();
    try {
      await host.holds.create(
        [
          hold({ createdAt: LONG_PAST, expiresAt: LONG_PAST, entity: NOTE_ID.toUpperCase() }),
          hold({ holdId: CONTACT_ID, recordId: `{${note.toUpperCase()}}` }),
        ],
        { em },
      );
      expect(await host.holds.list({ activeAsOf: FAR_AHEAD }, { em })).toMatchObject([
        { holdId: CONTACT_ID, recordId: note, tenantId: 'acme' },
      ]);
      const [stored] = await em
        .getConnection()
        .execute(`select count(*)::int as holds from ${OURS}.retention_holds`, [], 'all', em.getTransactionContext());
      expect(stored).toEqual({ holds: 2 });
    } finally {
      await em.rollback();
    }
  });
});

// bigint holds nineteen digits, and identifiers made from a clock use them all
test('a hold on a row whose id has nineteen digits is stored', async () => {
  const recordId = '1234567890123456789';
  const em = host.orm.em.fork();
  await em.begin();
  try {
    await em.execute('insert into signals(id, seen_at) values (?, now())', [recordId]);
    await host.holds.create(hold({ entity: Signal, recordId, tenant: TENANTLESS }), { em });
    expect(await host.holds.list({ activeAsOf: FAR_AHEAD }, { em })).toMatchObject([{ recordId, tenantId: null }]);
  } finally {
    await em.rollback();
  }
});

describe('nothing is asked of', () => {
  test.each([
    ['an empty list of holds', () => host.holds.create([])],
    ['no tenants', () => all(host.sweep.sweepMany([], NOW))],
    ['a page of no runs', () => host.ledger.runs()],
    ['a run that is not there', () => host.ledger.run(HOLD_ID)],
  ])('%s, and nothing is written', async (_, call) => {
    const before = await state();
    await call();
    expect(await state()).toEqual(before);
  });
});

// field case C21
describe('a period that is not one changes no row, wherever it comes from', () => {
  const periods = [
    ['0', 0],
    ['-1', -1],
    ['null', null],
    ['NaN', NaN],
    ['undefined', undefined],
    ["'30'", '30'],
    ['1000000000000', 1e12],
    ['an empty string', ''],
  ] as const;

  /** Answers for notes as a test says, and for the rest as the static rules do. */
  class Script extends RetentionRuleProvider {
    constructor(private readonly answer: () => unknown) {
      super();
    }
    override getCapabilities(category: string) {
      return new RetentionCategoryCapabilities([rules[category as keyof typeof rules].strategy]);
    }
    override resolve({ category }: RetentionResolutionContext) {
      if (category === 'session-notes') return this.answer() as RetentionRule;
      return new RetentionRule({ period: 'P9999Y', strategy: rules[category as keyof typeof rules].strategy });
    }
  }
  const { rules } = notesHost.options;
  const withRules = async (value: CohortOptions['rules'], work: (other: Host) => Promise<void>) => {
    const other = await startHost({ ...notesHost, options: { rules: value }, url: host.url });
    await work(other).finally(() => other.close());
  };

  test.each(periods)('the table of rules: %s', async (seen, period) => {
    const before = await state();
    await withRules({ ...rules, 'session-notes': { period: period as string, strategy: 'purge' } }, async (other) => {
      for (const call of [() => other.preview.preview(ACME, NOW), () => other.sweep.sweep(ACME, NOW)])
        await expect(call()).rejects.toThrow(`rules['session-notes']: rule.period is ${seen}; wanted: `);
    });
    expect(await state()).toEqual(before);
  });

  test.each(periods)('a rule that a provider makes: %s', async (seen, period) => {
    const notes = await countRows(host, 'session_notes');
    const provider = new Script(() => new RetentionRule({ period: period as string, strategy: 'purge' }));
    await withRules(provider, async (other) => {
      await expect(other.preview.preview(ACME, NOW)).rejects.toThrow(`rule.period is ${seen}; wanted: `);
      const result = await other.sweep.sweep(ACME, NOW);
      expect(result.status).toBe('partiallyFailed');
      expect(result.entityFailures).toMatchObject([
        { entity: 'SessionNote', error: expect.stringContaining('type=InvalidArgumentError;code=invalid-argument') },
      ]);
    });
    expect(await countRows(host, 'session_notes')).toBe(notes);
  });

  test.each(periods)('an object that a provider returns in place of a rule: %s', async (_, period) => {
    const notes = await countRows(host, 'session_notes');
    await withRules(new Script(() => ({ period, strategy: 'purge' })), async (other) => {
      await expect(other.preview.preview(ACME, NOW)).rejects.toThrow('the provider returned no RetentionRule');
      expect((await other.sweep.sweep(ACME, NOW)).entityFailures).toMatchObject([
        { entity: 'SessionNote', error: expect.stringContaining('code=rule-resolution') },
      ]);
    });
    expect(await countRows(host, 'session_notes')).toBe(notes);
  });

  // DOM-15
  test('but an explicit P0D is one: it takes what is older than now, and nothing else', async () => {
    const own = await startHost({
      ...notesHost,
      options: { rules: { ...rules, 'session-notes': { period: 'P0D', strategy: 'purge' } } },
    });
    try {
      await addNotes(own, [{ days: 0 }, { days: -1 }, { days: 1 / 86_400_000 }]);
      const result = await own.sweep.sweep(ACME, NOW);
      expect(result).toMatchObject({ status: 'succeeded' });
      expect(result.counts.find((each) => each.entity === 'SessionNote')?.affected).toBe(1);
      expect(await countRows(own, 'session_notes')).toBe(2);
    } finally {
      await own.close();
    }
  });
});
