import { join } from 'node:path';
import { suite } from 'node:test';

/**
 * Runs test files in this process, because starting a process takes longer than the tests in most files. Each file is a
 * suite, so its hooks apply only to its own tests.
 */
export function joinFiles(files: readonly string[]): void {
  for (const file of files.toSorted()) {
    suite(file, async () => {
      await import(join(import.meta.dirname, '../..', file));
    });
  }
}
