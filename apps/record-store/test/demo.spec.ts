import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { MikroORM, defineConfig } from '@mikro-orm/postgresql';
import { type TestDatabase, createTestDatabase, environment, follow } from 'local-stack/testing';
import type { DemoResult } from '../src/demo/run-demo.js';
import { CHINOOK, describeWithChinook } from './support/chinook.js';
import { programPath, runProgram, startProgram } from './support/program.js';
import { temporaryFolder } from './support/temporary-folder.js';

const SMALL = ['--customers', '12', '--seed', '7', '--now', '2026-11-30T00:00:00Z'];

describe('npm run demo', () => {
  let server: TestDatabase;
  let orm: MikroORM;

  beforeAll(async () => {
    server = await createTestDatabase({ name: 'demo' });
    orm = await MikroORM.init(
      defineConfig({ clientUrl: server.url, entities: [], discovery: { warnWhenNoEntities: false } }),
    );
  });

  afterAll(async () => {
    await orm.close();
    await server.drop();
  });

  afterEach(async () => {
    const left = await orm.em
      .getConnection()
      .execute(`select datname from pg_database where datname like 'cohort_demo_%'`);
    expect(left).toEqual([]);
  });

  const demo = (args: readonly string[]) => runProgram('demo', args, { DATABASE_URL: server.url });

  test('prints one JSON object of the promised shape, and nothing else', async () => {
    const { code, stdout } = await demo([...SMALL, '--json']);
    const result = JSON.parse(stdout) as DemoResult;
    expect(code).toBe(0);
    expect(Object.keys(result)).toEqual([
      'now',
      'preview',
      'sweep',
      'remaining',
      'erasure',
      'documents',
      'events',
      'ledger',
    ]);
    expect(result.now).toBe('2026-11-30T00:00:00.000Z');
    expect(result.ledger).toEqual({ runs: 3, summaries: 9, succeeded: 3 });
    expect(Object.keys(result.remaining)).toEqual(['customers', 'invoices', 'invoiceLines', 'anonymisedCustomers']);
    expect(result.remaining.customers).toBe(12);
    // A handler removes the PDF of each invoice that went, and of no other.
    const gone = result.sweep.filter((row) => row.entity === 'Invoice').reduce((sum, row) => sum + row.affected, 0);
    expect(gone).toBeGreaterThan(0);
    expect(result.documents).toEqual({
      before: result.remaining.invoices + gone,
      after: result.remaining.invoices,
    });
    expect(result.events).toMatchObject({ started: 3, completed: 3, entitySummary: 9 });
    expect(result.preview).toHaveLength(9);
    for (const row of [...result.preview, ...result.sweep]) {
      expect(row).toEqual({
        tenant: expect.stringMatching(/^rep-[345]$/),
        entity: expect.stringMatching(/^(Customer|Invoice|InvoiceLine)$/),
        category: expect.stringMatching(/^(customers|invoices|invoice-lines)$/),
        strategy: expect.stringMatching(/^(purge|anonymise)$/),
        affected: expect.any(Number),
        held: expect.any(Number),
        skipped: expect.any(Number),
        nullAnchor: expect.any(Number),
      });
    }
  });

  test('gives the same result for the same size, seed and instant', async () => {
    const [one, other] = [await demo([...SMALL, '--json']), await demo([...SMALL, '--json'])];
    expect(one.stdout).toBe(other.stdout);
  });

  test('shows people tables without colours where nobody looks', async () => {
    const { code, stdout, stderr } = await demo([...SMALL, '--hold', 'customer:1']);
    expect([code, stderr]).toEqual([0, '']);
    for (const title of [
      'Preview: what a sweep would do',
      'Holds placed',
      'Preview with the holds',
      'Sweep',
      'Ledger',
    ]) {
      expect(stdout).toContain(`${title}\n`);
    }
    expect(stdout).toContain('│ Tenant │ Entity');
    expect(stdout).not.toContain('\u001b');
  });

  test('changes nothing in a dry run', async () => {
    const { stdout } = await demo([...SMALL, '--dry-run', '--json']);
    const { preview, sweep, remaining, ledger } = JSON.parse(stdout) as DemoResult;
    expect(sweep).toEqual(preview);
    expect(remaining.anonymisedCustomers).toBe(0);
    expect(ledger).toEqual({ runs: 3, summaries: 9, succeeded: 3 });
  });

  test('erases a person by any identifier, keeps what the law wants, and says until when', async () => {
    const by = async (...erase: string[]) =>
      JSON.parse(
        (await demo([...SMALL, ...erase.flatMap((each) => ['--erase', each]), '--json'])).stdout,
      ) as DemoResult;
    const { erasure, ledger } = await by('customer:5');
    expect(ledger).toEqual({ runs: 6, summaries: 15, succeeded: 6 });
    const rows = erasure.filter((row) => row.affected + row.legallyKept > 0);
    expect(rows.map((row) => row.entity)).toEqual(expect.arrayContaining(['Invoice']));
    for (const row of rows.filter((each) => each.entity === 'Invoice')) {
      expect(row).toMatchObject({
        affected: 0,
        legallyKept: expect.any(Number),
        until: expect.stringMatching(/^20\d\d-/),
      });
      expect(Date.parse(row.until!)).toBeGreaterThan(Date.parse('2026-11-30'));
    }
    const nobody = await by('email:nobody@nowhere.test');
    expect(nobody.erasure.map((row) => row.affected + row.legallyKept)).toEqual([0, 0, 0]);
    expect((await by('customer:5', 'email:nobody@nowhere.test')).erasure).toEqual(erasure);
  });

  test('shows an erasure and its run in the ledger', async () => {
    const { stdout } = await demo([...SMALL, '--erase', 'customer:5']);
    expect(stdout).toContain('Erasure\n');
    expect(stdout).toContain('│ erasure ');
  });

  test.each([
    ['an identifier of no kind', ['--erase', 'name:Ann'], 'customer:ID, ID a whole number, or email:ADDRESS'],
    ['an address that is none', ['--erase', 'email:ann'], 'email:ADDRESS'],
    ['a kind of hold that there is not', ['--hold', 'order:1'], 'invoice:ID, invoice-line:ID, customer:ID'],
    ['a hold without an id', ['--hold', 'invoice'], 'invoice:ID'],
    ['a row that does not exist', ['--hold', 'invoice:999999'], 'there is no invoice 999999'],
    ['a day that does not exist', ['--now', '2026-02-30T00:00:00Z'], 'ISO-8601'],
    ['an instant without its zone', ['--now', '2026-02-20T00:00:00'], 'ISO-8601'],
    ['a folder that does not exist', ['--data', 'no/such/folder'], 'no/such/folder: there is no such folder'],
    ['a size that is no number', ['--customers', 'many'], 'whole number'],
    ['an option that there is not', ['--fast'], 'unknown option'],
  ])('refuses %s in one line', async (_, args, message) => {
    const { code, stdout, stderr } = await demo([...args, '--json']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  test('refuses a DATABASE_URL that is none, without repeating it', async () => {
    const { code, stderr } = await runProgram('demo', SMALL, { DATABASE_URL: 'localhost:secret' });
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([1, 1]);
    expect(stderr).not.toContain('secret');
  });

  test('drops its database when it is interrupted', async () => {
    const program = startProgram('demo', ['--customers', '500'], { DATABASE_URL: server.url });
    await program.printed('Record shop');
    program.child.kill('SIGINT');
    const { code, stderr } = await program.ended;
    expect([code, stderr]).toEqual([1, 'error: stopped: SIGINT\n']);
  });

  test('drops its database when its reader goes away', async () => {
    const pipeline = spawn(
      'sh',
      ['-c', '"$0" "$1" --customers 500 | head -c 1', process.execPath, programPath('demo')],
      {
        env: environment({ DATABASE_URL: server.url }),
      },
    );
    const { stdout, stderr } = await follow(pipeline).ended;
    expect([stdout, stderr]).toEqual(['R', 'error: stopped: nobody reads the output any more\n']);
  });

  test('leaves no server and no folder behind where it has a server of its own, in success and in failure', async () => {
    const temporary = await temporaryFolder();
    for (const [args, code] of [
      [SMALL, 0],
      [[...SMALL, '--hold', 'customer:13'], 1],
    ] as const) {
      expect((await runProgram('demo', args, { TMPDIR: temporary })).code).toBe(code);
      expect(await readdir(temporary)).toEqual([]);
    }
  });

  describeWithChinook('on the Chinook shop', () => {
    const chinook = ['--data', CHINOOK, '--now', '2026-11-30T00:00:00Z', '--json'];
    const counts = (rows: DemoResult['sweep'], entity: string) =>
      rows.filter((row) => row.entity === entity).map(({ affected, held, skipped }) => [affected, held, skipped]);

    test('has the right values', async () => {
      const { preview, sweep, remaining, ledger } = JSON.parse((await demo(chinook)).stdout) as DemoResult;
      expect(counts(sweep, 'Invoice')).toEqual([
        [86, 0, 0],
        [82, 0, 0],
        [74, 0, 0],
      ]);
      expect(counts(sweep, 'InvoiceLine')).toEqual([
        [490, 0, 0],
        [400, 0, 0],
        [423, 0, 0],
      ]);
      expect(counts(sweep, 'Customer')).toEqual([
        [18, 0, 0],
        [18, 0, 0],
        [16, 0, 0],
      ]);
      expect(preview).toEqual(sweep);
      expect(remaining).toEqual({ customers: 59, invoices: 170, invoiceLines: 927, anonymisedCustomers: 52 });
      expect(ledger).toEqual({ runs: 3, summaries: 9, succeeded: 3 });
    });

    test('previews and sweeps with the holds placed', async () => {
      const holds = ['--hold', 'invoice:1', '--hold', 'invoice-line:3', '--hold', 'customer:2'];
      const { preview, sweep } = JSON.parse((await demo([...chinook, ...holds])).stdout) as DemoResult;
      // Invoice 2, whose line 3 is held, belongs to rep-4; only the sweep finds out that it has to stay.
      expect(counts(preview, 'Invoice')).toEqual([
        [86, 0, 0],
        [82, 0, 0],
        [73, 1, 0],
      ]);
      expect(counts(sweep, 'Invoice')).toEqual([
        [86, 0, 0],
        [81, 0, 1],
        [73, 1, 0],
      ]);
      expect(counts(sweep, 'InvoiceLine')).toEqual([
        [490, 0, 0],
        [399, 1, 0],
        [423, 0, 0],
      ]);
      expect(counts(sweep, 'Customer')).toEqual([
        [18, 0, 0],
        [18, 0, 0],
        [15, 1, 0],
      ]);
    });
  });
});
