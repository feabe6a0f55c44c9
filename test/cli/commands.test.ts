/** Runs the tests of the commands in one process. */
import { globSync } from 'node:fs';
import { joinFiles } from '../support/joined.ts';

joinFiles(globSync('test/cli/commands/*.test.ts'));
