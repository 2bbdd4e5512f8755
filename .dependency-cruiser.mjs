/** Which file may import which, checked on the sources, types included (`npm run lint:imports`). */

const COHORT = 'libs/cohort/src/';
const PACKAGE = '((?:libs|apps)/[^/]+|migrations|bench)';
const TESTS = String.raw`/test/|\.spec\.ts$`;

const FOUNDATION = ['cohort.errors.ts', 'version.ts', 'domain/'];
const PARTS = [...FOUNDATION, 'schema/', 'registry/', 'sql/', 'engine/', 'startup/'];

const SETTINGS = ['cron-schedule.ts', 'cohort.options.ts', 'retention-settings.ts'];

/** What a part of libs/cohort/src may import besides itself. The lists admit no circle of folders: keep it so. */
const MAY_IMPORT = {
  'cohort.errors.ts': [],
  'version.ts': [],
  'domain/': ['cohort.errors.ts'],
  // Write metadata and nothing else.
  'decorators/': FOUNDATION,
  'schema/': FOUNDATION,
  'registry/': [...FOUNDATION, 'decorators/', 'schema/'],
  'sql/': [...FOUNDATION, 'schema/', 'registry/'],
  'handlers/': [...FOUNDATION, 'registry/', 'sql/'],
  'observers/': FOUNDATION,
  'engine/': [...FOUNDATION, 'schema/', 'registry/', 'sql/', 'handlers/', 'observers/'],
  'metrics/': [...FOUNDATION, 'sql/', 'engine/'],
  'cron-schedule.ts': ['cohort.errors.ts'],
  'cohort.options.ts': [...FOUNDATION, 'cron-schedule.ts', 'registry/', 'engine/', 'metrics/'],
  'retention-settings.ts': [...FOUNDATION, 'cohort.options.ts'],
  'startup/': [...FOUNDATION, ...SETTINGS, 'decorators/', 'schema/', 'registry/', 'sql/', 'engine/', 'metrics/'],
  'sweeps/': PARTS,
  'ledger/': PARTS,
  'holds/': PARTS,
  'dispatch/': [...PARTS, 'handlers/'],
  'workers/': [...PARTS, ...SETTINGS],
  'cohort.module.ts': [...PARTS, ...SETTINGS, 'decorators/', 'sweeps/', 'ledger/', 'holds/', 'dispatch/', 'workers/'],
  // The public door opens on everything.
  'index.ts': [''],
};

const oneOf = (parts) => `^${COHORT}(?:${parts.map((part) => part.replaceAll('.', String.raw`\.`)).join('|')})`;

const directions = Object.entries(MAY_IMPORT).map(([part, below]) => ({
  name: `cohort: what ${part} may import`,
  severity: 'error',
  comment: `Besides itself: ${below.join(', ') || 'nothing'}.`,
  from: { path: oneOf([part]), pathNot: TESTS },
  to: { path: `^${COHORT}`, pathNot: oneOf([part, ...below]) },
}));

export default {
  forbidden: [
    {
      name: 'no cycle',
      severity: 'error',
      comment: 'Files that import each other are one file, or a third one is missing.',
      from: {},
      to: { circular: true },
    },
    ...directions,
    {
      name: 'cohort: a part without a direction',
      severity: 'error',
      comment: 'Say in .dependency-cruiser.mjs what this new part may import.',
      from: { path: `^${COHORT}`, pathNot: [TESTS, oneOf(Object.keys(MAY_IMPORT))] },
      to: {},
    },
    {
      name: 'cohort: domain is pure',
      severity: 'error',
      comment: 'No Nest, no ORM, no Node: temporal-polyfill is the one package the domain imports.',
      from: { path: oneOf(['domain/']), pathNot: TESTS },
      to: { pathNot: [`^${COHORT}`, 'node_modules/temporal-polyfill/'] },
    },
    {
      name: 'cohort: decorators write metadata only',
      severity: 'error',
      comment: 'A decorator has no database at hand.',
      from: { path: oneOf(['decorators/']), pathNot: TESTS },
      to: { path: 'node_modules/(kysely|pg|@mikro-orm/(postgresql|sql))/' },
    },
    {
      name: 'no test in a program',
      severity: 'error',
      comment: 'Sources never import tests or what supports them.',
      from: { path: `^${PACKAGE}/src/`, pathNot: TESTS },
      to: { path: [TESTS] },
    },
    {
      name: 'no barrel inside',
      severity: 'error',
      comment: 'Inside a package import the file that holds the name; index.ts is the door for others.',
      from: { path: `^${PACKAGE}/src/` },
      to: { path: ['^$1/src/index\\.ts$', '^$1/src/.+/index\\.ts$'] },
    },
    {
      name: 'packages by their names',
      severity: 'error',
      comment: 'Another package is imported by its name, which is what its exports allow.',
      from: { path: `^${PACKAGE}/` },
      to: { path: `^${PACKAGE}/`, pathNot: '^$1/', dependencyTypes: ['local'] },
    },
    {
      name: 'libraries know no host',
      severity: 'error',
      comment: 'Libraries are built on by migrations, apps and bench, never on them.',
      from: { path: '^libs/' },
      to: { path: '^(apps|migrations|bench)/' },
    },
    {
      name: 'imports resolve',
      severity: 'error',
      comment: 'An import that resolves to nothing would escape every rule above.',
      from: { pathNot: '/programs/' },
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: `^${PACKAGE}/dist/` },
    // Type-only imports count: a direction is a direction.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.check.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      // Workspace packages from their sources, as the tests read them.
      conditionNames: ['nestjs-cohort-source', 'import', 'node', 'default', 'types'],
    },
  },
};
