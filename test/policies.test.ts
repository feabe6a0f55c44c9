/** Runs in one process the files with tests of the pure parts, so they run on a different core than all-others.test.ts. */
import { globSync } from 'node:fs';
import { joinFiles } from './support/joined.ts';

joinFiles(globSync('test/{conformance,kube,policy}/**/*.test.ts'));
