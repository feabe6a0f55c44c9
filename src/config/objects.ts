/** Reads Kubernetes API objects from manifests, and fields of objects that may be missing or invalid. */
import { setApiDefaults } from '../kube/defaults.ts';
import { draft, isObject, type JsonObject, type PodLike, objectMember } from '../kube/types.ts';
import { type FieldPath, findPodTemplates, hasKnownTemplates } from '../policy/pod/index.ts';
import type { Labels } from '../policy/psa/index.ts';
import { decodeError } from '../policy/pss/index.ts';
import { isTemplate, processTemplate } from './openshift-templates.ts';
import type { ManifestDocument, ManifestError, Path, Position } from './yaml.ts';

/** A Kubernetes API object, which is a whole document or an item of a list in a document. */
export interface ManifestObject extends Position {
  readonly document: ManifestDocument;
  /** Path of the object in the document. Empty if the object is the whole document. */
  readonly path: Path;
  readonly apiVersion: string;
  readonly kind: string;
  readonly value: JsonObject;
  /** Set for an object in an OpenShift Template. The object differs from its text if it has been processed. */
  readonly template?: { readonly isProcessed: boolean };
  /** Position of a field in the object, or of its nearest existing ancestor. */
  locate(path: Path): Position;
}

/** Objects in one or more documents, and errors for values that are not objects. */
export interface ManifestObjects {
  readonly objects: readonly ManifestObject[];
  readonly errors: readonly ManifestError[];
}

/** Matches the names of files for which kustomize assumes the type. */
const KUSTOMIZATION_FILE = /(?:^|[/\\])(?:kustomization\.ya?ml|Kustomization)$/;
const KUSTOMIZATION: TypeMeta = { apiVersion: 'kustomize.config.k8s.io/v1beta1', kind: 'Kustomization' };

/** Returns true for a kustomization or a component. Both change the manifests that they list. */
export function isKustomization({ apiVersion }: Pick<ManifestObject, 'apiVersion'>): boolean {
  return apiGroup(apiVersion) === 'kustomize.config.k8s.io';
}

function directoryOf(file: string): string {
  return file.slice(0, Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);
}

/**
 * Returns a function that reports whether a kustomization may list the file of an object. Such a kustomization may add
 * required fields, such as selectors. Kustomizations list only files in or below their own directory.
 */
export function kustomizedObjects(objects: readonly ManifestObject[]): (object: ManifestObject) => boolean {
  const folders = new Set(objects.filter(isKustomization).map(({ document }) => directoryOf(document.file)));
  const isFolder = (file: string, end: number): boolean => folders.has(file.slice(0, end));
  return ({ document: { file } }) =>
    folders.size > 0 &&
    (isFolder(file, 0) || [...file.matchAll(/[/\\]/g)].some(({ index }) => isFolder(file, index + 1)));
}

/** OpenShift's representation of a namespace, with the same name, labels and annotations. It is read as a Namespace. */
const PROJECT = { apiVersion: 'project.openshift.io/v1', kind: 'Project' } as const;

/** File that describes the Helm chart in its directory. */
export const CHART_FILE = 'Chart.yaml';

/**
 * Returns the objects in a document. Items of lists and objects of OpenShift Templates are separate objects. Any other
 * value is an error. Items in an object of another kind are also an error, because kubectl reads the object as a list.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.2/pkg/apis/meta/v1/unstructured/helpers.go
 */
export function manifestObjects(document: ManifestDocument): ManifestObjects {
  const objects: ManifestObject[] = [];
  const errors: ManifestError[] = [];
  const add = (value: unknown, path: Path, inherited: TypeMeta, template?: ManifestObject['template']): void => {
    const typed = readTypeMeta(value, inherited);
    if ('message' in typed) {
      const { file } = document;
      errors.push({ file, ...document.locate([...path, ...typed.path]), message: typed.message });
      return;
    }
    const { apiVersion, kind } = typed;
    const { items } = typed.value;
    if (Array.isArray(items) && kind.endsWith('List')) {
      const itemType = kind === 'List' ? {} : { apiVersion, kind: kind.slice(0, -'List'.length) };
      items.forEach((item, index) => add(item, [...path, 'items', index], itemType, template));
      return;
    }
    if (isTemplate(apiVersion, kind)) {
      for (const [index, { value: object, isProcessed }] of processTemplate(typed.value).entries()) {
        add(object, [...path, 'objects', index], {}, { isProcessed });
      }
      return;
    }
    const locate = (below: Path): Position => document.locate([...path, ...below]);
    objects.push({ ...typed, document, path, ...locate([]), locate, ...(template && { template }) });
    if (Array.isArray(items) && items.some(isObject)) {
      const message = `kubectl creates the objects in items instead of the ${kind}: remove items, or set kind to List`;
      errors.push({ file: document.file, ...locate(['items']), message });
    }
  };
  add(document.value, [], KUSTOMIZATION_FILE.test(document.file) ? KUSTOMIZATION : {});
  return { objects, errors };
}

/** Type of the items in a list such as PodList. The API server omits the type of each item. */
interface TypeMeta {
  readonly apiVersion?: string;
  readonly kind?: string;
}

