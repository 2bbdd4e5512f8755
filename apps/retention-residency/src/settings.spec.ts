import 'reflect-metadata';
import { describe, expect, test } from '@jest/globals';
import { SettingsError, readSettings } from './settings.js';

const LEAST = {
  DATABASE_URL: 'postgres://app:secret@db:5432/retention',
  PLATFORM_DATABASE_URL: 'postgresql://platform:secret@db:5432/retention',
  OIDC_ISSUER: 'http://localhost:3001',
};

function problems(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readSettings({ ...LEAST, ...env });
    return [];
  } catch (error) {
    return (error as SettingsError).problems;
  }
}

describe('the settings', () => {
  test('have defaults for all but where the data and the issuer are', () => {
    expect(readSettings(LEAST)).toMatchObject({
      isProduction: false,
      host: '127.0.0.1',
      port: 3000,
      grpcPort: 50_051,
      graceDays: 7,
      regions: ['westeurope', 'israelcentral'],
      platformDefaults: { traces: 30, runs: 365, artifacts: 365, audit: 2555, projections: 395 },
      defaultResidencyApplies: false,
    });
    expect(() => readSettings({})).toThrow(SettingsError);
    expect(problems({ DATABASE_URL: undefined, OIDC_ISSUER: undefined })).toEqual([
      expect.stringMatching(/^DATABASE_URL is missing/),
      expect.stringMatching(/^OIDC_ISSUER is missing/),
    ]);
  });

  test('are read from their variables', () => {
    const env = {
      NODE_ENV: 'production',
      PORT: '8080',
      DATA_EVENT_RETENTION_PLATFORM_DEFAULTS: '{"traces": 14, "audit": 3650}',
      DATA_EVENT_RETENTION_REGIONS: ' WestEurope, swedencentral',
      DATA_EVENT_RETENTION_DEFAULT_RESIDENCY_APPLIES: 'true',
    };
    expect(readSettings({ ...LEAST, ...env })).toMatchObject({
      isProduction: true,
      port: 8080,
      platformDefaults: { traces: 14, runs: 365, artifacts: 365, audit: 3650, projections: 395 },
      regions: ['westeurope', 'swedencentral'],
      defaultResidencyApplies: true,
    });
  });

  // field case C21
  test.each([
    ['DATA_EVENT_RETENTION_GRACE_DAYS', ['', ' ', '-1', 'seven', 'NaN', '1.5', '1e12']],
    ['PORT', ['', '65536', 'http']],
    [
      'DATA_EVENT_RETENTION_PLATFORM_DEFAULTS',
      ['', '[]', 'null', '{"runs":0}', '{"runs":"30"}', '{"runs":1e12}', '{"audit":2554}', '{"vector":3}', '{'],
    ],
    ['DATA_EVENT_RETENTION_REGIONS', ['', 'west europe', ',']],
    ['DATA_EVENT_RETENTION_DEFAULT_RESIDENCY_APPLIES', ['', 'yes', '1']],
    ['LOG_LEVEL', ['', 'loud']],
    ['NATS_URL', ['', 'http://x']],
    ['RATE_LIMIT', ['0', '']],
  ])('of %s refuse %j, and name the variable', (variable, values) => {
    for (const value of values)
      expect([value, problems({ [variable]: value })]).toEqual([value, [expect.stringContaining(variable)]]);
  });

  test('name every problem at once, and show no password', () => {
    const all = problems({
      DATABASE_URL: 'mysql://u:hunter2@x/y',
      PORT: 'x',
      GRPC_TLS_CERT: 'a.pem',
      OIDC_ISSUER: 'x',
    });
    expect(all).toHaveLength(4);
    expect(all.join()).not.toContain('hunter2');
  });
});
