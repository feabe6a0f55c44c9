/**
 * Validates objects of built-in kinds as API servers do. Covers only the rules that manifests are likely to violate,
 * such as required fields.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/apis/core/validation/validation.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/apis/apps/validation/validation.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/apis/batch/validation/validation.go
 */
import { withApiDefaults } from './defaults.ts';
import {
  duplicateValue,
  type FieldError,
  invalidValue,
  notFound,
  notSupported,
  requiredField,
  tooLong,
} from './field-error.ts';
import { isEmptySelector, matchesLabelSelector } from './label-selector.ts';
import { LIMITS } from './limits.ts';
import { dnsLabelErrors, dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from './names.ts';
import { isObject, type JsonObject, objectMember, valueAt } from './types.ts';

/** Validates a name. Returns the API server's error messages. */
export type NameRule = (name: string) => readonly string[];

/**
 * Validates the name of a new object.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.0/pkg/api/validation/objectmeta.go
 */
export function nameErrors(metadata: JsonObject, rule: NameRule): FieldError[] {
  const [name, generateName] = [textOf(metadata['name']), textOf(metadata['generateName'])];
  // A prefix may end with a dash, because the generated suffix follows.
  const prefix = generateName.replace(/-$/, 'a');
  if (name === '' && prefix === '') return [requiredField('metadata.name', 'name or generateName is required')];
  return [
    ...(prefix === '' ? [] : rule(prefix).map((error) => invalidValue('metadata.generateName', generateName, error))),
    ...(name === '' ? [] : rule(name).map((error) => invalidValue('metadata.name', name, error))),
  ];
}

/** Validates the labels and annotations of an object. */
export function metadataMapErrors(metadata: JsonObject): FieldError[] {
  return [
    ...labelErrors(objectMember(metadata, 'labels'), 'metadata.labels'),
    ...annotationErrors(objectMember(metadata, 'annotations'), 'metadata.annotations'),
  ];
}

function labelErrors(labels: JsonObject, path: string): FieldError[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...labelKeyErrors(key).map((error) => invalidValue(path, key, error)),
    ...labelValueErrors(textOf(value)).map((error) => invalidValue(path, value, error)),
  ]);
}

