import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { linkedFiles } from './support/markdown-links.js';
import { ROOT } from './support/readme-example.js';

const read = (file: string) => readFile(join(ROOT, file), 'utf8');

describe('docs/api.md', () => {
  let rows: { name: string; promise: string }[];
  let exported: string[];
  beforeAll(async () => {
    const lines = (await read('docs/api.md')).split('\n').filter((line) => /^\| `/.test(line));
    rows = lines.map((line) => {
      const [, name, promise] = /^\| `(\w+)` \| (.+) \|$/.exec(line) ?? [undefined, line, ''];
      return { name, promise };
    });
    exported = (await read('libs/cohort/exports.txt'))
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[1]!);
  });

  // acceptance 89
  test('has one row for every exported name, and none for another', async () => {
    expect(rows.map(({ name }) => name).sort()).toEqual([...new Set(exported)].sort());
  });

  test('says of each what it promises, in a sentence', () => {
    expect(rows.filter(({ promise }) => !/^\S.{15,}\.$/.test(promise))).toEqual([]);
  });

  // acceptance 89
  test('is what the README leads to', async () => {
    expect(linkedFiles(await read('README.md'))).toContain('docs/api.md');
  });
});

describe('what docs/api.md and the source both say', () => {
  test('is the same of the codes of errors', async () => {
    const source = await read('libs/cohort/src/cohort.errors.ts');
    const document = await read('docs/api.md');
    const codes = [...source.matchAll(/(?:code = |^ {2}\| )'([\w-]+)'/gm)].map(([, code]) => code!);
    expect(codes.length).toBeGreaterThan(10);
    expect(codes.filter((code) => !document.includes(`\`${code}\``))).toEqual([]);
  });
});
