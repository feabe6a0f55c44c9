import type { ManifestObject } from '../../config/manifests.ts';
import { UserError } from '../../config/files.ts';
import type { Io } from '../command.ts';
import { readAllManifests } from '../read-manifests.ts';
import { printPlace } from '../report/text.ts';
import type { Remark } from '../report/types.ts';

/**
 * Reads all objects of files, folders and, for `-`, the standard input.
 * @throws {UserError} that names file, line and column of all that cannot be read
 */
export async function readObjects(paths: readonly string[], io: Io): Promise<readonly ManifestObject[]> {
  const { objects, errors } = await readAllManifests(paths, io);
  failOn(errors);
  return objects;
}

/** @throws {UserError} if there are any remarks: one line each */
export function failOn(remarks: readonly Remark[]): void {
  if (remarks.length === 0) return;
  throw new UserError(remarks.map((remark) => `${printPlace(remark)}: ${remark.message}`).join('\n'));
}
