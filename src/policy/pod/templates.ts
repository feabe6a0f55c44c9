/**
 * Finds pod templates in objects of any kind. In known kinds, a template is identified by its path. In other kinds, it
 * is identified by its shape.
 */
import { CONTAINER_LISTS, getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { truncate } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { type ComposedPod, composePods, findPaths } from './composed-pods.ts';
import { CUSTOM_KINDS, type CustomKind, type PodFieldMap } from './custom-kinds.ts';

/** A resource from the settings that has pod templates, such as `rollouts` in the `argoproj.io` group. */
export interface WorkloadResource {
  readonly group: string;
  /** `*` matches all versions. */
  readonly version: string;
  readonly resource: string;
  /**
   * Path of the pod template, such as `spec.tasks.*.template`. It consists of member names, and `*` matches every
   * member or item. If no path is set, templates are recognized by their shape.
   */
  readonly templatePath?: string;
}

/** The member names and item indexes on the way to a field. */
export type FieldPath = readonly (string | number)[];

/**
 * Maximum length of a printed member name, which is the maximum length of a label key. Names in custom resources can
 * have any length.
 */
const MAX_NAME = 317;

/** Formats a path in API notation, such as `spec.tasks[0].template` or `metadata.labels[a.b/c]`. */
export function printFieldPath(path: FieldPath): string {
  return path
    .map((step) => (typeof step === 'number' ? step : truncate(step, MAX_NAME)))
    .map((step) => (typeof step === 'number' ? `[${step}]` : /^[^.[\]]+$/.test(step) ? `.${step}` : `[${step}]`))
    .join('')
    .replace(/^\./, '');
}

/** The pod templates of an object, and fields that may belong to unknown pods. */
interface PodTemplates {
  /**
   * Paths of the templates. The path is empty if the object itself is a template. In a built-in kind, there may be no
   * template at the path.
   */
  readonly templates: readonly FieldPath[];
  /** Pods of custom resources whose fields are spread over the object. */
  readonly composed: readonly ComposedPod[];
  /** Paths of containers outside any template, and of the first field beyond the search limits. */
  readonly unknown: readonly FieldPath[];
  /** Paths of security fields of custom resources outside any template and container. */
  readonly fields: readonly FieldPath[];
}

/** Finds the pod templates of an object and of the objects that it contains. */
export function findPodTemplates(object: JsonObject, templatePath?: string): PodTemplates {
  if (templatePath !== undefined) {
    const paths = findPaths(object, templatePath);
    const unknown = paths.slice(MAX_PATHS, MAX_PATHS + 1);
    return { templates: paths.slice(0, MAX_PATHS), composed: [], unknown, fields: [] };
  }
  const search: Search = {
    path: [],
    templates: [],
    found: new Map(),
    composed: [],
    consumed: new Map(),
    unknown: [],
    fields: [],
    isCustom: false,
    isComplete: true,
  };
  visit(object, '', search);
  const { templates, composed, unknown, fields } = search;
  return { templates, composed, unknown, fields };
}

interface Search {
  readonly path: (string | number)[];
  readonly templates: FieldPath[];
  /**
   * The paths of each template. YAML aliases can give a template several paths. The key is the template rather than a
   * path, because the text of a path may be very long.
   */
  readonly found: Map<object, readonly FieldPath[]>;
  readonly composed: ComposedPod[];
  /** Fields that are parts of composed pods, by the object that contains them. */
  readonly consumed: Map<object, Set<string>>;
  readonly unknown: FieldPath[];
  readonly fields: FieldPath[];
  /** True while the search is in a custom resource. The fields of other objects are known. */
  isCustom: boolean;
  /** False once the search has stopped at a limit. */
  isComplete: boolean;
}

/**
 * Search limits, which are necessary because users control the size and depth of an object. Real objects are far below
 * both limits.
 */
const MAX_DEPTH = 100;
const MAX_PATHS = 1000;

/** Groups and kinds that contain patterns, schemas or copies of pods, but do not create pods. */
const WITHOUT_PODS: ReadonlySet<string> = new Set([
  'ControllerRevision.apps',
  'PodSecurityPolicyTemplate.management.cattle.io',
  'apiextensions.k8s.io',
  'config.portcullis.dev',
  'constraints.gatekeeper.sh',
  'imagepolicy.k8s.io',
  'kind.x-k8s.io',
  'kubeadm.k8s.io',
  'kustomize.config.k8s.io',
  'kyverno.io',
  'mutations.gatekeeper.sh',
  'pod-security.admission.config.k8s.io',
  'policies.kubewarden.io',
  'policies.kyverno.io',
  'policy.portcullis.dev',
  'security.openshift.io',
  'templates.gatekeeper.sh',
]);

/** Members from which no pods are created, such as metadata, observed state and schemas. */
const IGNORED_MEMBERS: ReadonlySet<string> = new Set(['metadata', 'status', 'openAPIV3Schema']);

/** Visits the value at the current path. The search does not descend into templates and containers. */
function visit(value: object, name: string, search: Search): void {
  if (!search.isComplete) return;
  if (search.path.length > MAX_DEPTH || isFull(search)) end(search, search.path);
  else if (Array.isArray(value)) visitList(value, name, search);
  else visitObject(value as JsonObject, name, search);
}

function isFull({ templates, composed, unknown, fields }: Search): boolean {
  return templates.length + composed.length + unknown.length + fields.length >= MAX_PATHS;
}

/** Stops the search at a field that exceeds a limit. */
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
  if (known.pods) addComposed(search, value, known.pods);
  const before = search.isCustom;
  search.isCustom = known.isCustom ?? before;
  if (isTemplate(value, name)) addTemplate(search, [...path], value);
  else if (isContainer(value, name) && /^script$|container$/i.test(name)) unknown.push([...path]);
  else visitMembers(value, search);
  search.isCustom = before;
}

