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
  forbiddenField,
  invalidValue,
  notFound,
  notSupported,
  requiredField,
  tooLong,
} from './field-error.ts';
import { isEmptySelector, matchesLabelSelector } from './label-selector.ts';
import { LIMITS } from './limits.ts';
import { dnsLabelErrors, dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from './names.ts';
import { quote, truncate } from './text.ts';
import { isObject, type JsonObject, objectMember, ownMember, valueAt } from './types.ts';
import { parseQuantity } from './units.ts';

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

/** Types of volumes, in the order in which API servers read them. */
const VOLUME_TYPES =
  'emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image'.split(
    ' ',
  );

/** Required field of types of volumes. */
const SOURCES: Readonly<Record<string, string>> = {
  hostPath: 'path',
  secret: 'secretName',
  configMap: 'name',
  persistentVolumeClaim: 'claimName',
};

function volumeErrors([volume, path]: Item): FieldError[] {
  const [first = '', ...others] = VOLUME_TYPES.filter((type) => isObject(volume[type]));
  const required = SOURCES[first];
  return [
    ...(required === undefined ? [] : missingFields([objectMember(volume, first), `${path}.${first}`], [required])),
    ...others.map((type) => forbiddenField(`${path}.${type}`, 'may not specify more than 1 volume type')),
  ];
}

/** Validates a number, unless it is absent or 0. */
function rangeErrors(value: unknown, path: string, min: number, max: number): FieldError[] {
  if (typeof value !== 'number' || value === 0 || (value >= min && value <= max)) return [];
  return [invalidValue(path, value, `must be between ${min} and ${max}, inclusive`)];
}

const MAX_ID = 2 ** 31 - 1;

/** Validates the security context of a pod or container, with the IDs in the given fields. */
function securityContextErrors([owner, ownerPath]: Item, ids: readonly string[]): FieldError[] {
  const context = objectMember(owner, 'securityContext');
  const path = `${ownerPath}.securityContext`;
  const { add } = objectMember(context, 'capabilities');
  const escalations = [
    ...(context['privileged'] === true ? ['`privileged` to true'] : []),
    ...(Array.isArray(add) && add.includes('CAP_SYS_ADMIN') ? ['`capabilities.Add` CAP_SYS_ADMIN'] : []),
  ];
  return [
    ...ids.flatMap((id) => rangeErrors(context[id], `${path}.${id}`, 0, MAX_ID)),
    ...(context['allowPrivilegeEscalation'] === false ? escalations : []).map((escalation) =>
      invalidValue(path, context, `cannot set \`allowPrivilegeEscalation\` to false and ${escalation}`),
    ),
    ...profileErrors(context, path),
  ];
}

/** Returns the text of a quantity. Go decodes null as 0. */
function quantityText(quantity: unknown): string {
  return typeof quantity === 'number' ? String(quantity) : textOf(quantity) || '0';
}

/** Validates that requests do not exceed limits. Only the built-in resources can be overcommitted. */
function resourceErrors([container, containerPath]: Item): FieldError[] {
  const resources = objectMember(container, 'resources');
  const path = `${containerPath}.resources`;
  const limits = objectMember(resources, 'limits');
  return Object.entries(objectMember(resources, 'requests')).flatMap(([name, request]) => {
    const limit = ownMember(limits, name);
    const isFixed = (name.includes('/') && !name.includes('kubernetes.io/')) || name.startsWith('hugepages-');
    if (limit === undefined) {
      return isFixed ? [requiredField(`${path}.limits`, 'Limit must be set for non overcommitable resources')] : [];
    }
    const [requested, allowed] = [parseQuantity(quantityText(request)), parseQuantity(quantityText(limit))];
    // Rounding can change the last digits of equal quantities.
    const tolerance = Math.abs(allowed) * 1e-9;
    const isInvalid = isFixed ? Math.abs(requested - allowed) > tolerance : requested > allowed + tolerance;
    const rule = `must be ${isFixed ? '' : 'less than or '}equal to ${name} limit of ${quantityText(limit)}`;
    return isInvalid ? [invalidValue(`${path}.requests`, quantityText(request), rule)] : [];
  });
}

const PROFILE_TYPES: readonly string[] = ['Localhost', 'RuntimeDefault', 'Unconfined'];

/** Validates the seccomp and AppArmor profiles of a security context. */
function profileErrors(context: JsonObject, contextPath: string): FieldError[] {
  return (['seccompProfile', 'appArmorProfile'] as const).flatMap((name) => {
    const profile = context[name];
    if (!isObject(profile)) return [];
    const path = `${contextPath}.${name}`;
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
  const { supplementalGroups } = objectMember(spec, 'securityContext');
  const groups = Array.isArray(supplementalGroups) ? (supplementalGroups as readonly unknown[]) : [];
  return [
    ...itemNameErrors(volumes),
    ...volumes.flatMap(volumeErrors),
    ...securityContextErrors([spec, path], ['fsGroup', 'runAsGroup', 'runAsUser']),
    ...groups.flatMap((id, index) =>
      rangeErrors(id, `${path}.securityContext.supplementalGroups[${index}]`, 0, MAX_ID),
    ),
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
    ...securityContextErrors([container, path], ['runAsGroup', 'runAsUser']),
    ...resourceErrors([container, path]),
    ...(image === image.trim()
      ? []
      : [invalidValue(`${path}.image`, image, 'must not have leading or trailing whitespace')]),
    ...missing('ports', ['containerPort']),
    ...itemsOf(container, 'ports', path).flatMap(([port, portPath]) =>
      ['containerPort', 'hostPort'].flatMap((field) => rangeErrors(port[field], `${portPath}.${field}`, 1, 65_535)),
    ),
    ...missing('env', ['name']),
    ...missing('volumeMounts', ['name', 'mountPath']),
    ...itemsOf(container, 'volumeMounts', path)
      .filter(([{ name }]) => textOf(name) !== '' && !volumes.has(name))
      .map(([{ name }, mount]) => ({ ...notFound(`${mount}.name`, name), compared: volumes })),
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

const MISMATCH = '`selector` does not match template `labels`';

/** Validates the pod template of a workload whose pods always restart, and that the selector matches its labels. */
function restartedErrors(spec: JsonObject, selector: unknown): FieldError[] {
  const path = 'spec.template';
  const labels = valueAt(spec, ['template', 'metadata', 'labels']) ?? null;
  const policy = textOf(valueAt(spec, ['template', 'spec', 'restartPolicy']));
  const claims = itemsOf(spec, 'volumeClaimTemplates', '').map(([claim]) => objectMember(claim, 'metadata')['name']);
  return [
    ...(matchesLabelSelector(selector, isObject(labels) ? (labels as Labels) : {})
      ? []
      : [{ ...invalidValue(`${path}.metadata.labels`, labels, MISMATCH), compared: selector }]),
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

/** The value of a field that is missing or invalid, by the name of the field. */
const VALUES: Readonly<Record<string, string>> = {
  image: 'the name of an image',
  localhostProfile: 'a profile on the node',
  path: 'a path on the node',
  schedule: 'a schedule in cron format, such as "0 3 * * *"',
  selector: 'the labels of the pod template',
  type: 'RuntimeDefault, Localhost or Unconfined',
};

/** Fixes by the path, type and detail of an error. */
const FIXES: readonly (readonly [error: RegExp, fix: string])[] = [
  [/^(\S+\.containers) FieldValueRequired .*$/, 'Add at least one container to $1.'],
  [/^(\S+) FieldValueDuplicate .*$/, 'Use another name in $1.'],
  [/^(\S+) FieldValueNotFound .*$/, 'Add the volume to the pod, or correct $1.'],
  [/^(\S+) \w+ must be between (\d+) and (\d+), .*$/, 'Set $1 to a number from $2 to $3.'],
  [/^(\S+) \w+ \w+ values: ("\w+")$/, 'Set $1 to $2.'],
  [/^(\S+) \w+ \w+ values: (.*), ("\w+")$/, 'Set $1 to $2 or $3.'],
  [/^(\S+) \w+ must not have leading .*$/, 'Remove the whitespace from $1.'],
  [/^((\S+)\.localhostProfile) \w+ can only be set .*$/, 'Remove $1, or set $2.type to Localhost.'],
  [/^(\S+) \w+ may not specify .*$/, 'Remove $1 or the other source of the volume.'],
  [/^(\S+) \w+ cannot set .* true$/, 'Remove $1.privileged, or set $1.allowPrivilegeEscalation to true.'],
  [/^(\S+) \w+ cannot set .* CAP_SYS_ADMIN$/, 'Remove $1.allowPrivilegeEscalation or the capability CAP_SYS_ADMIN.'],
  [/^(\S+)\.requests \w+ must be less .*$/, 'Reduce the request in $1.requests, or increase the limit in $1.limits.'],
  [/^(\S+)\.\w+ \w+ (?:must be equal|Limit must) .*$/, 'Set equal values in $1.requests and $1.limits.'],
];

/** Returns one sentence that describes how to correct the field of an error. */
export function describeFix({ type, path, value, detail, compared }: FieldError): string {
  if (detail === MISMATCH && isObject(compared) && !isEmptySelector(compared)) {
    const required = Object.entries(objectMember(compared, 'matchLabels'));
    const missing = required.filter(([key, label]) => !isObject(value) || ownMember(value, key) !== label);
    const labels = truncate(missing.map(([key, label]) => `${key}=${String(label)}`).join(', '));
    return labels === ''
      ? `Change ${path} or spec.selector, so the selector matches the labels.`
      : `Add ${labels} to ${path}, or correct spec.selector.`;
  }
  const field = detail === MISMATCH ? 'spec.selector' : path;
  const text = `${field} ${type} ${detail}`;
  const fix = FIXES.find(([pattern]) => pattern.test(text));
  if (fix) return text.replace(...fix);
  const name = field.slice(field.lastIndexOf('.') + 1);
  const known = VALUES[name];
  if (known !== undefined || type === 'FieldValueRequired') {
    return known === undefined ? `Set ${field}.` : `Set ${field} to ${known}.`;
  }
  if (typeof value !== 'string') return `Correct ${field}.`;
  if (!/name$/i.test(name)) return `Correct ${quote(truncate(value))} in ${field}.`;
  const valid = value
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replaceAll(/^-|-$/g, '');
  return valid === '' ? `Use another name in ${field}.` : `Use another name in ${field}, such as ${quote(valid)}.`;
}
