import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase } from 'local-stack/testing';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

let readme: string;
let packageScripts: Record<string, string>;
beforeAll(async () => {
  readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  packageScripts = (
    JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  ).scripts;
});

const blocks = (language: string) =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map((match) => match[1]!);

/** Compiles and runs what the README tells a host to write, in a folder from which the packages resolve. */
const MAIN = `
import 'reflect-metadata';
import { MikroORM } from '@mikro-orm/postgresql';
import { NestFactory } from '@nestjs/core';
import { cohortEntities } from 'nestjs-cohort';
import { AppModule, CaseContact, SessionNote } from './app.module.js';
import { retain } from './retain.js';

const orm = await MikroORM.init({ clientUrl: process.env.DATABASE_URL!, entities: [SessionNote, CaseContact, ...cohortEntities({ schema: 'retention' })] });
await orm.schema.create();
const long = new Date(Date.now() - 500 * 86_400_000);
const notes = [1, 2, 3].map((n) => '00000000-0000-4000-8000-00000000000' + n);
await orm.em.fork().insertMany(SessionNote, notes.map((id) => ({ id, tenantId: 'acme', createdAt: long, body: '' })));
await orm.em.fork().insert(CaseContact, { id: notes[0]!, tenantId: 'acme', createdAt: long, email: 'ada@mail.test', fullName: 'Ada' });
const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
console.log(await retain(app, notes[0]!));
await app.close();
await orm.close();
`;

describe('the README', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(ROOT, 'test', '.readme-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  // acceptance 89, 90
  test('has an example that compiles and does what it says', async () => {
    const [module, usage] = blocks('ts');
    await writeFile(join(folder, 'app.module.ts'), module!);
    await writeFile(join(folder, 'retain.ts'), usage!);
    await writeFile(join(folder, 'main.ts'), MAIN);
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: '../../tsconfig.base.json',
        compilerOptions: { composite: false, outDir: 'dist', rootDir: '.' },
        include: ['*.ts'],
      }),
    );
    await run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder]);
    const database = await createTestDatabase({ name: 'readme' });
    try {
      const { stdout } = await run(process.execPath, [join(folder, 'dist/main.js')], {
        env: { ...process.env, DATABASE_URL: database.url },
      });
      expect(stdout.trim().split('\n')).toEqual([
        'CaseContact: 1 gone, 0 held, 0 skipped',
        'SessionNote: 2 gone, 1 held, 0 skipped',
      ]);
    } finally {
      await database.drop();
    }
  });

  test('names commands that exist, and its tour runs', async () => {
    const commands = blocks('sh').flatMap((block) => block.trim().split('\n'));
    const scripts = commands.flatMap((command) =>
      [...command.matchAll(/npm (?:run )?(?:--silent )?(?:run )?(start|test|[a-z:]+)/g)].map((match) => match[1]!),
    );
    expect(scripts.filter((script) => script !== 'ci' && !(script in packageScripts))).toEqual([]);
    const tour = commands.filter((command) => command.includes('demo'));
    expect(tour.length).toBeGreaterThan(1);
    for (const command of tour) {
      const { stdout } = await run('bash', ['-c', command], { cwd: ROOT, env: { ...process.env, NO_COLOR: '1' } });
      if (command.includes('--json')) expect(JSON.parse(stdout)).toMatchObject({ sweep: expect.any(Array) });
      else expect(stdout).toContain('InvoiceLine');
    }
  });

  test('links to files that exist, and stays short', () => {
    const links = [...readme.matchAll(/\]\(([^)#]+)\)/g)]
      .map((match) => match[1]!)
      .filter((link) => !link.startsWith('http'));
    expect(links.filter((link) => !existsSync(join(ROOT, link)))).toEqual([]);
    expect(readme.split('\n').length).toBeLessThanOrEqual(150);
  });
});
