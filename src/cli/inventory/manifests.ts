/** Reads the manifests of `--filename`. */
import { decodeErrors } from '../../config/field-types.ts';
import { type Manifests, readManifests, STDIN } from '../../config/manifests.ts';
import type { ManifestObject } from '../../config/objects.ts';
import type { ManifestError } from '../../config/yaml.ts';
import { UserError } from '../../kube/user-error.ts';
import type { Io } from '../command.ts';
import { list, type Option, text, UsageError } from '../options.ts';
import { printPosition } from '../output/findings.ts';
import { printable, withProgress } from '../output/print.ts';

const MANIFESTS = 'files, directories, URLs, or - for standard input';

/** The `-f` option. */
export function filenameOption(help: string): Option<readonly string[]> {
  return list('PATH', text, { short: 'f', help: `${help}: ${MANIFESTS}` });
}

/**
 * Reads all objects from the manifests of `--filename`. Shows progress on a terminal.
 * @throws {UserError} if there are no manifests or no objects, or if a path does not exist
 */
export async function readAllManifests(
  paths: readonly string[],
  { stdin, stderr, signal }: Io,
  options: Pick<Parameters<typeof readManifests>[1], 'onText' | 'isRewrite'> = {},
): Promise<Manifests> {
  if (paths.length === 0) throw new UsageError(`-f is required: ${MANIFESTS}`);
  const manifests = await withProgress(stderr, (show) =>
    readManifests(paths, {
      stdin,
      signal,
      ...options,
      onProgress: ({ file, number, files, percent }) =>
        show(`Reading ${printable(file)} (${number} of ${files}): ${percent}%`),
    }),
  );
  if (manifests.objects.length + manifests.errors.length > 0) return manifests;
  const names = paths.map((path) => (path === STDIN.path ? 'standard input' : path));
  throw new UserError(`no objects in ${names.join(', ')}`);
}

/**
 * Reads all objects like `readAllManifests`.
 * @throws {UserError} with the file, line and column of every document that cannot be read, and of every value of a
 * built-in kind that API servers cannot decode
 */
export async function readObjects(paths: readonly string[], io: Io): Promise<readonly ManifestObject[]> {
  const { objects, errors } = await readAllManifests(paths, io);
  failOnErrors([...errors, ...objects.flatMap(decodeErrors)]);
  return objects;
}

/** @throws {UserError} with one line for each error */
export function failOnErrors(errors: readonly ManifestError[]): void {
  if (errors.length === 0) return;
  throw new UserError(errors.map((error) => `${printPosition(error)}: ${error.message}`).join('\n'));
}
