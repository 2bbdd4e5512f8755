import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Identity, openApp, openIdentity } from './support/app.js';

const RESIDENCY = {
  region: 'westeurope',
  allowedRegions: ['westeurope'],
  allowedEngines: { runs: ['azure-sql'] },
  justification: 'the contract says so',
};

describe('REST', () => {
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

  test('answers liveness and readiness without a token', async () => {
    expect(await app.get('/health/live')).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(await app.get('/health/ready')).toMatchObject({
      status: 200,
      body: { status: 'ok', checks: { database: 'ok', migrations: 'ok', outbox: 'ok' } },
    });
  });

  test('lists the rules of a tenant', async () => {
    const { status, body } = await app.get('/factory/data/retention', { client: 'acme-admin' });
    expect(status).toBe(200);
    expect(body.tenantId).toBe('acme');
    expect(body.rules).toHaveLength(20);
  });

  test('keeps and evaluates residency', async () => {
    const put = await app.put('/factory/data/residency', { client: 'acme-admin', body: RESIDENCY });
    expect(put).toMatchObject({ status: 200, body: { region: 'westeurope', ruleVersion: 1 } });
    const candidate = { kind: 'store-binding', storeClass: 'runs', engine: 'azure-sql', region: 'westeurope' };
    const evaluated = await app.post('/factory/data/residency/evaluate', { client: 'acme-admin', body: candidate });
    expect(evaluated).toMatchObject({ status: 200, body: { allowed: true, reasons: [], ruleVersion: 1 } });
  });
});
