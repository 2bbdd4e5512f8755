/** Tests run from source: the export condition below makes workspace packages resolve to their `src`. */
export default {
  testMatch: [
    '<rootDir>/bench/test/**/*.spec.ts',
    '<rootDir>/{libs,apps}/*/{src,test}/**/*.spec.ts',
    '<rootDir>/test/**/*.spec.ts',
  ],
  // Child processes and the set-up run from dist, which `npm test` builds first.
  globalSetup: '<rootDir>/libs/local-stack/dist/jest-global-setup.js',
  globalTeardown: '<rootDir>/libs/local-stack/dist/jest-global-teardown.js',
  testTimeout: 60_000,
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
