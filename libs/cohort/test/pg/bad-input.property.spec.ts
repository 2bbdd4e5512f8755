import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  Anonymise,
  AnonymiseWith,
  CohortError,
  ErasureScope,
  ErasureSubject,
  ExemptFromRetention,
  InvalidArgumentError,
  Retain,
  RetentionCategoryCapabilities,
  RetentionEntityId,
  RetentionHealthIndicator,
  RetentionRecordId,
  RetentionRule,
  RowHandler,
  TENANTLESS,
  TenantContext,
  cohortEntities,
  retain,
} from 'nestjs-cohort';
import { COHORT_TABLES } from '../../src/schema/cohort-entities.js';
import { resolveOptions } from '../../src/cohort.options.js';
import { type Host, startHost } from '../support/host.js';
import { ACME, NOTE_ID, NOW, SessionNote, notesHost } from '../support/notes.js';
import { OURS } from '../support/schema.js';
import { addNotes, holdOn } from '../support/seed.js';

let host: Host;
let note: string;
const heldBy = randomUUID();
beforeAll(async () => {
  host = await startHost(notesHost);
  [note] = (await addNotes(host, [{}, {}])) as [string];
  await host.holds.create({ ...holdOn(SessionNote, note), holdId: heldBy });
});
afterAll(() => host.close());

type Accepts = (value: unknown) => boolean;
interface Slot {
  /** Where the value goes, from the list of arguments on. */
  readonly path: readonly (string | number)[];
  readonly accepts: Accepts;
}
interface Call {
  readonly name: string;
  readonly args: () => readonly unknown[];
  readonly run: (...args: never[]) => unknown;
  readonly slots: readonly Slot[];
}

const isText: Accepts = (value) =>
  typeof value === 'string' && value.trim() !== '' && !value.includes('\0') && value.isWellFormed();
const isUuid: Accepts = (value) =>
  typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value);
const isInstant: Accepts = (value) =>
  value instanceof Date && value >= new Date('0001-01-01') && value.getTime() <= 253402300799999;
const isTenant: Accepts = (value) => value instanceof TenantContext;
const isBoolean: Accepts = (value) => typeof value === 'boolean';
const isSignal: Accepts = (value) => value instanceof AbortSignal;
const oneOf =
  (...values: unknown[]): Accepts =>
  (value) =>
    values.includes(value);
const nothing: Accepts = () => false;
const optional =
  (accepts: Accepts): Accepts =>
  (value) =>
    value === undefined || accepts(value);
const isOptions: Accepts = optional(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0,
);
/** Takes one value and no other: whatever is generated in its place is wrong. */
const at = (path: Slot['path'], accepts: Accepts): Slot => ({ path, accepts });
const fields = (index: number, kinds: Readonly<Record<string, Accepts>>): Slot[] =>
  Object.entries(kinds).map(([field, accepts]) => at([index, field], accepts));

const RULE = { period: 'P30D', strategy: 'purge' };
const isPeriod: Accepts = (value) => typeof value === 'string' && /^P/.test(value);
const ruleFields = {
  period: isPeriod,
  strategy: oneOf('purge', 'softDelete', 'anonymise', 'exempt'),
  legalMin: optional(isPeriod),
  auditRowDetail: (value: unknown) => value == null || oneOf('summaryOnly', 'perRow')(value),
  provenance: optional((value) => typeof value === 'object' && value !== null && !Array.isArray(value)),
};
const holdFields = {
  holdId: isUuid,
  entity: oneOf(SessionNote, NOTE_ID),
  recordId: isUuid,
  tenant: oneOf(ACME),
  reason: isText,
  createdAt: optional(isInstant),
  expiresAt: optional(isInstant),
};
const isNumeral: Accepts = (value) => typeof value === 'string' && /^\d{1,18}$/.test(value);
const isIterable: Accepts = (value) =>
  typeof (value as { [Symbol.iterator]?: unknown } | null | undefined)?.[Symbol.iterator] === 'function';

