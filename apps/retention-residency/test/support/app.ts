import { startIdentityProvider } from 'local-stack';
import { findFreePort } from 'local-stack/testing';
import { createApp, listen } from '../../src/create-app.js';
import { Database } from '../../src/platform/database.js';
import { readSettings } from '../../src/settings.js';
import { TestTime, governanceDatabase } from './governance.js';

const AUDIENCE = 'retention-residency';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** JSON, or under `text` what is none. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface CallOptions {
  readonly client?: string;
  readonly token?: string;
  readonly tenant?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** The issuer of the development clients, and their tokens. */
export async function openIdentity() {
  const identity = await startIdentityProvider({ audience: AUDIENCE });
  const tokens = new Map<string, Promise<string>>();
  const fetchToken = async (client: string) => {
    const body = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: client,
      client_secret: 'dev-secret',
    });
    const answer = await fetch(`${identity.issuer}/token`, { method: 'POST', body });
    const { access_token: token } = (await answer.json()) as { access_token: string };
    return token;
  };
  return {
    issuer: identity.issuer,
    audience: AUDIENCE,
    token: (client: string) => {
      const known = tokens.get(client) ?? fetchToken(client);
      tokens.set(client, known);
      return known;
    },
    stop: () => identity.stop(),
  };
}

export type Identity = Awaited<ReturnType<typeof openIdentity>>;

/** The whole service on a database of its own, listening on free ports. */
export async function openApp(identity: Identity, env: NodeJS.ProcessEnv = {}) {
  const place = await governanceDatabase();
  const app = await startApp(identity, place, env);
  return {
    ...app,
    place,
    close: async () => {
      await app.close();
      await place.drop();
    },
  };
}

/** One replica of the service. */
export async function startApp(
  identity: Pick<Identity, 'issuer' | 'token'>,
  { urls }: Pick<Awaited<ReturnType<typeof governanceDatabase>>, 'urls'>,
  env: NodeJS.ProcessEnv = {},
) {
  const settings = readSettings({
    DATABASE_URL: urls.app,
    PLATFORM_DATABASE_URL: urls.platform,
    OIDC_ISSUER: identity.issuer,
    PORT: '0',
    GRPC_PORT: String(await findFreePort()),
    LOG_LEVEL: 'silent',
    ...env,
  });
  const time = new TestTime(new Date());
  const app = await createApp(settings, time);
  const url = await listen(app, settings);
  const call = async (method: string, path: string, options: CallOptions = {}): Promise<Answer> => {
    const { client, tenant, body, headers = {} } = options;
    const token = options.token ?? (client === undefined ? undefined : await identity.token(client));
    const isText = typeof body === 'string';
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(tenant !== undefined && { 'x-tenant-id': tenant }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    const isJson = /json/.test(answer.headers.get('content-type') ?? '');
    return {
      status: answer.status,
      headers: answer.headers,
      body: isJson ? (JSON.parse(text) as Record<string, unknown>) : { text },
    };
  };
  return {
    app,
    url,
    time,
    settings,
    grpcAddress: `127.0.0.1:${settings.grpcPort}`,
    database: app.get(Database),
    call,
    get: (path: string, options?: CallOptions) => call('GET', path, options),
    put: (path: string, options?: CallOptions) => call('PUT', path, options),
    post: (path: string, options?: CallOptions) => call('POST', path, options),
    close: () => app.close(),
  };
}
