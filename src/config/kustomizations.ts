/**
 * Reads which files a kustomization uses as patches, generator sources and configurations. They may have the form of
 * objects, but they are not applied to a cluster.
 * @see https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
 */
import { dirname, join, resolve } from 'node:path';
import { isObject, type JsonObject } from '../kube/types.ts';
import { readFileText } from './files.ts';
import { readDocuments } from './yaml.ts';

const NAMES = ['kustomization.yaml', 'kustomization.yml', 'Kustomization'] as const;

/** A kustomization may list files in subdirectories. Deeper files are rare. */
const MAX_LEVELS = 8;

/** Fields with paths, and the fields of their items that contain the paths. */
const INPUT_FIELDS: Readonly<Record<string, readonly string[]>> = {
  patches: ['path'],
  patchesStrategicMerge: [],
  patchesJson6902: ['path'],
  replacements: ['path'],
  configMapGenerator: ['files', 'envs', 'env'],
  secretGenerator: ['files', 'envs', 'env'],
  helmCharts: ['valuesFile', 'additionalValuesFiles'],
  helmChartInflationGenerator: ['values'],
  configurations: [],
  crds: [],
  generators: [],
  openapi: ['path'],
  transformers: [],
  validators: [],
};

const RESOURCE_FIELDS = ['resources', 'bases', 'components'] as const;

/**
 * Returns the files that kustomizations in their directory or in a parent directory use as inputs. A file that a
 * kustomization also lists as a resource is not included. The paths are absolute.
 */
export async function findKustomizeInputs(files: readonly string[]): Promise<ReadonlySet<string>> {
  const inputs = new Set<string>();
  const resources = new Set<string>();
  for (const folder of new Set(files.flatMap(parentFolders))) {
    for (const value of await readKustomizations(folder)) {
      for (const path of listInputs(value)) inputs.add(resolve(folder, path));
      for (const field of RESOURCE_FIELDS)
        for (const path of strings(value[field])) resources.add(resolve(folder, path));
    }
  }
  if (inputs.size === 0) return inputs;
  const isInput = (file: string): boolean => [file, ...parentFolders(file)].some((path) => inputs.has(path));
  return new Set(files.filter((file) => isInput(file) && !resources.has(file)));
}

function parentFolders(file: string): readonly string[] {
  const folders = [dirname(file)];
  for (let parent = dirname(folders[0] ?? ''); folders.length < MAX_LEVELS; parent = dirname(parent)) {
    if (folders.includes(parent)) break;
    folders.push(parent);
  }
  return folders;
}

/** Unreadable kustomizations contain no inputs. They are reported if they are among the manifests. */
async function readKustomizations(folder: string): Promise<readonly JsonObject[]> {
  const texts = await Promise.all(NAMES.map((name) => readFileText(join(folder, name)).catch(() => '')));
  return texts
    .flatMap((text) => readDocuments(text, folder).documents)
    .map(({ value }) => value)
    .filter(isObject);
}

function listInputs(kustomization: JsonObject): readonly string[] {
  return Object.entries(INPUT_FIELDS).flatMap(([field, members]) => {
    const value = kustomization[field];
    const items = Array.isArray(value) ? (value as readonly unknown[]) : [value];
    // Generators accept KEY=PATH. Inline patches contain line breaks.
    return items
      .flatMap((item) => [
        ...strings(item),
        ...members.flatMap((member) => strings(isObject(item) ? item[member] : [])),
      ])
      .flatMap((text) => (text.includes('\n') ? [] : text.slice(text.indexOf('=') + 1)));
  });
}

/** Returns the strings in a string or a list. */
function strings(value: unknown): readonly string[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  return items.filter((item) => typeof item === 'string');
}