const CALLS: readonly Call[] = [
  {
    name: 'preview',
    args: () => [ACME, NOW, {}],
    run: (...args: [never, never, never]) => host.preview.preview(...args),
    slots: [
      at([0], isTenant),
      at([1], isInstant),
      at([2], isOptions),
      at([2, 'signal'], optional(isSignal)),
      at([2, 'sginal'], nothing),
    ],
  },
  {
    name: 'sweep',
    args: () => [ACME, NOW, { dryRun: true }],
    run: (...args: [never, never, never]) => host.sweep.sweep(...args),
    slots: [
      at([0], isTenant),
      at([1], isInstant),
      ...fields(2, {
        dryRun: optional(isBoolean),
        actor: optional((value) => isText(value) && (value as string).length <= 200),
        signal: optional(isSignal),
        dryrun: nothing,
      }),
    ],
  },
  {
    name: 'sweepMany',
    args: () => [[ACME], NOW, { dryRun: true }],
    run: (...args: [never, never, never]) => Array.fromAsync(host.sweep.sweepMany(...args)),
    slots: [at([0], isIterable), at([0, 0], isTenant), at([1], isInstant), at([2, 'dryRun'], optional(isBoolean))],
  },
  {
    name: 'erasure.erase',
    args: () => [ACME, ErasureScope.tenant({ dryRun: true }), NOW, {}],
    run: (...args: [never, never, never, never]) => host.erasure.erase(...args),
    slots: [
      at([0], (value) => isTenant(value) && value !== TENANTLESS),
      at([1], (value) => value instanceof ErasureScope),
      at([2], isInstant),
      at([3], isOptions),
      ...fields(3, { actor: optional(isText), signal: optional(isSignal), dryRun: nothing }),
    ],
  },
  {
    name: 'new ErasureScope',
    args: () => ['ann', {}],
    run: (...args: [never, never]) => new ErasureScope(...args),
    slots: [
      at([1], isOptions),
      ...fields(1, {
        kind: optional(isText),
        allowSoftDeleteAsErasure: optional(isBoolean),
        dryRun: optional(isBoolean),
        kinds: nothing,
      }),
    ],
  },
  {
    name: 'deletion.execute',
    args: () => [[{ entity: SessionNote, recordId: note, tenant: ACME }], async () => undefined, {}],
    run: (...args: [never, never, never]) => host.deletion.execute(...args),
    slots: [
      at([0], nothing),
      at([0, 0], nothing),
      at([0, 0, 'entity'], oneOf(SessionNote, NOTE_ID)),
      at([0, 0, 'recordId'], isUuid),
      at([0, 0, 'tenant'], oneOf(ACME)),
      at([0, 0, 'reason'], nothing),
      at([1], (value) => typeof value === 'function'),
      at([2], isOptions),
      ...fields(2, { actor: optional(isText), signal: nothing }),
    ],
  },
  {
    name: 'holds.create',
    args: () => [holdOn(SessionNote, note), {}],
    run: (...args: [never, never]) => host.holds.create(...args),
    slots: [
      at([0], (value) => Array.isArray(value) && value.length === 0),
      ...fields(0, holdFields),
      at([1], isOptions),
      at([1, 'em'], optional(nothing)),
    ],
  },
  {
    name: 'holds.create of a list',
    args: () => [[holdOn(SessionNote, note), holdOn(SessionNote, note)]],
    run: (...args: [never]) => host.holds.create(...args),
    slots: [at([0, 1], nothing), ...Object.entries(holdFields).map(([field, accepts]) => at([0, 1, field], accepts))],
  },
  {
    name: 'holds.release',
    // A hold in force: it would be released if one wrong value were taken.
    args: () => [heldBy, NOW, {}],
    run: (...args: [never, never, never]) => host.holds.release(...args),
    slots: [at([0], nothing), at([1], optional(isInstant)), at([2], isOptions), at([2, 'em'], optional(nothing))],
  },
  {
    name: 'holds.list',
    args: () => [{ activeAsOf: NOW }, {}],
    run: (...args: [never, never]) => host.holds.list(...args),
    slots: [
      at([0], nothing),
      ...fields(0, {
        activeAsOf: isInstant,
        tenant: optional(isTenant),
        entity: optional(oneOf(SessionNote, NOTE_ID)),
      }),
      at([1], isOptions),
    ],
  },
  {
    name: 'holds.hasActive',
    args: () => [{ entity: SessionNote, recordId: note, tenant: ACME }],
    run: (...args: [never]) => host.holds.hasActive(...args),
    slots: [
      at([0], nothing),
      ...fields(0, {
        entity: oneOf(SessionNote, NOTE_ID),
        recordId: isUuid,
        tenant: isTenant,
        asOf: optional(isInstant),
      }),
    ],
  },
  {
    name: 'ledger.runs',
    args: () => [{}],
    run: (...args: [never]) => host.ledger.runs(...args),
    slots: [
      at([0], isOptions),
      ...fields(0, {
        cursor: optional(nothing),
        limit: optional((value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 1000),
        tenantId: optional(isText),
      }),
    ],
  },
  {
    name: 'ledger.run',
    args: () => [randomUUID()],
    run: (...args: [never]) => host.ledger.run(...args),
    slots: [at([0], isUuid)],
  },
  {
    name: 'ledger.rowDetails',
    args: () => [randomUUID(), {}],
    run: (...args: [never, never]) => host.ledger.rowDetails(...args),
    slots: [
      at([0], isUuid),
      at([1], isOptions),
      at(
        [1, 'cursor'],
        optional((value) => typeof value === 'string' && /^\d{1,18}$/.test(value)),
      ),
    ],
  },
  {
    name: 'dispatcher.flush',
    args: () => [{}],
    run: (options: never) => host.dispatcher.flush(options),
    slots: [at([0], isOptions), ...fields(0, { signal: optional(isSignal), dryRun: nothing })],
  },
  {
    name: 'dispatcher.deadLetters',
    args: () => [{}],
    run: (options: never) => host.dispatcher.deadLetters(options),
    slots: [
      at([0], isOptions),
      ...fields(0, {
        cursor: optional(isNumeral),
        limit: optional((value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 1000),
      }),
    ],
  },
  {
    name: 'dispatcher.requeue',
    args: () => [['1']],
    run: (ids: never) => host.dispatcher.requeue(ids),
    slots: [at([0], (value) => Array.isArray(value) && value.length === 0), at([0, 0], isNumeral)],
  },
  {
    name: 'dispatcher.discard',
    args: () => [['1'], 'seen'],
    run: (ids: never, reason: never) => host.dispatcher.discard(ids, reason),
    slots: [
      at([0], (value) => Array.isArray(value) && value.length === 0),
      at([0, 0], isNumeral),
      at([1], (value) => isText(value) && (value as string).length <= 500),
    ],
  },
  {
    name: 'settings.update',
    args: () => [{ rowHandlerDispatch: {} }],
    run: (change: never) => host.readiness.settings.update(change),
    slots: [
      at([0], (value) => isOptions(value) && value !== undefined),
      ...fields(0, {
        schedule: (value) => value == null || (typeof value === 'string' && value.trim() === ''),
        killSwitch: optional(isBoolean),
        dryRun: optional(isBoolean),
        sweepBatchSize: optional(
          (value) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= 1e5,
        ),
        rules: optional(nothing),
        parallelism: optional(nothing),
        rowHandlerDispatch: isOptions,
      }),
      at([0, 'rowHandlerDispatch', 'maxAttempts'], optional(nothing)),
    ],
  },
  {
    name: 'health.check',
    args: () => ['retention'],
    run: (key: never) => new RetentionHealthIndicator(host.readiness).check(key),
    slots: [at([0], isText)],
  },
  {
    name: 'RowHandler',
    args: () => [SessionNote, {}],
    run: (entity: never, options: never) => RowHandler(entity, options),
    slots: [
      at([1], isOptions),
      ...fields(1, {
        identity: optional(isUuid),
        phase: optional(oneOf('immediate', 'afterSweepSettled')),
        priority: optional((value) => Number.isSafeInteger(value)),
        prio: nothing,
      }),
    ],
  },
  {
    name: 'new TenantContext',
    args: () => ['acme', {}],
    run: (id: never, options: never) => new TenantContext(id, options),
    slots: [
      at([0], isText),
      at([1], isOptions),
      at([1, 'jurisdiction'], optional(isText)),
      at(
        [1, 'tags'],
        optional(
          (value) =>
            typeof value === 'object' &&
            value !== null &&
            !Array.isArray(value) &&
            Object.values(value).every((tag) => typeof tag === 'string'),
        ),
      ),
    ],
  },
  {
    name: 'new RetentionRule',
    args: () => [RULE],
    run: (init: never) => new RetentionRule(init),
    slots: [at([0], nothing), ...fields(0, ruleFields)],
  },
  {
    name: 'new RetentionCategoryCapabilities',
    args: () => [['purge']],
    run: (strategies: never) => new RetentionCategoryCapabilities(strategies),
    slots: [at([0], nothing), at([0, 0], ruleFields.strategy)],
  },
  {
    name: 'decorators',
    args: () => ['category', 'anchor', {}],
    run: (category: never, anchor: never, options: never) => Retain(category, anchor, options),
    slots: [
      at([0], isText),
      at([1], isText),
      at([2, 'auditRowDetail'], (value) => value == null || oneOf('summaryOnly', 'perRow', 'inherit')(value)),
    ],
  },
  {
    name: 'RetentionEntityId',
    args: () => [NOTE_ID],
    run: (id: never) => RetentionEntityId(id),
    slots: [at([0], isUuid)],
  },
  {
    name: 'ExemptFromRetention',
    args: () => ['x'],
    run: (reason: never) => ExemptFromRetention(reason),
    slots: [at([0], isText)],
  },
  {
    name: 'ErasureSubject',
    args: () => ['x'],
    run: (kind: never) => ErasureSubject(kind),
    slots: [at([0], optional(isText))],
  },
  {
    name: 'Anonymise',
    args: () => ['fixedLiteral', 'x'],
    run: (method: never, literal: never) => Anonymise(method, literal),
    slots: [at([0], nothing), at([1], isText)],
  },
  {
    name: 'AnonymiseWith',
    args: () => [class {}],
    run: (factory: never) => AnonymiseWith(factory),
    slots: [at([0], (value) => typeof value === 'function')],
  },
  {
    name: 'RetentionRecordId',
    args: () => [{}],
    run: (options: never) => RetentionRecordId(options),
    slots: [at([0], isOptions), at([0, 'uniqueAcrossPartitions'], optional(isBoolean)), at([0, 'unique'], nothing)],
  },
  {
    name: 'retain',
    args: () => [class {}, { category: 'x', anchor: 'createdAt', entityId: NOTE_ID }],
    run: (entity: never, options: never) => retain(entity, options),
    slots: [
      at([0], (value) => typeof value === 'function' || (typeof value === 'object' && value !== null)),
      at([1], nothing),
      ...fields(1, {
        category: isText,
        anchor: isText,
        entityId: isUuid,
        tenant: optional(isText),
        deletedAt: optional(isText),
      }),
    ],
  },
  {
    name: 'cohortEntities',
    args: () => [{}],
    run: (options: never) => cohortEntities(options),
    slots: [at([0], isOptions), at([0, 'schema'], optional(isText))],
  },
];

const WRONG = fc.oneof(
  fc.constantFrom<unknown>(
    ...[null, undefined, NaN, Infinity, -Infinity, -1, 0, 1.5, 2 ** 53, 1e300, '', '   ', '30', '0', 'P-1D', 'nobody'],
    ...[[], {}, () => 1, class {}, Symbol('x'), true, 12n, new Date(NaN), new Date(8.64e15), new Date('-000001-01-01')],
    ...['a\0b', '\ud800', '00000000-0000-0000-0000-000000000000', `${NOTE_ID}0`, NOTE_ID.slice(1), TENANTLESS],
    ...[new Map(), new Proxy({}, {}), Object.create(null), { [Symbol.iterator]: 1 }, { toString: 7 }],
  ),
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withTypedArray: true }),
);