function visitMembers(value: JsonObject, search: Search): void {
  const { path, fields, consumed } = search;
  const own = consumed.get(value);
  for (const [key, member] of Object.entries(value)) {
    if (IGNORED_MEMBERS.has(key) || own?.has(key)) continue;
    if (!search.isCustom || !isSecurityField(value, key)) visitMember(member, key, key, search);
    else if (isFull(search)) end(search, [...path, key]);
    else fields.push([...path, key]);
  }
}

/** Adds the composed pods of the custom resource at the current path. */
function addComposed(search: Search, object: JsonObject, maps: readonly PodFieldMap[]): void {
  const { path, composed, consumed } = search;
  const prefix = [...path];
  const pods = composePods(object, maps, (parent, field) => {
    const fields = consumed.get(parent) ?? new Set();
    consumed.set(parent, fields.add(field));
  });
  for (const { path: below, pod, sourcePath } of pods) {
    if (isFull(search)) {
      end(search, [...prefix, ...below]);
      return;
    }
    composed.push({ path: [...prefix, ...below], pod, sourcePath: (field) => [...prefix, ...sourcePath(field)] });
  }
}

/**
 * Visits a member or list item. `name` is the name of the nearest member. For list items, it is the name of the list.
 */
function visitMember(member: unknown, step: string | number, name: string, search: Search): void {
  if (typeof member !== 'object' || member === null) return;
  search.path.push(step);
  visit(member, name, search);
  search.path.pop();
}

/** Adds a template unless it has already been found at this path. The template of a built-in kind may be absent. */
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
  return paths.some((other) => other.length === path.length && other.every((step, index) => step === path[index]));
}

interface KnownTemplates {
  readonly paths: readonly FieldPath[];
  readonly pods?: readonly PodFieldMap[] | undefined;
  /** True if objects of this kind cannot contain other templates. */
  readonly isComplete: boolean;
  /** True for custom resources. Absent for objects without a kind. */
  readonly isCustom?: boolean;
}

const NOT_KNOWN: KnownTemplates = { paths: [], isComplete: false };

/** Returns true if the apiVersion and kind of an object determine the paths of its pod templates. */
export function hasKnownTemplates(object: JsonObject): boolean {
  return knownTemplates(object).paths.length > 0;
}

/** Returns the templates of an object based on its apiVersion and kind. */
function knownTemplates(object: JsonObject): KnownTemplates {
  const { apiVersion, kind } = object;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return NOT_KNOWN;
  const group = apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));
  const path = group === '' && kind === 'Pod' ? [] : podTemplatePath(group, kind);
  if (path !== undefined) return { paths: [path], isComplete: true };
  const name = `${kind}.${group}`;
  if (WITHOUT_PODS.has(name) || WITHOUT_PODS.has(group)) return { paths: [], isComplete: true };
  const { templates = [], pods }: CustomKind = (Object.hasOwn(CUSTOM_KINDS, name) && CUSTOM_KINDS[name]) || {};
  const paths = templates.flatMap((pattern) => findPaths(object, pattern));
  return { paths, pods, isComplete: false, isCustom: group.includes('.') };
}

