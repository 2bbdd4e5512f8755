import { applyDecorators } from '@nestjs/common';
import { Transform, plainToInstance } from 'class-transformer';
import {
  ArrayMinSize,
  IsBoolean,
  IsIn,
  IsInt,
  IsOptional,
  IsUrl,
  Matches,
  Max,
  Min,
  ValidateBy,
  type ValidationError,
  validateSync,
} from 'class-validator';
import { AUDIT_FLOOR_DAYS, MAX_RETENTION_DAYS, MIN_RETENTION_DAYS } from './rules/retention-terms.js';
import { RULED_STORE_CLASSES, type RuledStoreClass, canonical } from './vocabulary.js';

const PREFIX = 'DATA_EVENT_RETENTION_';

/** The configuration of the service, read from the environment by `readSettings`. Each setting names its variable. */
export class Settings {
  /** NODE_ENV. With `production` nothing is embedded and no development identity is served. */
  isProduction!: boolean;

  /** HOST: the address that REST and gRPC listen on. */
  @Matches(/^[\w.:-]+$/, { message: 'is no address; wanted is one such as 127.0.0.1 or 0.0.0.0' })
  host!: string;

  /** PORT of REST; 0 is a free one. */
  @Whole(0, 65_535)
  port!: number;

  /** GRPC_PORT. */
  @Whole(1, 65_535)
  grpcPort!: number;

  /** DATABASE_URL: logs in as data_foundations_app. */
  @Postgres()
  databaseUrl!: string;

  /** PLATFORM_DATABASE_URL: the same database as data_foundations_platform. */
  @Postgres()
  platformDatabaseUrl!: string;

  /** MIGRATION_DATABASE_URL: as the owner. Where it is set, migrations run at start. */
  @IsOptional()
  @Postgres()
  migrationDatabaseUrl?: string;

  /** DATABASE_POOL: connections for requests. */
  @Whole(1, 200)
  databasePool!: number;

  /** NATS_URL. Without it events stay in this process. */
  @IsOptional()
  @Matches(/^(nats|tls|ws|wss):\/\/\S+$/, { message: 'is no URL such as nats://host:4222' })
  natsUrl?: string;

  /** NATS_REPLICAS: of the streams, 1 to 5. */
  @Whole(1, 5)
  natsReplicas!: number;

  /** OIDC_ISSUER: as tokens name it. Its keys are found by discovery. */
  @IsUrl({ require_tld: false, protocols: ['http', 'https'], require_protocol: true }, { message: 'is no URL' })
  oidcIssuer!: string;

  /** OIDC_AUDIENCE that tokens must be for. */
  @Matches(/^\S+$/, { message: 'is empty or has blanks' })
  oidcAudience!: string;

  /** Days for each store class: what platform defaults are seeded with (G37). */
  @PlatformDefaultDays()
  platformDefaults!: Record<RuledStoreClass, number>;

  /** Days before a shortening takes force. */
  @Whole(0, 365)
  graceDays!: number;

  /** Regions that are offered, in lower case. */
  @ArrayMinSize(1, { message: 'names no region' })
  @Matches(/^[a-z0-9-]+$/, { each: true, message: 'has a name that is no region; wanted is westeurope,israelcentral' })
  regions!: string[];

  /** A tenant without a residency rule is judged by the default rule instead of refused. */
  @IsBoolean({ message: 'is neither true nor false' })
  defaultResidencyApplies!: boolean;

  /** RATE_LIMIT: REST requests of a client in ten seconds. */
  @Whole(1, 1_000_000)
  rateLimit!: number;

  /** GRPC_RATE_LIMIT: gRPC calls of a client in ten seconds. */
  @Whole(1, 10_000_000)
  grpcRateLimit!: number;

  /** GRPC_TLS_CERT and GRPC_TLS_KEY: files in PEM; both or none. GRPC_TLS_CLIENT_CA: clients must bring a certificate of it. */
  grpcTlsCert?: string;
  grpcTlsKey?: string;
  grpcTlsClientCa?: string;

  /** LOG_LEVEL of pino. */
  @IsIn(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], { message: 'is no level of pino' })
  logLevel!: string;
}

const DEFAULT_DAYS = { traces: 30, runs: 365, artifacts: 365, audit: 2555, projections: 395 };

/** Each setting, its variable and its default. Undefined: it must be given, or may be left out. */
export const VARIABLES: Readonly<Record<Exclude<keyof Settings, 'isProduction'>, readonly [string, unknown?]>> = {
  host: ['HOST', '127.0.0.1'],
  port: ['PORT', 3000],
  grpcPort: ['GRPC_PORT', 50_051],
  databaseUrl: ['DATABASE_URL'],
  platformDatabaseUrl: ['PLATFORM_DATABASE_URL'],
  migrationDatabaseUrl: ['MIGRATION_DATABASE_URL'],
  databasePool: ['DATABASE_POOL', 10],
  natsUrl: ['NATS_URL'],
  natsReplicas: ['NATS_REPLICAS', 1],
  oidcIssuer: ['OIDC_ISSUER'],
  oidcAudience: ['OIDC_AUDIENCE', 'retention-residency'],
  platformDefaults: [`${PREFIX}PLATFORM_DEFAULTS`, DEFAULT_DAYS],
  graceDays: [`${PREFIX}GRACE_DAYS`, 7],
  regions: [`${PREFIX}REGIONS`, ['westeurope', 'israelcentral']],
  defaultResidencyApplies: [`${PREFIX}DEFAULT_RESIDENCY_APPLIES`, false],
  rateLimit: ['RATE_LIMIT', 1000],
  grpcRateLimit: ['GRPC_RATE_LIMIT', 200_000],
  grpcTlsCert: ['GRPC_TLS_CERT'],
  grpcTlsKey: ['GRPC_TLS_KEY'],
  grpcTlsClientCa: ['GRPC_TLS_CLIENT_CA'],
  logLevel: ['LOG_LEVEL', 'info'],
};