/** The arguments with one of them, or a field of one, replaced. */
function replaced(args: readonly unknown[], [key, ...rest]: Slot['path'], value: unknown): unknown[] {
  const put = (into: unknown, [first, ...others]: Slot['path']): unknown => {
    if (first === undefined) return value;
    const copy = (Array.isArray(into) ? [...into] : { ...(into as object) }) as Record<string | number, unknown>;
    copy[first] = put(copy[first], others);
    return copy;
  };
  const copy = [...args];
  copy[key as number] = put(copy[key as number], rest);
  return copy;
}

const everything = async () => {
  const own = Object.values(COHORT_TABLES).map((name) => `${OURS}.${name}`);
  const retained = ['session_notes', 'case_contacts', 'tickets', 'signals'];
  return Promise.all(
    [...own, ...retained].map((table) => host.query(`select t::text as row from ${table} as t order by 1`)),
  );
};

const CASES = CALLS.flatMap((call) =>
  call.slots.map((slot) => ({ call, slot, toString: () => `${call.name} ${slot.path.join('.')}` })),
);

// field case C21: each is refused with the argument named, none changes data
test('any wrong value in any place of any call is refused by an error of ours, and changes nothing', async () => {
  await host.readiness.context();
  const before = await everything();
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...CASES), WRONG, async ({ call, slot }, value) => {
      fc.pre(!slot.accepts(value) && !isSignal(value));
      const args = replaced(call.args(), slot.path, value);
      const error: unknown = await (async () => call.run(...(args as never[])))().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(CohortError);
      expect((error as CohortError).message).toMatch(
        /; wanted: |is not|no retained|There is no|does not|belongs|tenantless|is fixed at start/,
      );
      const field = slot.path.at(-1);
      // What the database would refuse is told by the value, which is an id, or of a tenant.
      if (error instanceof InvalidArgumentError && typeof field === 'string')
        expect(error.message.toLowerCase()).toContain(field.toLowerCase());
    }),
    { numRuns: 5000 },
  );
  expect(await everything()).toEqual(before);
});

test('any wrong value of any option is a problem that names the option', () => {
  const names = [
    'sweepBatchSize',
    'parallelism',
    'batchTimeout',
    'lockTimeout',
    'idleInTransactionTimeout',
    'dryRun',
    'contextName',
    'conventions',
    'rowHandlerDispatch',
  ];
  const right: Readonly<Record<string, Accepts>> = {
    dryRun: isBoolean,
    contextName: (value) => typeof value === 'string' && value !== '',
    conventions: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    rowHandlerDispatch: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  };
  fc.assert(
    fc.property(fc.constantFrom(...names), WRONG, (name, value) => {
      fc.pre(value !== undefined && !right[name]?.(value));
      fc.pre(
        !(typeof value === 'number' && value >= 1 && value <= 3_600_000) &&
          !/^P/.test(typeof value === 'string' ? value : ''),
      );
      const problems: string[] = [];
      const { settings } = resolveOptions({ rules: {}, [name]: value }, problems);
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(new RegExp(`^${name} is .+; wanted: `));
      expect(settings.sweepBatchSize).toBe(5000);
    }),
    { numRuns: 3000 },
  );
});
