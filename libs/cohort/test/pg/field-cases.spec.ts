import { describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import pg from 'pg';
import { COHORT_TABLES } from '../../src/schema/cohort-entities.js';
import { ErasureScope } from 'nestjs-cohort';
import { handlerOf } from '../support/handlers.js';
import { openHost } from '../support/host.js';
import { anonymisable, dateOrNull, model, textOrNull } from '../support/models.js';
import { ACME, NOW, SessionNote, daysBefore, notesHost } from '../support/notes.js';
import { observerOf } from '../support/observers.js';
import { OURS } from '../support/schema.js';
import { addNotes, countRows, holdOn } from '../support/seed.js';

// field case C14
test('writers that come from both sides of a foreign key never meet a deadlock of ours', async () => {
  const host = await openHost({ ...notesHost, options: { ...notesHost.options, sweepBatchSize: 50, parallelism: 2 } });
  await host.query('create table pages(id bigserial primary key, note_id uuid references session_notes)');
  await host.query('create index on pages(note_id)');
  const notes = await addNotes(
    host,
    Array.from({ length: 600 }, () => ({})),
  );

  const errors: (string | undefined)[] = [];
  const write = async (writer: number) => {
    const client = new pg.Client({ connectionString: host.url });
    await client.connect();
    try {
      for (let turn = 0; turn < 150; turn++) {
        const note = notes[(turn * 37 + writer * 71) % notes.length];
        const steps = [
          ['insert into pages(note_id) values ($1)', [note]],
          [`update session_notes set body = body || '.' where id = $1`, [note]],
        ] as const;
        await client.query('begin');
        try {
          for (const [text, values] of writer % 2 ? [...steps].reverse() : steps) await client.query(text, [...values]);
          await client.query('commit');
        } catch (error) {
          errors.push((error as { code?: string }).code);
          await client.query('rollback');
        }
      }
    } finally {
      await client.end();
    }
  };
  let isWriting = true;
  const writing = Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer))).finally(
    () => (isWriting = false),
  );
  const statuses: string[] = [];
  while (isWriting) statuses.push((await host.sweep.sweep(ACME, NOW)).status);
  await writing;
  const last = await host.sweep.sweep(ACME, NOW);
  // A page of a note that is gone is refused, and nothing else is.
  expect(errors.filter((code) => code !== '23503')).toEqual([]);
  expect([...new Set([...statuses, last.status])]).toEqual(['succeeded']);
  const withPages = await countRows(host, '(select distinct note_id from pages) as p');
  expect(await countRows(host, 'session_notes')).toBe(withPages);
  expect(last.counts.find((each) => each.entity === 'SessionNote')).toMatchObject({ affected: 0, skipped: withPages });
}, 60_000);

// field case C29
test('one request reaches a person by account and by address in any case, and nobody whose address only begins alike', async () => {
  const order = model({
    name: 'Order',
    properties: { email: textOrNull, account: textOrNull, createdAt: dateOrNull },
    retain: { erasureSubjects: { email: { kind: 'email', normalise: 'lowercase' }, account: 'account' } },
  });
  const host = await openHost({
    entities: [order],
    options: { rules: { notes: { period: 'P50Y', strategy: 'purge' } } },
  });
  const rows: [string | null, string | null][] = [
    [null, '7'],
    ['Ada.Example@Mail.test', null],
    ['ada.example@mail.test', null],
    ['ada.example+x@mail.test', null],
    ['ada.example@mail.test.example', null],
    [null, '77'],
  ];
  for (const [email, account] of rows)
    await host.query(`insert into "order"(id, tenant_id, email, account) values (gen_random_uuid(), 'acme', $1, $2)`, [
      email,
      account,
    ]);
  const scope = new ErasureScope([
    { kind: 'account', value: '7' },
    { kind: 'email', value: 'ADA.example@mail.test' },
  ]);
  expect((await host.erasure.erase(ACME, scope, NOW)).counts).toMatchObject([{ affected: 3 }]);
  expect(await countRows(host, '"order"')).toBe(3);
});

// field case C30; issue 4: personal data
describe('what is personal', () => {
  const MARK = 'zz-personal-zz';

  test('stands in no table, event, metric or line of the log but in snapshots, and there not after their last handler', async () => {
    const person = anonymisable({ retain: { anonymise: { email: 'null' }, erasureSubjects: { email: 'email' } } });
    const registry = new Registry();
    const observer = observerOf('Auditor');
    let fails = 2;
    const throwing = () => {
      if (fails-- > 0) throw Object.assign(new Error(MARK), { detail: MARK });
    };
    const host = await openHost({
      entities: [person, SessionNote],
      providers: [
        observer,
        handlerOf(person, 'People', {
          before: (row: { email: string }, { snapshot }) => void (snapshot['email'] = row.email),
          after: throwing,
        }),
        handlerOf(SessionNote, 'Notes', {
          before: () => {
            throw new Error(MARK);
          },
        }),
      ],
      options: {
        rules: {
          notes: { period: 'P30D', strategy: 'anonymise', auditRowDetail: 'perRow' },
          'session-notes': { period: 'P30D', strategy: 'purge' },
        },
        metrics: { registry },
        tenants: [ACME],
      },
    });
    const add = (days: number) =>
      host.query(`insert into note(id, tenant_id, created_at, email) values (gen_random_uuid(), 'acme', $1, $2)`, [
        daysBefore(days).toISOString(),
        MARK,
      ]);
    await add(60);
    await add(1);
    await host.query(
      `create function refuse() returns trigger language plpgsql as $$ begin raise exception '${MARK}' using detail = '${MARK}'; end $$`,
    );
    const [refused] = await addNotes(host, [{}, {}]);
    await host.query(
      `create trigger refuse before delete on session_notes for each row when (old.id = '${refused}') execute function refuse()`,
    );
    await host.sweep.sweep(ACME, NOW);
    const where = async () => {
      const found: string[] = [];
      for (const table of Object.values(COHORT_TABLES))
        if ((await countRows(host, `${OURS}.${table} as t`, 't::text like $1', [`%${MARK}%`])) > 0) found.push(table);
      return found;
    };
    expect(await where()).toEqual(['sweep_run_row_detail']);
    expect(await countRows(host, `${OURS}.sweep_run_row_detail`, 'captured_payload like $1', [`%${MARK}%`])).toBe(1);
    await host.erasure.erase(ACME, new ErasureScope(MARK, { kind: 'email' }), NOW);
    const refusedCall = host.erasure.erase(ACME, new ErasureScope(MARK, { kind: MARK }), NOW);
    await expect(refusedCall).rejects.toThrow('scope.kind');
    await host.holds.create(holdOn(SessionNote, refused!));
    expect(await host.dispatcher.flush()).toMatchObject({ settled: true });

    expect(await where()).toEqual([]);
    expect(JSON.stringify(observer.events)).not.toContain(MARK);
    expect(await registry.metrics()).not.toContain(MARK);
    // The log has the error itself, at the level of errors, under the diagnostic id that the ledger has.
    expect(host.logs.filter((line) => line.includes(MARK) && !/diagnosticId=[0-9a-f]{32}/.test(line))).toEqual([]);
  });
});