/** Fields that only pod specs set to true. */
const HOST_FIELDS = ['hostNetwork', 'hostPID', 'hostIPC'] as const;

/**
 * Returns true if the name and shape identify a pod template. The name is `podTemplate`, or it is `template` and the
 * spec has containers or host namespaces.
 */
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

/** Container fields that are rare in similar structures outside pods. */
const CONTAINER_FIELDS = ['args', 'command', 'env', 'envFrom', 'script', 'securityContext', 'volumeMounts'] as const;

/**
 * Returns true for an object that has the shape of a container. It has an image, or it has a name and is in a list such
 * as `containers`.
 */
function isContainer(value: unknown, name: string): boolean {
  if (!isObject(value)) return false;
  const isInList = CONTAINER_LISTS.some((list) => list === name);
  if (isInList && typeof value['image'] === 'string') return true;
  const isNamed = typeof value[isInList ? 'name' : 'image'] === 'string';
  return isNamed && CONTAINER_FIELDS.some((field) => value[field] !== undefined);
}

// Security fields

/** Returns true for `true`, for text that may become `true`, and for objects that are enabled. */
function isOn(value: unknown): boolean {
  if (isObject(value)) return value['enabled'] === true;
  return value === true || (typeof value === 'string' && /^(?:true|yes|on)$|[$%]|\{\{/i.test(value));
}

function isOff(value: unknown): boolean {
  return value === false || (typeof value === 'string' && /^(?:false|no|off)$|[$%]|\{\{/i.test(value));
}

function isSet(value: unknown): boolean {
  if (typeof value === 'object') return Object.values(value ?? {}).some((member) => member != null);
  return typeof value === 'string' && value !== '';
}

function isNumber(value: unknown, test: (number: number) => boolean): boolean {
  return (typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value))) && test(Number(value));
}

/**
 * Matches capability names such as `SYS_ADMIN` and `CAP_CHOWN`. Lists of other kinds of capabilities contain other
 * words.
 */
const CAPABILITY =
  /^(?:CAP_\w+|ALL|[A-Z]+_[A-Z_]+|CHOWN|FOWNER|FSETID|KILL|MKNOD|SETGID|SETUID|SETFCAP|SETPCAP|LEASE)$/;

function isCapabilities(value: unknown): boolean {
  const isName = (item: unknown): boolean => typeof item === 'string' && CAPABILITY.test(item);
  const lists = isObject(value) ? [value['add'], value['drop']] : [value];
  return lists.some((list) => Array.isArray(list) && list.some(isName));
}

function isUnconfined(value: unknown): boolean {
  const type = isObject(value) ? value['type'] : value;
  return typeof type === 'string' && /^unconfined$/i.test(type);
}

function isSysctls(value: unknown): boolean {
  return Array.isArray(value) && value.some((item) => isObject(item) && typeof item['name'] === 'string');
}

/** Returns true for a textual patch of the pod spec that contains security fields. */
function isSecurityPatch(value: unknown): boolean {
  const names = /host(?:IPC|Network|PID|Path|Port|Users)|privileged|securityContext|PrivilegeEscalation/;
  return typeof value === 'string' && names.test(value);
}

/**
 * Functions that return true for values that can weaken a pod, by field name. A value such as `hostNetwork: false` is
 * not reported.
 */
const TESTS: Readonly<Record<string, (value: unknown) => boolean>> = {
  allowPrivilegeEscalation: isOn,
  appArmorProfile: isUnconfined,
  capabilities: isCapabilities,
  hostIPC: isOn,
  hostNetwork: isOn,
  hostPID: isOn,
  hostPath: isSet,
  hostPort: (value) => isNumber(value, (port) => port > 0),
  hostProcess: isOn,
  podSpecPatch: isSecurityPatch,
  privileged: isOn,
  procMount: (value) => value === 'Unmasked',
  runAsNonRoot: isOff,
  runAsUser: (value) => isNumber(value, (user) => user === 0),
  seLinuxOptions: isSet,
  seccompProfile: isUnconfined,
  sysctls: isSysctls,
};

/** Returns true for a field that probably configures the security of a pod. */
function isSecurityField(owner: JsonObject, name: string): boolean {
  const value = owner[name];
  // The object describes a mount of a node that runs in a container, such as a kind node.
  if (name === 'hostPath' && owner['containerPath'] !== undefined) return false;
  if (/securityContext$/i.test(name)) return isSet(value);
  return Object.hasOwn(TESTS, name) && (TESTS[name]?.(value) ?? false);
}
