/** Runs the tests of the pure parts in one process, in parallel with all-others.test.ts. */
import { globSync } from 'node:fs';
import { joinFiles } from './support/joined.ts';

joinFiles(globSync('test/{conformance,kube,policy}/**/*.test.ts'));
