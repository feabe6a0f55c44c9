/** Runs in one process the files with tests of the pure parts, so they use another core than those of all-others.test.ts. */
import { globSync } from 'node:fs';
import { joinFiles } from './support/joined.ts';

joinFiles(globSync('test/{conformance,kube,policy}/**/*.test.ts'));
