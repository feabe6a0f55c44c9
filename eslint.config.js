import js from '@eslint/js';
import simpleImportSort from 'eslint-plugin-simple-import-sort';
import tseslint from 'typescript-eslint';

const STYLE = [
  { selector: 'TSEnumDeclaration', message: 'Use a union of strings instead of an enum.' },
  { selector: 'ClassDeclaration:not([superClass.name=/Error$/])', message: 'Only errors are classes.' },
];

/** Layers of decisions: no clock, random values, I/O and asynchronous code. */
const PURE = [
  { selector: ':function[async=true]', message: 'This layer is synchronous.' },
  { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: 'This layer reads no clock.' },
];
const IMPURE_GLOBALS = [
  ...['Promise', 'console', 'crypto', 'fetch', 'performance', 'process', 'queueMicrotask'],
  ...['setImmediate', 'setInterval', 'setTimeout'],
];
const EXIT = { object: 'process', property: 'exit', message: 'Set process.exitCode or throw.' };
const ENVIRONMENT = { object: 'process', property: 'env', message: 'Only src/cli and src/main.ts read it.' };

/** Node, packages, other folders, the same folder, and side effects (styles), without empty lines in between. */
const IMPORTS = ['^node:', '^@?\\w', '^\\.\\./', '^\\./', '^\\u0000'];

export default tseslint.config(
  { ignores: ['dist', 'certs', 'node_modules', 'examples'] },
  js.configs.recommended,
  {
    files: ['**/*.{ts,tsx,js}'],
    plugins: { 'simple-import-sort': simpleImportSort },
    rules: { 'simple-import-sort/imports': ['error', { groups: [IMPORTS] }] },
  },
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      // The project service takes longer than the two programs.
      parserOptions: { project: ['tsconfig.json', 'src/web/tsconfig.json'], tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      // null and undefined are the same in the Kubernetes API: `== null` is how that is said.
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      // Wire data is typed as the API documents it and checked where it may lie.
      '@typescript-eslint/no-unnecessary-condition': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unnecessary-type-parameters': 'off',
      // Objects come from factories: their methods are closures, there is no `this` to lose.
      '@typescript-eslint/unbound-method': 'off',
      // node:test returns promises that its runner awaits.
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            { from: 'package', name: ['test', 'describe', 'it', 'suite'], package: 'node:test' },
          ],
        },
      ],
      'no-restricted-exports': [
        'error',
        { restrictDefaultExports: { direct: true, named: true, defaultFrom: true, namedFrom: true } },
      ],
    },
  },
  {
    files: ['src/**'],
    rules: {
      'no-restricted-properties': ['error', EXIT, ENVIRONMENT],
      'no-restricted-syntax': ['error', ...STYLE],
    },
  },
  { files: ['src/cli/**', 'src/main.ts'], rules: { 'no-restricted-properties': ['error', EXIT] } },
  // The interpreter of CEL registers classes as types.
  { files: ['src/dev-cluster/cel.ts'], rules: { 'no-restricted-syntax': 'off' } },
  {
    files: ['src/kube/**', 'src/policy/**'],
    rules: {
      'no-restricted-globals': ['error', ...IMPURE_GLOBALS],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now' },
        { object: 'Math', property: 'random' },
      ],
      'no-restricted-syntax': ['error', ...STYLE, ...PURE],
    },
  },
);
