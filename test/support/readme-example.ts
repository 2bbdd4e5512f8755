import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The blocks of code of one language in the README. */
export async function readmeBlocks(language: string): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  return [...readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map((match) => match[1]!);
}

/** What a host writes around the README's example to see it work. */
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

/** Writes the README's example, and a program that runs it, into a folder. */
export async function writeExample(folder: string): Promise<void> {
  const [module, usage] = await readmeBlocks('ts');
  await writeFile(join(folder, 'app.module.ts'), module!);
  await writeFile(join(folder, 'retain.ts'), usage!);
  await writeFile(join(folder, 'main.ts'), MAIN);
}

/** What that program prints. */
export const EXAMPLE_OUTPUT = ['CaseContact: 1 gone, 0 held, 0 skipped', 'SessionNote: 2 gone, 1 held, 0 skipped'];
