import { readManifests, type Manifests, type ManifestObject } from '../../config/manifests.ts';
import { UserError } from '../../config/files.ts';
import type { Io } from '../command.ts';
import { createProgress, printable } from '../output/print.ts';
import { printPlace, type Remark } from '../output/findings.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { Labels } from '../../policy/psa/namespace-policy.ts';
import { podTemplatePath } from '../../kube/pod.ts';

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

/** The name of an object; with generateName its beginning and a star. */
export function nameOf(object: JsonObject): string {
  const { name, generateName } = metadataOf(object);
  if (typeof name === 'string' && name !== '') return name;
  return typeof generateName === 'string' && generateName !== '' ? `${generateName}*` : '';
}

/** The namespace that an object names; `undefined` if it leaves that to whoever creates it. */
export function namespaceOf(object: JsonObject): string | undefined {
  const { namespace } = metadataOf(object);
  return typeof namespace === 'string' && namespace !== '' ? namespace : undefined;
}

/** The labels of an object; none where it has something else in their place. */
export function labelsOf(object: JsonObject): Labels {
  const { labels } = metadataOf(object);
  return isObject(labels) ? labels : {};
}

function metadataOf(object: JsonObject): JsonObject {
  return isObject(object.metadata) ? object.metadata : {};
}

/** Where a kind keeps its pod or pod template; `undefined` if it has none. */
export function podPath(apiVersion: string, kind: string): readonly string[] | undefined {
  const group = groupOf(apiVersion);
  return group === '' && kind === 'Pod' ? [] : podTemplatePath(group, kind);
}

/** The API group; the core group is empty. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}
