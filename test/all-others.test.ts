/** Runs the test files of the part `main` in one process, except the files that another file of the part runs. */
import { globSync } from 'node:fs';
import { OTHER_FOLDERS, PARTS } from './parts.ts';
import { joinFiles } from './support/joined.ts';

/** Files that `policies.test.ts` and `cli/commands.test.ts` run. */
const JOINED = ['test/{conformance,kube,policy}/**', 'test/cli/commands/*'];

joinFiles(
  globSync('test/**/*.test.ts', {
    exclude: [
      ...(PARTS['check']?.files ?? []),
      ...(PARTS['main']?.files ?? []),
      `test/{${OTHER_FOLDERS.join(',')}}/**`,
      ...JOINED,
    ],
  }),
);
