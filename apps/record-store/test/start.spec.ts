import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type Program, environment, follow } from 'local-stack/testing';
import { programPath, runProgram, startProgram } from './support/program.js';
import { temporaryFolder } from './support/temporary-folder.js';

const RUNNING = 'The record store is running';

describe('npm run start:record-store', () => {
  const started: Program[] = [];

  afterEach(async () => {
    for (const { child, ended } of started.splice(0)) {
      child.kill('SIGTERM');
      await ended;
    }
  });

  async function start(dataDir: string): Promise<Program> {
    const program = startProgram('main', ['--customers', '20'], { DATA_DIR: dataDir });
    started.push(program);
    await program.printed(RUNNING);
    return program;
  }

  const serverRunsOn = (dataDir: string) => existsSync(join(dataDir, 'postgres/cluster/pgdata/postmaster.pid'));

  // acceptance 198
  test('migrates, loads and sweeps once, keeps the data, and stops in order', async () => {
    const dataDir = await temporaryFolder();
    const first = await start(dataDir);
    first.child.kill('SIGTERM');
    const { code, stdout, stderr } = await first.ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^Database: .*\n(Applied migration \S+\.\n)+Loaded 20 customers/);
    expect(stdout).toContain('│ Tenant │ Entity');
    expect(serverRunsOn(dataDir)).toBe(false);

    const second = await start(dataDir);
    second.child.kill('SIGINT');
    expect((await second.ended).stdout).toContain('The store has 20 customers already; nothing was loaded.');
  });

  test('refuses a folder that another one uses, in one line', async () => {
    const dataDir = await temporaryFolder();
    await start(dataDir);
    const { code, stderr } = await runProgram('main', [], { DATA_DIR: dataDir });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: Data folder .* is in use by the PostgreSQL server with pid \d+.*\n$/);
  });

  test('stops when the npm that started it has ended', async () => {
    const dataDir = await temporaryFolder();
    const shell = spawn('sh', ['-c', '"$0" "$1"; exit', process.execPath, programPath('main')], {
      env: environment({ DATA_DIR: dataDir, npm_lifecycle_event: 'start' }),
    });
    const program = follow(shell);
    await program.printed(RUNNING);
    shell.kill('SIGTERM');
    // Settles when the last process that holds the output has ended, not with the shell.
    await program.ended;
    expect(serverRunsOn(dataDir)).toBe(false);
  });

  test('embeds nothing in production', async () => {
    const { code, stdout, stderr } = await runProgram('main', [], { NODE_ENV: 'production' });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      'error: NODE_ENV is production, so nothing is embedded: set DATABASE_URL to your PostgreSQL.\n',
    );
  });
});
