/** Reads the manifests that `--filename` selects. */
import { invalidErrors } from '../../config/field-types.ts';
import { EXCLUDED } from '../../config/manifest-files.ts';
import { type Manifests, readManifests } from '../../config/manifests.ts';
import type { ManifestObject } from '../../config/objects.ts';
import { findUnreadable } from '../../config/unrendered.ts';
import { type ManifestError, STDIN } from '../../config/yaml.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import type { Io } from '../command.ts';
import { list, nonEmpty, repeated, text, UsageError } from '../options.ts';
import { printPosition } from '../output/findings.ts';
import { printable, withProgress } from '../output/print.ts';

/** Maximum number of skipped files to name. */
const MAX_SKIPPED = 5;

const MANIFESTS = 'files, directories, URLs, or - for standard input';

/** Defines the `-f` option, whose values can also be operands, and the option for paths to skip in its directories. */
export function manifestOptions(help: string) {
  return {
    filename: list('PATH', text, { short: 'f', help: `${help}: ${MANIFESTS}. Paths can also be given without -f` }),
    exclude: repeated('PATTERN', nonEmpty, {
      help: `Glob pattern of files and directories to skip, in addition to hidden files, ${EXCLUDED.join(', ')}. Can be repeated`,
    }),
  };
}

interface ManifestValues {
  readonly filename: readonly string[];
  readonly exclude?: readonly string[];
}

/**
 * Reads all objects from the manifests that `--filename` selects. Shows progress on a terminal, and prints the skipped
 * files.
 * @throws {UserError} if there are no manifests or no objects, or if a path does not exist
 */
export async function readAllManifests(
  { filename: paths, exclude = [] }: ManifestValues,
  { stdin, stderr, signal }: Io,
  options: Pick<Parameters<typeof readManifests>[1], 'onText' | 'isRewrite'> = {},
): Promise<Manifests> {
  if (paths.length === 0) throw new UsageError(`-f is required: ${MANIFESTS}`);
  const { others, kustomizeInputs, ...manifests } = await withProgress(stderr, (show) =>
    readManifests(paths, {
      stdin,
      signal,
      exclude,
      ...options,
      onProgress: ({ file, number, files, percent }) =>
        show(`Reading ${printable(file)} (${number} of ${files}): ${percent}%`),
    }),
  );
  const skip = (files: readonly string[], reason: string): void => {
    if (files.length === 0) return;
    const names = summarizeNames(files, MAX_SKIPPED);
    stderr.write(`skipped: ${printable(`${printCount(files.length, 'file')} ${reason}: ${names}`)}\n`);
  };
  skip(others, 'without Kubernetes objects');
  skip(kustomizeInputs, 'that a kustomization uses as a patch or another input');
  if (manifests.objects.length + manifests.errors.length + kustomizeInputs.length > 0) return manifests;
  const names = paths.map((path) => (path === STDIN.path ? 'standard input' : path));
  throw new UserError(`no objects in ${names.join(', ')}`);
}

/**
 * Reads all objects like `readAllManifests`.
 * @throws {UserError} with the file, line and column of every document that cannot be read, of every placeholder, and
 * of every value of a built-in kind that API servers reject or cannot decode
 */
export async function readObjects(values: ManifestValues, io: Io): Promise<readonly ManifestObject[]> {
  const { objects, errors } = await readAllManifests(values, io);
  failOnErrors([...errors, ...objects.flatMap(findUnreadable)]);
  failOnErrors(invalidErrors(objects));
  return objects;
}

/** @throws {UserError} with one line for each error, if there are any */
export function failOnErrors(errors: readonly ManifestError[]): void {
  if (errors.length === 0) return;
  throw new UserError(errors.map((error) => `${printPosition(error)}: ${error.message}`).join('\n'));
}