/** What a variable's text is turned into before it is checked. What cannot be read stays as it is, and is refused then. */
const READERS: Partial<Record<keyof Settings, (text: string) => unknown>> = {
  platformDefaults: (text) => ({ ...DEFAULT_DAYS, ...parsedObject(text) }),
  regions: (text) => text.split(',').map(canonical),
  defaultResidencyApplies: (text) => ({ true: true, false: false })[text.trim()] ?? text,
};

/** Values that may hold a password are not shown. */
const SECRET = /URL$/;

/** Reads and checks the environment. Throws SettingsError with every problem. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const given = Object.entries(VARIABLES).map(([name, [variable, fallback]]) => {
    const text = env[variable];
    if (text === undefined) return [name, fallback];
    return [name, (READERS[name as keyof Settings] ?? ((value) => value))(text)];
  });
  const settings = plainToInstance(Settings, Object.fromEntries(given) as object);
  settings.isProduction = env.NODE_ENV === 'production';
  const problems = [
    ...validateSync(settings, { forbidUnknownValues: false }).map((error) => problemOf(error, env)),
    ...tlsProblems(settings),
  ];
  if (problems.length > 0) throw new SettingsError(problems.sort());
  return settings;
}

/** The configuration cannot be used: every problem, one a line. */
export class SettingsError extends Error {
  readonly code = 'settings';

  constructor(readonly problems: readonly string[]) {
    super(`The configuration has ${problems.length} problem(s):\n${problems.map((each) => `- ${each}`).join('\n')}`);
    this.name = 'SettingsError';
  }
}

function problemOf({ property, constraints = {} }: ValidationError, env: NodeJS.ProcessEnv): string {
  const [variable] = VARIABLES[property as keyof typeof VARIABLES];
  const value = env[variable];
  const what = [...new Set(Object.values(constraints))].join(', ');
  if (value === undefined) return `${variable} is missing; it ${what}.`.replace('it is no', 'wanted is a');
  return SECRET.test(variable) ? `${variable} ${what}.` : `${variable} is ${JSON.stringify(value)}: it ${what}.`;
}

function tlsProblems({ grpcTlsCert, grpcTlsKey, grpcTlsClientCa }: Settings): string[] {
  const problems: string[] = [];
  if (Boolean(grpcTlsCert) !== Boolean(grpcTlsKey))
    problems.push('GRPC_TLS_CERT and GRPC_TLS_KEY go together: set both.');
  if (grpcTlsClientCa && !grpcTlsCert) problems.push('GRPC_TLS_CLIENT_CA needs GRPC_TLS_CERT and GRPC_TLS_KEY.');
  return problems;
}

function Whole(min: number, max: number): PropertyDecorator {
  const message = `is no whole number from ${min} to ${max}`;
  return applyDecorators(
    // An empty variable is not zero.
    Transform(({ value }: { value: unknown }) =>
      typeof value === 'string' && value.trim() !== '' ? Number(value) : value,
    ),
    IsInt({ message }),
    Min(min, { message }),
    Max(max, { message }),
  ) as PropertyDecorator;
}

function Postgres(): PropertyDecorator {
  const isPostgres = (value: unknown) => {
    const url = typeof value === 'string' ? URL.parse(value) : null;
    return url !== null && ['postgres:', 'postgresql:'].includes(url.protocol);
  };
  const message = 'is no URL such as postgres://user:password@host:5432/database';
  return ValidateBy({ name: 'postgres', validator: { validate: isPostgres, defaultMessage: () => message } });
}

function PlatformDefaultDays(): PropertyDecorator {
  const message = `is no JSON object of days from ${MIN_RETENTION_DAYS} to ${MAX_RETENTION_DAYS} for ${RULED_STORE_CLASSES.join(', ')}, audit from ${AUDIT_FLOOR_DAYS}`;
  const isDays = (value: unknown): boolean => {
    if (typeof value !== 'object' || value === null) return false;
    return Object.entries(value).every(([name, days]) => {
      const least = name === 'audit' ? AUDIT_FLOOR_DAYS : MIN_RETENTION_DAYS;
      const isClass = (RULED_STORE_CLASSES as readonly string[]).includes(name);
      return isClass && Number.isInteger(days) && days >= least && days <= MAX_RETENTION_DAYS;
    });
  };
  return ValidateBy({ name: 'days', validator: { validate: isDays, defaultMessage: () => message } });
}

/** What is no object in JSON yields a member that is no store class, and is refused for it. */
function parsedObject(text: string): object {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed;
  } catch {
    // Refused below.
  }
  return { unreadable: text };
}
