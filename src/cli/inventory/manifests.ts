/** Reading of manifests, and the parts of an object that may be missing or invalid in manifests. */
import { UserError } from '../../config/files.ts';
import { readManifests, type ManifestObject, type Manifests } from '../../config/manifests.ts';
import type { ManifestError } from '../../config/yaml.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { FieldPath } from '../../policy/pod/templates.ts';
import type { Labels } from '../../policy/psa/policy.ts';
import type { Io } from '../command.ts';
import { list, text, UsageError, type Option } from '../options.ts';
import { printPosition } from '../output/findings.ts';
import { printable, withProgress } from '../output/print.ts';

const MANIFESTS = 'files, folders, URLs, or - for the standard input';

/** The option `-f`. */
export function filenameOption(help: string): Option<readonly string[]> {
  return list('PATH', text, { short: 'f', help: `${help}: ${MANIFESTS}` });
}

/**
 * Reads all objects of the manifests of `--filename`. Shows the progress on a terminal.
 * @throws {UserError} without manifests, for a path that does not exist, and if there are no objects
 */
export async function readAllManifests(paths: readonly string[], { stdin, stderr, signal }: Io): Promise<Manifests> {
  if (paths.length === 0) throw new UsageError(`-f is required: ${MANIFESTS}`);
  const manifests = await withProgress(stderr, (show) =>
    readManifests(paths, {
      stdin,
      signal,
      onProgress: ({ file, number, files, percent }) =>
        show(`Reading ${printable(file)} (${number} of ${files}): ${percent} %`),
    }),
  );
  if (manifests.objects.length + manifests.errors.length > 0) return manifests;
  throw new UserError(`no objects in ${paths.join(', ')}`);
}

/**
 * Reads all objects as `readAllManifests` does.
 * @throws {UserError} with file, line and column of every document that cannot be read
 */
export async function readObjects(paths: readonly string[], io: Io): Promise<readonly ManifestObject[]> {
  const { objects, errors } = await readAllManifests(paths, io);
  failOnErrors(errors);
  return objects;
}

/** @throws {UserError} with one line for each error, if there are any */
export function failOnErrors(errors: readonly ManifestError[]): void {
  if (errors.length === 0) return;
  throw new UserError(errors.map((error) => `${printPosition(error)}: ${error.message}`).join('\n'));
}

/** Returns the name of an object; for `generateName`, the prefix with an asterisk. */
export function manifestName(object: JsonObject): string {
  const { name, generateName } = objectMetadata(object);
  if (typeof name === 'string' && name !== '') return name;
  return typeof generateName === 'string' && generateName !== '' ? `${generateName}*` : '';
}

/** Returns the namespace of an object; `undefined` if the manifest does not set it. */
export function manifestNamespace(object: JsonObject): string | undefined {
  const { namespace } = objectMetadata(object);
  return typeof namespace === 'string' && namespace !== '' ? namespace : undefined;
}

/** Returns the namespace of a field: that of the innermost enclosing object that has one. */
export function fieldNamespace(object: JsonObject, path: FieldPath): string | undefined {
  let namespace = manifestNamespace(object);
  let value: unknown = object;
  for (const step of path) {
    if (typeof step === 'number') value = Array.isArray(value) ? value[step] : undefined;
    else value = isObject(value) ? value[step] : undefined;
    if (isObject(value) && typeof value['kind'] === 'string') namespace = manifestNamespace(value) ?? namespace;
  }
  return namespace;
}

/** Returns the labels of an object; no labels if the field has another type. */
export function manifestLabels(object: JsonObject): Labels {
  const { labels } = objectMetadata(object);
  return isObject(labels) ? labels : {};
}

function objectMetadata(object: JsonObject): JsonObject {
  return isObject(object.metadata) ? object.metadata : {};
}

/** Returns the API group of an apiVersion; the core group is empty. */
export function apiGroup(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}
