import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const SQL_BELONGS = 'SQL lives in libs/cohort/src/sql, one exported function a statement; call one from there.';
const TIME_COMES_IN = 'Time comes in as an argument here, so that a run can be repeated and explained.';
const IDS_COME_IN = 'Ids come in as arguments here (EngineContext.newId).';

const rawSql = [
  { selector: 'TaggedTemplateExpression[tag.name=/^(sql|raw)$/]', message: SQL_BELONGS },
  { selector: 'CallExpression[callee.property.name=/^(executeQuery|compiledQuery)$/]', message: SQL_BELONGS },
  // Statements as text, for whatever call would take them; in lower case, as ours are, so that prose may pass.
  ...['Literal[value=%]', 'TemplateElement[value.cooked=%]'].map((node) => ({
    selector: node.replace('%', String.raw`/^\s*(select\s.+\sfrom|insert\s+into|update\s+\S+\s+set|delete\s+from)\s/s`),
    message: SQL_BELONGS,
  })),
];

const clockAndIds = [
  { selector: 'CallExpression[callee.object.name="Date"][callee.property.name="now"]', message: TIME_COMES_IN },
  { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: TIME_COMES_IN },
  { selector: 'CallExpression[callee.name="Date"]', message: TIME_COMES_IN },
  { selector: 'MemberExpression[object.name="Temporal"][property.name="Now"]', message: TIME_COMES_IN },
  { selector: 'MemberExpression[property.name="randomUUID"]', message: IDS_COME_IN },
];

const sqlImports = [
  { name: 'kysely', importNames: ['sql', 'CompiledQuery'], message: SQL_BELONGS },
  ...['@mikro-orm/core', '@mikro-orm/postgresql'].map((name) => ({
    name,
    importNames: ['sql', 'raw'],
    message: SQL_BELONGS,
  })),
];

const idImports = ['node:crypto', 'crypto'].map((name) => ({
  name,
  importNames: ['randomUUID'],
  message: IDS_COME_IN,
}));

export default defineConfig(
  globalIgnores(['**/dist/', '**/.data/', '**/coverage/', 'test/.readme-*/']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: { console: 'readonly', process: 'readonly', setTimeout: 'readonly', URL: 'readonly' } },
  },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    // The check project holds every file, tests too, and reads workspace packages from source: no build needed.
    languageOptions: { parserOptions: { project: './tsconfig.check.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      // `== null` stays: it is the one way to ask for null and undefined at once.
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-import-type-side-effects': 'error',
      '@typescript-eslint/consistent-type-exports': ['error', { fixMixedExportsWithInlineTypeSpecifier: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/no-deprecated': 'error',
      '@typescript-eslint/prefer-readonly': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true },
      ],
      // Asks to drop assertions that turn an any into a type wherever the receiver takes an any as well.
      '@typescript-eslint/no-unnecessary-type-assertion': 'off',
      // A function is async for the promise it owes its type, whether it waits or not.
      '@typescript-eslint/require-await': 'off',
      // Our interfaces are met by object literals of closures, which need no `this`.
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  {
    // Tests read JSON and rows of any shape, and hold classes that only a decorator looks at.
    files: ['**/test/**/*.ts', '**/*.spec.ts'],
    rules: {
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/prefer-readonly': 'off',
    },
  },
  {
    // The budgets where a review takes a hard look. They warn and never block: size is no reason for a suppression.
    files: ['**/src/**/*.ts'],
    ignores: ['**/*.spec.ts', 'migrations/**'],
    rules: {
      'max-lines-per-function': ['warn', { max: 50, skipComments: true, skipBlankLines: true }],
      'max-lines': ['warn', { max: 400, skipComments: true, skipBlankLines: true }],
      'max-params': ['warn', { max: 4 }],
    },
  },
  {
    // A library speaks through the logger that its host gave it.
    files: ['libs/*/src/**/*.ts'],
    rules: { 'no-console': 'error' },
  },
  {
    files: ['libs/cohort/src/**/*.ts'],
    ignores: ['libs/cohort/src/sql/**', '**/*.spec.ts'],
    rules: {
      'no-restricted-syntax': ['error', ...rawSql],
      '@typescript-eslint/no-restricted-imports': ['error', { paths: sqlImports }],
    },
  },
  {
    // Says the rules of the block above again: the later block replaces the earlier.
    files: ['libs/cohort/src/{domain,engine}/**/*.ts'],
    ignores: ['**/*.spec.ts'],
    rules: {
      'no-restricted-syntax': ['error', ...rawSql, ...clockAndIds],
      '@typescript-eslint/no-restricted-imports': ['error', { paths: [...sqlImports, ...idImports] }],
    },
  },
  prettier,
);
