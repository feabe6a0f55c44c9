/** Runs all test files that no package.json script and no other combined file lists, in one process. */
import { globSync } from 'node:fs';
import packageJson from '../package.json' with { type: 'json' };
import { joinFiles } from './support/joined.ts';

/** Tests that `test:run` does not run. */
const OTHER_SUITES = ['e2e', 'kubectl', 'matrix', 'release', 'web'].map((suite) => `test/${suite}/**`);
const named = packageJson.scripts['test:run'].match(/(?<=')test\/[^']+(?=')/g) ?? [];
joinFiles(
  globSync('test/**/*.test.ts', {
    exclude: [...named, ...OTHER_SUITES, 'test/{conformance,kube,policy}/**', 'test/cli/commands/*'],
  }),
);
