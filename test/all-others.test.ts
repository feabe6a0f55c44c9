/**
 * Runs the files with tests that `npm run test:run` does not name in one process. Node runs files in the order of their names:
 * the file that takes longest is one of the first.
 */
import { globSync } from 'node:fs';
import packageJson from '../package.json' with { type: 'json' };
import { joinFiles } from './support/joined.ts';

const named = packageJson.scripts['test:run'].match(/(?<=')test\/[^']+(?=')/g) ?? [];
joinFiles(globSync('test/**/*.test.ts', { exclude: [...named, 'test/cli/commands/*'] }));
