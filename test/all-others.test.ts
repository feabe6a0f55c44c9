/**
 * Runs in one process the files with tests that no script of package.json names. Node runs files in the order of their names:
 * the file that takes longest is one of the first.
 */
import { globSync } from 'node:fs';
import packageJson from '../package.json' with { type: 'json' };
import { joinFiles } from './support/joined.ts';

const { 'test:run': run, 'test:release': release, 'test:web': web } = packageJson.scripts;
const named = [run, release, web].join(' ').match(/(?<=')test\/[^']+(?=')/g) ?? [];
joinFiles(globSync('test/**/*.test.ts', { exclude: [...named, 'test/cli/commands/*'] }));
