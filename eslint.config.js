import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config({ ignores: ['dist', 'certs', 'node_modules', 'examples'] }, js.configs.recommended, {
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
        allowForKnownSafeCalls: [{ from: 'package', name: ['test', 'describe', 'it', 'suite'], package: 'node:test' }],
      },
    ],
    'no-restricted-exports': ['error', { restrictDefaultExports: { direct: true } }],
  },
});
