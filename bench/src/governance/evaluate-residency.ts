import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Metadata, type ServiceError, credentials } from '@grpc/grpc-js';
import { DEVELOPMENT_SECRET, startIdentityProvider } from 'local-stack';
import { findFreePort } from 'local-stack/testing';
import { migrate, openRoles } from 'retention-residency/platform/migrate';
import { retentionClient } from 'retention-residency/retention-proto';
import { Closing, type OpenedSides, type ServiceSide, timed } from './service-row.js';

const SERVER = join(import.meta.dirname, '../../dist/programs/grpc-server.js');
const AUDIENCE = 'retention-residency';
const AT_ONCE = 64;
const BATCH = 50;
const CANDIDATE = {
  tenantId: 'acme',
  kind: 'STORE_BINDING',
  storeClass: 'runs',
  engine: 'azure-sql',
  region: 'westeurope',
  candidateId: 'bench',
};
const RULE = {
  region: 'westeurope',
  allowedRegions: ['westeurope'],
  allowedEngines: { runs: ['azure-sql'] },
  justification: 'bench',
};

/** EvaluateResidency with a verified token, against a server that answers the same messages without a look at them. */
export function openEvaluateVsEcho(url: string): Promise<OpenedSides> {
  return Closing.around(async (closing) => {
    const governance = await startGovernance(url, closing);
    const echo = await startServer('echo', {}, closing);
    return {
      a: callsOf(governance.grpc, governance.token, closing),
      b: callsOf(echo.grpc, governance.token, closing),
      close: () => closing.close(),
    };
  });
}

/** As many decisions in batches of fifty, against single calls. */
export function openBatchesVsSingle(url: string): Promise<OpenedSides> {
  return Closing.around(async (closing) => {
    const { grpc, token } = await startGovernance(url, closing);
    return {
      a: batchesOf(grpc, token, closing),
      b: callsOf(grpc, token, closing),
      close: () => closing.close(),
    };
  });
}

async function startGovernance(url: string, closing: Closing) {
  await migrate(url);
  const { app, platform } = await openRoles(url);
  const identity = await startIdentityProvider({ audience: AUDIENCE });
  closing.add(() => identity.stop());
  const env = {
    DATABASE_URL: app,
    PLATFORM_DATABASE_URL: platform,
    OIDC_ISSUER: identity.issuer,
    PORT: '0',
    GRPC_PORT: String(await findFreePort()),
    GRPC_RATE_LIMIT: '10000000',
    LOG_LEVEL: 'warn',
  };
  const { rest, grpc } = await startServer('governance', env, closing);
  const put = await fetch(`${rest}/factory/data/residency`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${await tokenOf(identity.issuer, 'acme-admin')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(RULE),
  });
  if (!put.ok) throw new Error(`The residency rule was refused: ${await put.text()}`);
  return { grpc, token: await tokenOf(identity.issuer, 'StoreProfileService') };
}

async function tokenOf(issuer: string, client: string): Promise<string> {
  const form = { grant_type: 'client_credentials', client_id: client, client_secret: DEVELOPMENT_SECRET };
  const answer = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams(form) });
  return ((await answer.json()) as { access_token: string }).access_token;
}

async function startServer(kind: 'governance' | 'echo', env: NodeJS.ProcessEnv, closing: Closing) {
  const child = fork(SERVER, [kind], { env: { ...process.env, ...env }, execArgv: [] });
  closing.add(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.disconnect();
    await ended;
  });
  const said = once(child, 'message') as Promise<[{ rest: string; grpc: string }]>;
  const ended = once(child, 'exit').then(() => {
    throw new Error(`The ${kind} server ended before it listened; what it said is above.`);
  });
  ended.catch(() => undefined);
  const [places] = await Promise.race([said, ended]);
  return places;
}

type Answer = Readonly<Record<string, unknown>>;

function callerOf(address: string, token: string, closing: Closing) {
  const client = new (retentionClient())(address, credentials.createInsecure());
  closing.add(() => client.close());
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  return (method: string, request: object) =>
    new Promise<Answer>((resolve, reject) => {
      const call = client[method] as unknown as (...args: unknown[]) => void;
      call.call(client, request, metadata, (error: ServiceError | null, answer: Answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
}

function callsOf(address: string, token: string, closing: Closing): ServiceSide {
  const call = callerOf(address, token, closing);
  return timed((count) => sumOf(count, async () => Number((await call('EvaluateResidency', CANDIDATE)).allowed)));
}

function batchesOf(address: string, token: string, closing: Closing): ServiceSide {
  const call = callerOf(address, token, closing);
  const batch = async (size: number) => {
    const { results } = await call('EvaluateResidencyBatch', { candidates: Array(size).fill(CANDIDATE) });
    return (results as { allowed: boolean }[]).filter(({ allowed }) => allowed).length;
  };
  return timed((count) => sumOf(Math.ceil(count / BATCH), (index) => batch(Math.min(BATCH, count - index * BATCH))));
}

/** Does `work` so often, many at once, and adds up what it returns. */
async function sumOf(times: number, work: (index: number) => Promise<number>): Promise<number> {
  let next = 0;
  let sum = 0;
  const lane = async () => {
    while (next < times) {
      const done = await work(next++);
      sum += done;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return sum;
}
