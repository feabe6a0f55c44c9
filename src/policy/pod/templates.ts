/** Pod templates in objects of any kind: at the paths of known kinds, and otherwise by their shape. */
import { CONTAINER_LISTS, getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { truncate } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';

/** A resource with pod templates that the settings name, such as `rollouts` of the group `argoproj.io`. */
export interface WorkloadResource {
  readonly group: string;
  /** `*` for all versions. */
  readonly version: string;
  readonly resource: string;
  /**
   * The path of the pod template, such as `spec.tasks.*.template`: names of members, and `*` for every member or item.
   * Without it, templates are found as in any object.
   */
  readonly templatePath?: string;
}

/** The names of members and the indexes of items on the way to a field. */
export type FieldPath = readonly (string | number)[];

/** The longest name of a member that is printed: that of a label. The names in custom resources have no limit. */
const MAX_NAME = 317;

/** Prints a path in the form of the API: `spec.tasks[0].template`, `metadata.labels[a.b/c]`. */
export function printFieldPath(path: FieldPath): string {
  return path
    .map((step) => (typeof step === 'number' ? step : truncate(step, MAX_NAME)))
    .map((step) => (typeof step === 'number' ? `[${step}]` : /^[^.[\]]+$/.test(step) ? `.${step}` : `[${step}]`))
    .join('')
    .replace(/^\./, '');
}

export interface PodTemplates {
  /** The paths of the templates; empty for the object as a whole. A template of a built-in kind may be absent. */
  readonly templates: readonly FieldPath[];
  /** The paths of containers that are in no template, and of the first field beyond the limits of the search. */
  readonly unknown: readonly FieldPath[];
}

/** Finds the pod templates of an object, and those of objects that it contains. */
export function findPodTemplates(object: JsonObject, templatePath?: string): PodTemplates {
  if (templatePath !== undefined) {
    const paths = findPaths(object, templatePath);
    return { templates: paths.slice(0, MAX_PATHS), unknown: paths.slice(MAX_PATHS, MAX_PATHS + 1) };
  }
  const search: Search = { path: [], templates: [], found: new Map(), unknown: [], isComplete: true };
  visit(object, '', search);
  return { templates: search.templates, unknown: search.unknown };
}

interface Search {
  /** The path of the current value. */
  readonly path: (string | number)[];
  readonly templates: FieldPath[];
  /** The paths of each template: several in YAML with aliases. The text of a path is no key, since it may be very long. */
  readonly found: Map<object, readonly FieldPath[]>;
  readonly unknown: FieldPath[];
  /** False after the search has reached a limit, where it ends. */
  isComplete: boolean;
}

/** The limits of a search, far above those of any real object: its size and depth are under the control of its author. */
const MAX_DEPTH = 100;
const MAX_PATHS = 1000;

/** The paths of pod templates in kinds that are not built in. The shape alone would miss a template without containers. */
const TEMPLATES: ReadonlyMap<string, readonly string[]> = new Map([
  ['Rollout.argoproj.io', ['spec.template']],
  ['Experiment.argoproj.io', ['spec.templates.*.template']],
  ['Service.serving.knative.dev', ['spec.template']],
  ['Configuration.serving.knative.dev', ['spec.template']],
  ['Revision.serving.knative.dev', ['']],
  ['ContainerSource.sources.knative.dev', ['spec.template']],
  ['CloneSet.apps.kruise.io', ['spec.template']],
  ['StatefulSet.apps.kruise.io', ['spec.template']],
  ['DaemonSet.apps.kruise.io', ['spec.template']],
  ['BroadcastJob.apps.kruise.io', ['spec.template']],
  [
    'AdvancedCronJob.apps.kruise.io',
    ['spec.template.jobTemplate.spec.template', 'spec.template.broadcastJobTemplate.spec.template'],
  ],
  ['DeploymentConfig.apps.openshift.io', ['spec.template']],
  ['ScaledJob.keda.sh', ['spec.jobTargetRef.template']],
  ['Job.batch.volcano.sh', ['spec.tasks.*.template']],
  ['TFJob.kubeflow.org', ['spec.tfReplicaSpecs.*.template']],
  ['PyTorchJob.kubeflow.org', ['spec.pytorchReplicaSpecs.*.template']],
  ['MPIJob.kubeflow.org', ['spec.mpiReplicaSpecs.*.template']],
  ['Notebook.kubeflow.org', ['spec.template']],
  ['RayCluster.ray.io', ['spec.headGroupSpec.template', 'spec.workerGroupSpecs.*.template']],
  ['SparkApplication.sparkoperator.k8s.io', ['spec.driver.template', 'spec.executor.template']],
]);

/** Groups and kinds with patterns, schemas or copies of pods, from which no pods are created. */
const WITHOUT_PODS: ReadonlySet<string> = new Set([
  'ControllerRevision.apps',
  'apiextensions.k8s.io',
  'constraints.gatekeeper.sh',
  'imagepolicy.k8s.io',
  'kyverno.io',
  'mutations.gatekeeper.sh',
  'policies.kyverno.io',
  'security.openshift.io',
  'templates.gatekeeper.sh',
]);

/** Members that contain no pods to create: metadata, what a controller has observed, and schemas. */
const IGNORED_MEMBERS: ReadonlySet<string> = new Set(['metadata', 'status', 'openAPIV3Schema']);

/** Visits the value at the path of the search. Templates and containers are not searched for further ones. */
function visit(value: object, name: string, search: Search): void {
  if (!search.isComplete) return;
  if (search.path.length > MAX_DEPTH || isFull(search)) end(search, search.path);
  else if (Array.isArray(value)) visitList(value, name, search);
  else visitObject(value as JsonObject, name, search);
}

function isFull({ templates, unknown }: Search): boolean {
  return templates.length + unknown.length >= MAX_PATHS;
}

/** Ends the search at a field that it does not include. */
function end(search: Search, path: FieldPath): void {
  search.isComplete = false;
  search.unknown.push([...path]);
}

function visitList(list: readonly unknown[], name: string, search: Search): void {
  if (list.some((item) => isContainer(item, name))) search.unknown.push([...search.path]);
  else for (const [index, item] of list.entries()) visitMember(item, index, name, search);
}

function visitObject(value: JsonObject, name: string, search: Search): void {
  const { path, unknown } = search;
  const isReference = path.length > 0 && value['spec'] === undefined && value['template'] === undefined;
  const known = isReference ? NOT_KNOWN : knownTemplates(value);
  for (const below of known.paths) addTemplate(search, [...path, ...below], getPodTemplate(value, below));
  if (known.isComplete || isFound(search, path, value)) return;
  if (isTemplate(value, name)) addTemplate(search, [...path], value);
  else if (isContainer(value, name) && /^script$|container$/i.test(name)) unknown.push([...path]);
  else {
    for (const [key, member] of Object.entries(value))
      if (!IGNORED_MEMBERS.has(key)) visitMember(member, key, key, search);
  }
}

/** `name` is that of the nearest member: items of a list have the name of the list. */
function visitMember(member: unknown, step: string | number, name: string, search: Search): void {
  if (typeof member !== 'object' || member === null) return;
  search.path.push(step);
  visit(member, name, search);
  search.path.pop();
}

/** A template of a built-in kind may be absent. */
function addTemplate(search: Search, path: FieldPath, template: object | undefined): void {
  const { templates, found, isComplete } = search;
  if (!isComplete || isFound(search, path, template)) return;
  if (isFull(search)) {
    end(search, path);
    return;
  }
  templates.push(path);
  if (template) found.set(template, [...(found.get(template) ?? []), path]);
}

function isFound({ found }: Search, path: FieldPath, template: object | undefined): boolean {
  const paths = (template && found.get(template)) ?? [];
  return paths.some((one) => one.length === path.length && one.every((step, index) => step === path[index]));
}

interface KnownTemplates {
  readonly paths: readonly FieldPath[];
  /** True if objects of the kind contain no other templates. */
  readonly isComplete: boolean;
}

const NOT_KNOWN: KnownTemplates = { paths: [], isComplete: false };

/** The templates of an object by its apiVersion and kind. */
function knownTemplates(object: JsonObject): KnownTemplates {
  const { apiVersion, kind } = object;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return NOT_KNOWN;
  const group = apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));
  const path = group === '' && kind === 'Pod' ? [] : podTemplatePath(group, kind);
  if (path !== undefined) return { paths: [path], isComplete: true };
  const name = `${kind}.${group}`;
  if (WITHOUT_PODS.has(name) || WITHOUT_PODS.has(group)) return { paths: [], isComplete: true };
  return { paths: (TEMPLATES.get(name) ?? []).flatMap((text) => findPaths(object, text)), isComplete: false };
}

