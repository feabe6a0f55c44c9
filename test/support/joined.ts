import { join } from 'node:path';
import { suite } from 'node:test';

/**
 * Runs files with tests in this process, since the start of a process takes longer than the tests of most files. Each file
 * is a suite, so that its hooks apply to its own tests only.
 */
export function joinFiles(files: readonly string[]): void {
  for (const file of files.toSorted()) {
    suite(file, async () => {
      await import(join(import.meta.dirname, '../..', file));
    });
  }
}
