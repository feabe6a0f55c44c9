import { readManifests, type Manifests } from '../config/manifests.ts';
import { UserError } from '../config/files.ts';
import type { Io } from './command.ts';
import { createProgress } from './progress.ts';
import { printable } from './report/text.ts';

/**
 * Reads all objects from files, folders and, for `-`, the standard input; shows how far it is on a terminal.
 * @throws {UserError} for a path that does not exist, and where there is nothing at all
 */
export async function readAllManifests(paths: readonly string[], { stdin, stderr, signal }: Io): Promise<Manifests> {
  const progress = createProgress(stderr);
  try {
    const manifests = await readManifests(paths, {
      stdin,
      signal,
      onProgress: ({ file, number, files, percent }) =>
        progress.show(`Reading ${printable(file)} (${number} of ${files}): ${percent} %`),
    });
    if (manifests.objects.length + manifests.errors.length > 0) return manifests;
  } finally {
    progress.clear();
  }
  throw new UserError(`no objects in ${paths.join(', ')}`);
}
