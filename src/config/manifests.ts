/**
 * Manifests: YAML or JSON as kubectl reads it, with the place of every field.
 *
 * Only here and in the folder beside it the YAML library is known. What is read is unknown data: nothing here knows a kind.
 */
import { setImmediate } from 'node:timers/promises';
import { readSteps, type ManifestDocument, type ManifestError, type Step } from './manifests/documents.ts';
import { listManifestFiles, readManifestText, STDIN, type TextOptions } from './manifests/files.ts';
import { objectsOf, type ManifestObject, type ManifestObjects } from './manifests/objects.ts';

export type { DuplicateKeyPosition, ManifestDocument, ManifestError } from './manifests/documents.ts';
export type { Path } from './manifests/node.ts';
export { printYaml } from './manifests/print-yaml.ts';
export { objectsOf, type ManifestObject, type ManifestObjects } from './manifests/objects.ts';

/** Everything that a text holds; a document that cannot be read is among the errors and does not hide the others. */
export interface Documents {
  readonly documents: readonly ManifestDocument[];
  readonly errors: readonly ManifestError[];
}

/** Reads a stream of YAML documents or JSON values; `file` is for messages. Empty documents are left out. */
export function readDocuments(text: string, file: string): Documents {
  const steps = [...readSteps(text, file)];
  return {
    documents: steps.flatMap(({ document }) => document ?? []),
    errors: steps.flatMap(({ error }) => error ?? []),
  };
}

/** The objects of several files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

export interface ReadOptions extends TextOptions {
  /** Called at each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
}

/** The file that is read now, the number of the file among all, and how much of it has been read. */
export interface ReadProgress {
  readonly file: string;
  readonly number: number;
  readonly files: number;
  readonly percent: number;
}

/**
 * Reads all objects from files, folders and, for `-`, the standard input.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
export async function readManifests(paths: readonly string[], options: ReadOptions): Promise<Manifests> {
  const found: Found = { documents: [], objects: [], errors: [] };
  const files = await listManifestFiles(paths);
  for (const [index, path] of files.entries()) {
    const file = path === STDIN.path ? STDIN.name : path;
    const onPercent = async (percent: number): Promise<void> => {
      options.onProgress?.({ file, number: index + 1, files: files.length, percent });
      // Reading is work without pause: let signals in.
      await setImmediate(undefined, options.signal ? { signal: options.signal } : {});
    };
    await onPercent(0);
    const content = await readManifestText(path, options);
    if ('message' in content) found.errors.push({ file, ...content });
    else await readInto(found, readSteps(content.text, file), onPercent);
  }
  return found;
}

/** What has been found so far. */
interface Found {
  readonly documents: ManifestDocument[];
  readonly objects: ManifestObject[];
  readonly errors: ManifestError[];
}

async function readInto(
  found: Found,
  steps: Iterable<Step>,
  onPercent: (percent: number) => Promise<void>,
): Promise<void> {
  let last = 0;
  for (const { document, error, share } of steps) {
    if (error) found.errors.push(error);
    if (document) {
      const { objects, errors } = objectsOf(document);
      found.documents.push(document);
      for (const object of objects) found.objects.push(object);
      for (const one of errors) found.errors.push(one);
    }
    const percent = Math.floor(share * 100);
    if (percent > last) await onPercent((last = percent));
  }
}