type Typed = Pick<ManifestObject, 'apiVersion' | 'kind' | 'value'> | { readonly path: Path; readonly message: string };

function readTypeMeta(value: unknown, inherited: TypeMeta): Typed {
  if (!isObject(value)) return { path: [], message: 'expected an object with apiVersion and kind' };
  const { apiVersion, kind } = value['apiVersion'] == null && value['kind'] == null ? inherited : value;
  if (kind == null || kind === '') return { path: [], message: "Object 'Kind' is missing" };
  if (apiVersion == null || apiVersion === '') return { path: [], message: "Object 'apiVersion' is missing" };
  if (typeof kind !== 'string') return { path: ['kind'], message: 'kind must be a string' };
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'apiVersion must be a string' };
  const isProject = kind === PROJECT.kind && apiVersion === PROJECT.apiVersion;
  const type = isProject ? { apiVersion: 'v1', kind: 'Namespace' } : { apiVersion, kind };
  return { ...type, value: value['kind'] == null || isProject ? { ...value, ...type } : value };
}

/** Returns an error at a field of an object, or at its nearest existing ancestor. */
export function errorAt({ document, locate }: ManifestObject, path: Path, message: string): ManifestError {
  return { file: document.file, ...locate(path), message };
}

/** Returns the name of an object. If only `generateName` is set, returns the prefix followed by an asterisk. */
export function manifestName(object: JsonObject): string {
  const { name, generateName } = objectMetadata(object);
  if (typeof name === 'string' && name !== '') return name;
  return typeof generateName === 'string' && generateName !== '' ? `${generateName}*` : '';
}

/** Returns the namespace of an object, or `undefined` if the manifest does not set it. */
export function manifestNamespace(object: JsonObject): string | undefined {
  const { namespace } = objectMetadata(object);
  return typeof namespace === 'string' && namespace !== '' ? namespace : undefined;
}

/**
 * Returns the namespace of the innermost object that encloses a field and sets a namespace. The kind and the namespace of
 * a pod template have no effect.
 */
export function fieldNamespace(object: JsonObject, path: FieldPath): string | undefined {
  let namespace = manifestNamespace(object);
  let value: unknown = object;
  for (const step of path) {
    if (isObject(value) && hasKnownTemplates(value)) break;
    if (typeof step === 'number') value = Array.isArray(value) ? value[step] : undefined;
    else value = isObject(value) ? value[step] : undefined;
    const isApiObject = isObject(value) && typeof value['apiVersion'] === 'string' && typeof value['kind'] === 'string';
    if (isApiObject) namespace = manifestNamespace(value as JsonObject) ?? namespace;
  }
  return namespace;
}

/** Returns the labels of an object, or no labels if the field has the wrong type. */
export function manifestLabels(object: JsonObject): Labels {
  return objectMember(objectMetadata(object), 'labels');
}

function objectMetadata(object: JsonObject): JsonObject {
  return objectMember(object, 'metadata');
}

/** Returns the API group of an apiVersion, which is empty for the core group. */
export function apiGroup(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}

/**
 * Returns an object's pod or pod template as the API server would evaluate it, and its path. Returns an empty pod if
 * the template is missing. If a value on the path to the template is not an object, returns that value, which cannot be
 * decoded.
 */
export function readPod(object: unknown, path: FieldPath): { readonly pod: PodLike; readonly path: Path } {
  let value: unknown = object;
  for (const [depth, step] of path.entries()) {
    if (typeof step === 'number') value = Array.isArray(value) ? (value[step] as unknown) : undefined;
    else if (isObject(value)) value = value[step] ?? {};
    else return { pod: value as PodLike, path: path.slice(0, depth) };
  }
  return { pod: withDefaults(value as PodLike), path };
}

/** A pod or pod template in an object. */
export interface ObjectPod {
  /** Path of the pod or template. */
  readonly path: FieldPath;
  /** The pod with the API server's defaults. */
  readonly pod: PodLike;
  /** True if the fields of the pod are spread over the object. */
  readonly isComposed: boolean;
  /** Returns the path of a pod field in the object. */
  sourcePath(podPath: Path): Path;
}

/** Returns the pods of an object, and the fields that may belong to unknown pods. */
export function readPods(object: JsonObject) {
  const { templates, composed, unknown, fields } = findPodTemplates(object);
  const pods: readonly ObjectPod[] = [
    ...templates.map((path) => {
      const template = readPod(object, path);
      const sourcePath = (podPath: Path): Path => [...template.path, ...podPath];
      return { path, pod: template.pod, isComposed: false, sourcePath };
    }),
    ...composed.map(({ path, pod, sourcePath }) => ({ path, pod: withDefaults(pod), isComposed: true, sourcePath })),
  ];
  return { pods, unknown, fields };
}

/** Returns the pod with the API server's defaults, or the unchanged pod if it cannot be decoded. */
function withDefaults(pod: PodLike): PodLike {
  if (decodeError(pod) !== undefined) return pod;
  const { metadata, spec } = draft(pod);
  const complete: Record<string, unknown> = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
  setApiDefaults(complete);
  return complete;
}
