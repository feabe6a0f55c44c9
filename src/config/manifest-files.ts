/**
 * Lists the manifest files at paths, except files that contain no objects, and files that kustomizations use as
 * patches, which contain only parts of objects.
 * @see https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
 */
import { existsSync, globSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join, posix, relative, resolve, sep, dirname } from 'node:path';
import { errorCode } from '../kube/error-code.ts';
import { compareBytes } from '../kube/text.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { failureReason, readFileText } from './files.ts';
import { CHART_FILE } from './objects.ts';
import { STDIN, readDocuments } from './yaml.ts';

export const URL_PATTERN = /^https?:\/\//;
const EXTENSIONS = /\.(?:ya?ml|json)$/i;
/** The only name of a kustomization that has no extension. */
const KUSTOMIZATION = 'Kustomization';

/** Directories of dependencies, which are skipped by default unless they are given as arguments. */
export const EXCLUDED = ['node_modules', 'bower_components', '__pycache__', 'venv'] as const;

/** A file, and the argument that contains it. */
export interface ListedFile {
  readonly path: string;
  readonly folder: string;
  /** True for the description of a Helm chart, whose templates are not manifests. */
  readonly isChart?: true;
}

interface ListedFiles {
  readonly files: readonly ListedFile[];
  /** Descriptions of Helm charts that have no templates. */
  readonly emptyCharts: readonly string[];
  /** Files that kustomizations use as patches or other inputs. */
  readonly kustomizeInputs: readonly string[];
}

/**
 * Lists the distinct files at the given paths. For a directory, lists the .yaml, .yml and .json files in it and its
 * subdirectories, sorted by name. Skips hidden files, symbolic links to directories and excluded paths. For a Helm chart
 * directory, returns only Chart.yaml.
 * @throws {UserError} if a path does not exist or a directory contains no manifests
 */
export async function listManifestFiles(paths: readonly string[], exclude: readonly string[]): Promise<ListedFiles> {
  const files = new Map<string, ListedFile>();
  const emptyCharts: string[] = [];
  for (const path of paths.flatMap(expandPattern)) {
    for (const { isEmpty, ...file } of await filesAt(path, exclude)) {
      const identity = isLocal(file.path) ? resolve(file.path) : file.path;
      if (isEmpty) emptyCharts.push(file.path);
      else if (!files.has(identity)) files.set(identity, { ...file, folder: path });
    }
  }
  const inputs = await findKustomizeInputs([...files.keys()].filter(isLocal));
  const all = [...files];
  return {
    files: all.flatMap(([path, file]) => (inputs.has(path) ? [] : file)),
    emptyCharts,
    kustomizeInputs: all.flatMap(([path, file]) => (inputs.has(path) ? file.path : [])),
  };
}

/** Returns the files that match a pattern. This is necessary because Windows shells do not expand patterns. */
function expandPattern(path: string): readonly string[] {
  if (!/[*?[]/.test(path) || URL_PATTERN.test(path) || existsSync(path)) return [path];
  const matches = globSync(path);
  return matches.length === 0 ? [path] : matches.sort(compareBytes);
}

function isLocal(path: string): boolean {
  return path !== STDIN.path && !URL_PATTERN.test(path);
}

interface FoundFile extends Omit<ListedFile, 'folder'> {
  /** True for a Helm chart without templates. */
  readonly isEmpty?: true;
}

async function filesAt(path: string, exclude: readonly string[]): Promise<readonly FoundFile[]> {
  if (!isLocal(path)) return [{ path }];
  try {
    if (isExcluded(path, path, exclude)) return [];
    if (!(await stat(path)).isDirectory()) return [{ path, ...(basename(path) === CHART_FILE && { isChart: true }) }];
    const files = await filesBelow(path, path, exclude);
    if (files.length > 0) return files;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new UserError(`the path "${path}" does not exist`, { cause: error });
    if (errorCode(error) !== undefined)
      throw new UserError(`cannot read ${path}: ${failureReason(error)}`, { cause: error });
    throw error;
  }
  const condition = exclude.length > 0 ? ' that no --exclude pattern matches' : '';
  throw new UserError(`no .yaml, .yml or .json file in ${path}${condition}`);
}

async function filesBelow(folder: string, root: string, exclude: readonly string[]): Promise<FoundFile[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const chart = entries.find(({ name }) => name === CHART_FILE) && join(folder, CHART_FILE);
  const hasTemplates = entries.some((entry) => entry.isDirectory() && entry.name === 'templates');
  if (chart !== undefined && (hasTemplates || folder === root)) return [{ path: chart, isChart: true }];
  const files: FoundFile[] = [];
  for (const entry of entries.sort((a, b) => compareBytes(a.name, b.name))) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.') || isExcluded(path, root, [...EXCLUDED, ...exclude])) continue;
    if (entry.isDirectory()) for (const file of await filesBelow(path, root, exclude)) files.push(file);
    else if (path === chart) files.push({ path, isEmpty: true });
    else if (isManifestName(entry.name) && (entry.isFile() || (await linksToFile(path)))) files.push({ path });
  }
  return files;
}

/** Returns true for the names of files that are read if they are in a directory. */
export function isManifestName(name: string): boolean {
  return EXTENSIONS.test(name) || basename(name) === KUSTOMIZATION;
}

/** Returns true for links to files and for broken links, which are listed so that reading them reports the error. */
async function linksToFile(path: string): Promise<boolean> {
  return await stat(path).then(
    (target) => target.isFile(),
    () => true,
  );
}

/**
 * Returns true if a pattern matches a path. As in .gitignore files, a pattern without a slash matches the name of a
 * file or directory. Other patterns match the path itself, or the path below the directory of the argument.
 */
function isExcluded(path: string, root: string, patterns: readonly string[]): boolean {
  const slashed = (text: string): string => posix.normalize(text.replaceAll(sep, '/')).replace(/(?<=.)\/$/, '');
  const full = slashed(path);
  const below = slashed(relative(root, path));
  return patterns.some((text) => {
    const pattern = slashed(text);
    if (!pattern.includes('/')) return posix.matchesGlob(posix.basename(full), pattern);
    return [full, below, `/${below}`].some((candidate) => posix.matchesGlob(candidate, pattern));
  });
}

const NAMES = ['kustomization.yaml', 'kustomization.yml', 'Kustomization'] as const;

/**
 * Maximum number of parent directories in which kustomizations are looked up. A kustomization may list files in
 * subdirectories, but rarely at greater depths.
 */
const MAX_LEVELS = 8;

/** Fields of a kustomization that contain paths, and the fields of their items with these paths. */
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
 * Returns the files that a kustomization in the same directory or in a parent directory uses as inputs. Excludes files
 * that a kustomization also lists as resources, and directories that contain the kustomization, which kustomize rejects.
 * The paths are absolute.
 */
async function findKustomizeInputs(files: readonly string[]): Promise<ReadonlySet<string>> {
  const inputs = new Set<string>();
  const resources = new Set<string>();
  for (const folder of new Set(files.flatMap(parentFolders))) {
    for (const value of await readKustomizations(folder)) {
      for (const path of listInputs(value)) {
        const input = resolve(folder, path);
        if (input !== folder && !parentFolders(folder).includes(input)) inputs.add(input);
      }
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

/**
 * Reads the kustomizations in a directory. Skips unreadable kustomizations, which are reported if they are among the
 * manifests.
 */
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
    // Generators accept KEY=PATH. Inline patches are skipped, because they contain line breaks.
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