/** Returns the paths of the existing fields that a path with `*` matches. */
function findPaths(object: JsonObject, text: string): readonly FieldPath[] {
  let matches: readonly (readonly [value: unknown, path: FieldPath])[] = [[object, []]];
  for (const step of text === '' ? [] : text.split('.')) {
    matches = matches.flatMap(([value, path]) =>
      listMembers(value, step).map(([key, member]) => [member, [...path, key]] as const),
    );
  }
  return matches.map(([, path]) => path);
}

function listMembers(value: unknown, step: string): readonly (readonly [key: string | number, member: unknown])[] {
  if (Array.isArray(value)) return step === '*' ? [...value.entries()] : [];
  if (!isObject(value)) return [];
  return Object.entries(value).filter(([key, member]) => member != null && (step === '*' || step === key));
}

/** Fields of pod specs that are true only for pods. */
const HOST_FIELDS = ['hostNetwork', 'hostPID', 'hostIPC'] as const;

/** True for a template by its name and shape: `podTemplate`, or `template` with the containers of a pod. */
function isTemplate({ spec }: JsonObject, name: string): boolean {
  if (!isObject(spec)) return false;
  if (/podTemplate(?:Spec)?s?$/i.test(name)) return true;
  return (
    /templates?$/i.test(name) &&
    (CONTAINER_LISTS.some((list) => hasContainers(spec[list])) || HOST_FIELDS.some((field) => spec[field] === true))
  );
}

function hasContainers(list: unknown): boolean {
  const isNamed = (item: unknown): boolean =>
    isObject(item) && (typeof item['name'] === 'string' || typeof item['image'] === 'string');
  return Array.isArray(list) && list.some(isNamed);
}

/** Fields of containers that abstractions of containers, which are no pods, rarely have. */
const CONTAINER_FIELDS = ['args', 'command', 'env', 'envFrom', 'script', 'securityContext', 'volumeMounts'] as const;

/** True for an object with the shape of a container: with an image, or in a list such as `containers` with a name. */
function isContainer(value: unknown, name: string): boolean {
  if (!isObject(value)) return false;
  const isInList = CONTAINER_LISTS.some((list) => list === name);
  if (isInList && typeof value['image'] === 'string') return true;
  const isNamed = typeof value[isInList ? 'name' : 'image'] === 'string';
  return isNamed && CONTAINER_FIELDS.some((field) => value[field] !== undefined);
}
