import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase } from 'local-stack/testing';
import { linkedFiles } from './support/markdown-links.js';
import { EXAMPLE_OUTPUT, ROOT, readmeBlocks, writeExample } from './support/readme-example.js';

const run = promisify(execFile);

let readme: string;
let packageScripts: Record<string, string>;
beforeAll(async () => {
  readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  packageScripts = (
    JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  ).scripts;
});

describe('the README', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(ROOT, 'test', '.readme-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  // acceptance 19
  test('says what Cohort is for before it says how, and what it does not do', () => {
    const introduction = readme.slice(0, readme.indexOf('\n## '));
    for (const verb of ['purge', 'soft-delete', 'anonymise', 'previews, sweeps, honours legal holds'])
      expect(introduction).toContain(verb);
    const limits = /^It does not:\n\n((?:- .+\n)+)/m.exec(introduction)?.[1] ?? '';
    expect(limits.trim().split('\n').length).toBeGreaterThan(3);
  });

  // acceptance 90
  test('has an example that compiles and does what it says', async () => {
    await writeExample(folder);
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
      expect(stdout.trim().split('\n')).toEqual(EXAMPLE_OUTPUT);
    } finally {
      await database.drop();
    }
  });

  test('names commands that exist, and its tour runs', async () => {
    const commands = (await readmeBlocks('sh')).flatMap((block) => block.trim().split('\n'));
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
    expect(linkedFiles(readme).filter((link) => !existsSync(join(ROOT, link)))).toEqual([]);
    expect(readme.split('\n').length).toBeLessThanOrEqual(150);
  });
});
