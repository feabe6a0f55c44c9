/** Runs the test files of the part `main` that no other file of the part runs, in one process. */
import { globSync } from 'node:fs';
import { MAIN_FILES } from './parts.ts';
import { joinFiles } from './support/joined.ts';

/** Folders of other parts. */
const OTHER_PARTS = 'test/{e2e,kubectl,matrix,release,web}/**';
/** Files that `policies.test.ts` and `cli/commands.test.ts` run. */
const JOINED = ['test/{conformance,kube,policy}/**', 'test/cli/commands/*'];

joinFiles(globSync('test/**/*.test.ts', { exclude: [...MAIN_FILES, OTHER_PARTS, ...JOINED] }));
