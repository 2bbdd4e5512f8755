import { readFile, writeFile } from 'node:fs/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import asyncApiSpecs from '@asyncapi/specs';
import { VARIABLES } from '../src/settings.js';
import { openApiOf } from '../src/open-api.js';
import { asyncApi } from '../src/outbox/async-api.js';
import { PROBLEMS } from '../src/platform/error-map.js';
import { type Identity, openApp, openIdentity } from './support/app.js';

const DOCS = new URL('../../../docs/', import.meta.url);

/** The committed text, which `npm run docs:update` writes anew. */
async function committed(name: string, current: unknown): Promise<unknown> {
  const file = new URL(name, DOCS);
  if (process.env.UPDATE_DOCS === '1') await writeFile(file, `${JSON.stringify(current, null, 2)}\n`);
  return JSON.parse(await readFile(file, 'utf8')) as unknown;
}

describe('the documents of the interfaces', () => {
  let identity: Identity;
  let app: Awaited<ReturnType<typeof openApp>>;
  beforeAll(async () => {
    identity = await openIdentity();
    app = await openApp(identity);
  });
  afterAll(async () => {
    await app.close();
    await identity.stop();
  });

  test('docs/openapi.json is what the service serves', async () => {
    const current = JSON.parse(JSON.stringify(openApiOf(app.app))) as unknown;
    expect(await committed('openapi.json', current)).toEqual(current);
    const served = await app.get('/docs-json');
    expect(served.body).toMatchObject({ paths: (current as { paths: object }).paths });
  });

  test('docs/asyncapi.json is what the catalog of events says, in valid AsyncAPI 3', async () => {
    const current = JSON.parse(JSON.stringify(asyncApi())) as unknown;
    expect(await committed('asyncapi.json', current)).toEqual(current);
    const ajv = new Ajv({ strict: false, meta: false, validateSchema: false });
    addFormats.default(ajv);
    const validate = ajv.compile(asyncApiSpecs.schemas['3.0.0'] as object);
    expect([validate(current), validate.errors]).toEqual([true, null]);
  });

  test('docs/errors.md has every code, with its HTTP and gRPC status', async () => {
    const text = await readFile(new URL('errors.md', DOCS), 'utf8');
    const rows = [...text.matchAll(/^\| `([a-z-]+)` \| (\d+) \| ([A-Z_]+) \|/gm)].map(([, code, http, grpc]) => [
      code,
      Number(http),
      grpc,
    ]);
    const known = Object.entries(PROBLEMS).map(([code, { http, grpc }]) => [code, http, status[grpc]]);
    expect(rows).toEqual(known);
  });

  test('docs/governance.md has every setting with its default, and every request', async () => {
    const text = await readFile(new URL('governance.md', DOCS), 'utf8');
    const rows = [...text.matchAll(/^\| `([A-Z_]+)` \| (?:`(.*?)` )?\|/gm)].map(([, variable, value]) => [
      variable,
      value,
    ]);
    const written = (value: unknown) => {
      if (value === undefined || typeof value === 'string') return value;
      return Array.isArray(value) ? value.join(',') : JSON.stringify(value);
    };
    const known = Object.values(VARIABLES).map(([variable, value]) => [variable, written(value)]);
    expect(rows.sort()).toEqual(known.sort());
    for (const path of Object.keys(openApiOf(app.app).paths)) expect(text).toContain(path);
  });
});
