import { execFile } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase } from 'local-stack/testing';
import { linkedFiles } from './support/markdown-links.js';
import { whyNoRegistry } from './support/npm-registry.js';
import { EXAMPLE_OUTPUT, ROOT, writeExample } from './support/readme-example.js';

const run = promisify(execFile);
const LIBRARY = join(ROOT, 'libs/cohort');
const INSTALL_TIMEOUT_MS = 300_000;
/** What the package carries of the repository's documents. */
const DOCUMENTS = /^(README|ARCHITECTURE|CHANGELOG)\.md$|^LICENSE$|^docs\/.*\.md$/;

const noRegistry = await whyNoRegistry();
const testWithRegistry = noRegistry === undefined ? test : test.skip;

interface Manifest {
  readonly version: string;
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}
const manifestOf = async (folder: string) =>
  JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest;

let host: string;
let files: string[];
let tarball: string;
beforeAll(async () => {
  // Outside of the workspace: nothing of it may be found by accident.
  host = await mkdtemp(join(tmpdir(), 'cohort-host-'));
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', host], { cwd: LIBRARY });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [{ filename: string; files: { path: string }[] }];
  files = packed.files.map((file) => file.path);
  tarball = join(host, packed.filename);
}, INSTALL_TIMEOUT_MS);
afterAll(() => rm(host, { recursive: true, force: true }));

describe('the packed library', () => {
  // acceptance 90
  test('holds what is built, its source and its documents, and nothing else', async () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'README.md',
        'CHANGELOG.md',
        'package.json',
        'dist/index.js',
        'dist/index.d.ts',
        'src/index.ts',
      ]),
    );
    const other = files.filter((file) => !DOCUMENTS.test(file) && !/^(package\.json$|(dist|src)\/)/.test(file));
    expect(other).toEqual([]);
    expect(files.filter((file) => /\.spec\.|\.snap$|tsbuildinfo|test/.test(file.replace('/latest', '')))).toEqual([]);
    // A file in dist whose source is gone would be published for ever; remove dist and build again.
    const sources = new Set(files.filter((file) => file.startsWith('src/')).map((file) => file.slice(4, -3)));
    const built = files.filter((file) => /^dist\/.*\.js$/.test(file)).map((file) => file.slice(5, -3));
    expect(built.filter((file) => !sources.has(file))).toEqual([]);
    expect(built.length).toBe(sources.size);
  });

  describe('its documents', () => {
    const documents = () => files.filter((file) => DOCUMENTS.test(file));
    const read = (file: string) => readFile(join(host, 'package', file), 'utf8');
    beforeAll(() => run('tar', ['-xzf', tarball, '-C', host]));

    test('are those of the repository', async () => {
      for (const file of documents()) expect(await read(file)).toBe(await readFile(join(ROOT, file), 'utf8'));
    });

    test('link to what is in the package', async () => {
      const isPacked = (path: string) => files.some((file) => file === path || file.startsWith(`${path}/`));
      const links = await Promise.all(
        documents().map(async (file) => linkedFiles(await read(file)).map((link) => ({ file, link }))),
      );
      expect(links.flat()).toContainEqual({ file: 'README.md', link: 'ARCHITECTURE.md' });
      expect(links.flat().filter(({ file, link }) => !isPacked(posix.join(posix.dirname(file), link)))).toEqual([]);
    });
  });

  // acceptance 90
  testWithRegistry(
    `is installed by a host outside of the workspace, which compiles the README's example and sweeps with it${because(noRegistry)}`,
    async () => {
      const { peerDependencies, devDependencies } = await manifestOf(LIBRARY);
      const root = await manifestOf(ROOT);
      const pinned = (name: string) => `${name}@${devDependencies[name] ?? root.devDependencies[name]!}`;
      const wanted = [
        ...Object.keys(peerDependencies),
        '@mikro-orm/decorators',
        'rxjs',
        'typescript',
        '@types/node',
        '@types/pg',
      ];
      await writeFile(join(host, 'package.json'), JSON.stringify({ name: 'host', private: true, type: 'module' }));
      await run(
        'npm',
        ['install', '--save-exact', '--prefer-offline', '--no-audit', '--no-fund', tarball, ...wanted.map(pinned)],
        { cwd: host },
      );
      expect(await readdir(join(host, 'node_modules'))).toContain('nestjs-cohort');
      await writeExample(host);
      await writeFile(join(host, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER, include: ['*.ts'] }));
      const compiled = await run(process.execPath, [join(host, 'node_modules/typescript/bin/tsc'), '-p', host]).catch(
        (failure: { stdout: string }) => failure,
      );
      // What other packages get wrong in their own declarations is theirs.
      const ours = compiled.stdout.split('\n').filter((line) => !/node_modules\/(?!nestjs-cohort\/)/.test(line));
      expect(ours.join('')).toBe('');

      const database = await createTestDatabase({ name: 'packed' });
      try {
        const { stdout } = await run(process.execPath, [join(host, 'built/main.js')], {
          cwd: host,
          env: { ...process.env, DATABASE_URL: database.url },
        });
        expect(stdout.trim().split('\n')).toEqual(EXAMPLE_OUTPUT);
      } finally {
        await database.drop();
      }
    },
    INSTALL_TIMEOUT_MS,
  );
});

function because(reason: string | undefined): string {
  return reason === undefined ? '' : ` (skipped: the npm registry cannot be reached, ${reason})`;
}

/** What a strict host compiles with, declarations of its packages included (the driver of MikroORM needs those of pg). */
const COMPILER = {
  target: 'es2023',
  module: 'nodenext',
  strict: true,
  noUncheckedIndexedAccess: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  types: ['node'],
  outDir: 'built',
  rootDir: '.',
};