/** Validates annotations, whose keys are case-insensitive. */
function annotationErrors(annotations: JsonObject, path: string): FieldError[] {
  const encoder = new TextEncoder();
  const entries = Object.entries(annotations);
  const bytes = entries.reduce((sum, [key, value]) => sum + encoder.encode(key + textOf(value)).length, 0);
  return [
    ...entries.flatMap(([key]) => labelKeyErrors(key.toLowerCase()).map((error) => invalidValue(path, key, error))),
    ...(bytes <= LIMITS.annotationBytes ? [] : [tooLong(path, LIMITS.annotationBytes)]),
  ];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** An object in a list, and its path. */
type Item = readonly [item: JsonObject, path: string];

/** Returns the items of a list. Go decodes null as an empty object. */
function itemsOf(owner: JsonObject, list: string, path: string): readonly Item[] {
  const value = owner[list];
  if (!Array.isArray(value)) return [];
  return value.map((item: unknown, index) => [isObject(item) ? item : {}, `${path}.${list}[${index}]`]);
}

function missingFields([item, path]: Item, fields: readonly string[]): FieldError[] {
  return fields
    .filter((field) => item[field] == null || item[field] === '' || item[field] === 0)
    .map((field) => requiredField(`${path}.${field}`, ''));
}

/** Validates the names of containers or volumes, which must be unique. */
function itemNameErrors(items: readonly Item[]): FieldError[] {
  const seen = new Set<string>();
  return items.flatMap(([item, path]) => {
    const name = textOf(item['name']);
    if (name === '') return [requiredField(`${path}.name`, '')];
    const isTaken = seen.has(name);
    seen.add(name);
    return isTaken
      ? [duplicateValue(`${path}.name`, name)]
      : dnsLabelErrors(name).map((error) => invalidValue(`${path}.name`, name, error));
  });
}

/** Required field of each type of volume. */
const SOURCES: Readonly<Record<string, string>> = {
  hostPath: 'path',
  secret: 'secretName',
  configMap: 'name',
  persistentVolumeClaim: 'claimName',
};

function volumeErrors([volume, path]: Item): FieldError[] {
  return Object.entries(SOURCES).flatMap(([type, field]) => {
    const source = volume[type];
    return isObject(source) ? missingFields([source, `${path}.${type}`], [field]) : [];
  });
}

const PROFILE_TYPES: readonly string[] = ['Localhost', 'RuntimeDefault', 'Unconfined'];

/** Validates the seccomp and AppArmor profiles of a pod or container. */
function profileErrors([owner, ownerPath]: Item): FieldError[] {
  const context = objectMember(owner, 'securityContext');
  return (['seccompProfile', 'appArmorProfile'] as const).flatMap((name) => {
    const profile = context[name];
    if (!isObject(profile)) return [];
    const path = `${ownerPath}.securityContext.${name}`;
    const { type, localhostProfile: file } = profile;
    const product = name === 'seccompProfile' ? 'seccomp' : 'AppArmor';
    if (type == null || type === '') return [requiredField(`${path}.type`, `type is required when ${name} is set`)];
    if (type === 'Localhost') {
      // An empty `localhostProfile` is a valid relative path for seccomp.
      const isMissing = file == null || (file === '' && product === 'AppArmor');
      return isMissing
        ? [requiredField(`${path}.localhostProfile`, `must be set when ${product} type is Localhost`)]
        : [];
    }
    if (!PROFILE_TYPES.includes(textOf(type))) return [notSupported(`${path}.type`, type, PROFILE_TYPES)];
    if (file == null) return [];
    const value = product === 'AppArmor' ? file : { Type: type, LocalhostProfile: file };
    return [invalidValue(`${path}.localhostProfile`, value, `can only be set when ${product} type is Localhost`)];
  });
}

const RESTART_POLICIES: readonly string[] = ['Always', 'OnFailure', 'Never'];

/**
 * Validates a pod spec.
 * @param claims names of the volumes that the StatefulSet controller adds
 */
function podSpecErrors(spec: JsonObject, path: string, claims: readonly unknown[] = []): FieldError[] {
  const volumes = itemsOf(spec, 'volumes', path);
  const names = new Set([...claims, ...volumes.map(([{ name }]) => name)]);
  const containers = ['containers', 'initContainers', 'ephemeralContainers'].flatMap((list) =>
    itemsOf(spec, list, path),
  );
  const policy = textOf(spec['restartPolicy']);
  return [
    ...itemNameErrors(volumes),
    ...volumes.flatMap(volumeErrors),
    ...profileErrors([spec, path]),
    ...(itemsOf(spec, 'containers', path).length === 0 ? [requiredField(`${path}.containers`, '')] : []),
    ...itemNameErrors(containers),
    ...containers.flatMap((container) => containerErrors(container, names)),
    ...(RESTART_POLICIES.includes(policy) ? [] : [notSupported(`${path}.restartPolicy`, policy, RESTART_POLICIES)]),
  ];
}

function containerErrors([container, path]: Item, volumes: ReadonlySet<unknown>): FieldError[] {
  const image = textOf(container['image']);
  const missing = (list: string, fields: readonly string[]): FieldError[] =>
    itemsOf(container, list, path).flatMap((item) => missingFields(item, fields));
  return [
    ...missingFields([container, path], ['image']),
    ...profileErrors([container, path]),
    ...(image === image.trim()
      ? []
      : [invalidValue(`${path}.image`, image, 'must not have leading or trailing whitespace')]),
    ...missing('ports', ['containerPort']),
    ...missing('env', ['name']),
    ...missing('volumeMounts', ['name', 'mountPath']),
    ...itemsOf(container, 'volumeMounts', path)
      .filter(([{ name }]) => textOf(name) !== '' && !volumes.has(name))
      .map(([{ name }, mount]) => notFound(`${mount}.name`, name)),
  ];
}

function templateErrors(owner: JsonObject, path: string, claims: readonly unknown[] = []): FieldError[] {
  const template = objectMember(owner, 'template');
  const labels = objectMember(objectMember(template, 'metadata'), 'labels');
  return [
    ...labelErrors(labels, `${path}.labels`),
    ...podSpecErrors(objectMember(template, 'spec'), `${path}.spec`, claims),
  ];
}

/** Validates the pod template of a workload whose pods always restart, and that the selector matches its labels. */
function restartedErrors(spec: JsonObject, selector: unknown): FieldError[] {
  const path = 'spec.template';
  const labels = valueAt(spec, ['template', 'metadata', 'labels']) ?? null;
  const policy = textOf(valueAt(spec, ['template', 'spec', 'restartPolicy']));
  const claims = itemsOf(spec, 'volumeClaimTemplates', '').map(([claim]) => objectMember(claim, 'metadata')['name']);
  return [
    ...(matchesLabelSelector(selector, isObject(labels) ? (labels as Labels) : {})
      ? []
      : [invalidValue(`${path}.metadata.labels`, labels, '`selector` does not match template `labels`')]),
    ...templateErrors(spec, path, claims),
    ...(policy === 'Always' ? [] : [notSupported(`${path}.spec.restartPolicy`, policy, ['Always'])]),
  ];
}

type Labels = Readonly<Record<string, string>>;

function workloadErrors({ kind, spec: value }: JsonObject): FieldError[] {
  const spec = isObject(value) ? value : {};
  const { selector } = spec;
  // Upstream uses the message for Deployments also for ReplicaSets.
  const name = kind === 'ReplicaSet' ? 'deployment' : String(kind).toLowerCase();
  if (isObject(selector) && isEmptySelector(selector)) {
    return [
      invalidValue('spec.selector', selector, `empty selector is invalid for ${name}`),
      ...restartedErrors(spec, selector),
    ];
  }
  // If a DaemonSet has no selector, API servers report only that the selector does not match.
  const isMissing = selector == null && kind !== 'DaemonSet';
  return [...(isMissing ? [requiredField('spec.selector', '')] : []), ...restartedErrors(spec, selector)];
}

function replicationControllerErrors({ spec: value }: JsonObject): FieldError[] {
  const spec = isObject(value) ? value : {};
  const matchLabels = objectMember(spec, 'selector');
  const isEmpty = Object.keys(matchLabels).length === 0;
  return [
    ...(isEmpty ? [requiredField('spec.selector', '')] : []),
    ...(isObject(spec['template']) ? restartedErrors(spec, { matchLabels }) : [requiredField('spec.template', '')]),
  ];
}

function jobSpecErrors(spec: JsonObject, path: string): FieldError[] {
  const policy = textOf(valueAt(spec, ['template', 'spec', 'restartPolicy']));
  const isMissing = policy === 'Always' || policy === '';
  return [
    ...templateErrors(spec, `${path}.template`),
    ...(isMissing ? [requiredField(`${path}.template.spec.restartPolicy`, 'valid values: "OnFailure", "Never"')] : []),
  ];
}

function cronJobErrors(cronJob: JsonObject): FieldError[] {
  const spec = objectMember(cronJob, 'spec');
  return [
    ...jobSpecErrors(objectMember(objectMember(spec, 'jobTemplate'), 'spec'), 'spec.jobTemplate.spec'),
    ...missingFields([spec, 'spec'], ['schedule']),
  ];
}

type Validate = (object: JsonObject) => FieldError[];

const KINDS: Readonly<Record<string, Validate>> = {
  'apps/v1 DaemonSet': workloadErrors,
  'apps/v1 Deployment': workloadErrors,
  'apps/v1 ReplicaSet': workloadErrors,
  'apps/v1 StatefulSet': workloadErrors,
  'batch/v1 CronJob': cronJobErrors,
  'batch/v1 Job': (job) => jobSpecErrors(objectMember(job, 'spec'), 'spec'),
  'v1 Pod': (pod) => podSpecErrors(objectMember(pod, 'spec'), 'spec'),
  'v1 PodTemplate': (object) => templateErrors(object, 'template'),
  'v1 ReplicationController': replicationControllerErrors,
};

/** Validates the pods of a built-in object after API server defaulting. Returns no errors for other kinds. */
export function podErrors(object: JsonObject): FieldError[] {
  return KINDS[kindKey(object)]?.(object) ?? [];
}

function kindKey({ apiVersion, kind }: JsonObject): string {
  return `${String(apiVersion)} ${String(kind)}`;
}

/** Name rules of kinds whose names need not be DNS subdomains. */
const NAME_RULES: Readonly<Record<string, NameRule>> = { 'v1 Namespace': dnsLabelErrors, 'v1 Service': dnsLabelErrors };

/** API groups whose objects are requests, which need no name. */
const REQUEST = /^authentication\.|^authorization\./;

/**
 * Sets the defaults of a new object of a built-in kind and validates it. Validates the format of names only for
 * Namespaces, Services and kinds with pods, because other kinds have other rules.
 */
export function manifestErrors(object: JsonObject): FieldError[] {
  const key = kindKey(object);
  const metadata = objectMember(object, 'metadata');
  const rule = NAME_RULES[key] ?? (Object.hasOwn(KINDS, key) ? dnsSubdomainErrors : () => []);
  const named = REQUEST.test(key) ? [] : nameErrors(metadata, rule);
  return [...named, ...metadataMapErrors(metadata), ...podErrors(withApiDefaults(object))];
}
