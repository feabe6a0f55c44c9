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

/** A field error of the API server with a fix. */
interface InvalidField extends FieldError {
  /** A sentence that explains how to correct the field. */
  readonly fix: string;
  /** The value that the invalid value was compared with. It is never printed. */
  readonly compared?: unknown;
}

/** Validates a name. Returns the API server's error messages. */
export type NameRule = (name: string) => readonly string[];

/**
 * Validates the name of a new object.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.0/pkg/api/validation/objectmeta.go
 */
export function nameErrors(metadata: JsonObject, rule: NameRule): InvalidField[] {
  const [name, generateName] = [textOf(metadata['name']), textOf(metadata['generateName'])];
  // A prefix may end with a dash, because the generated suffix follows it.
  const prefix = generateName.replace(/-$/, 'a');
  if (name === '' && prefix === '') return [missingField('metadata.name', 'name or generateName is required')];
  return [
    ...(prefix === '' ? [] : rule(prefix).map((error) => invalidName('metadata.generateName', generateName, error))),
    ...(name === '' ? [] : rule(name).map((error) => invalidName('metadata.name', name, error))),
  ];
}

/** Validates the labels and annotations of an object. */
export function metadataMapErrors(metadata: JsonObject): InvalidField[] {
  return [
    ...labelErrors(objectMember(metadata, 'labels'), 'metadata.labels'),
    ...annotationErrors(objectMember(metadata, 'annotations'), 'metadata.annotations'),
  ];
}

/** Validates labels. API servers omit `metadata` from the paths of template labels, but the fixes include it. */
function labelErrors(labels: JsonObject, path: string, field = path): InvalidField[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...labelKeyErrors(key).map((error) => invalidText(path, key, error, field)),
    ...labelValueErrors(textOf(value)).map((error) => invalidText(path, textOf(value), error, field)),
  ]);
}

/** Validates annotations. Their keys are case-insensitive. */
function annotationErrors(annotations: JsonObject, path: string): InvalidField[] {
  const encoder = new TextEncoder();
  const entries = Object.entries(annotations);
  const bytes = entries.reduce((sum, [key, value]) => sum + encoder.encode(key + textOf(value)).length, 0);
  return [
    ...entries.flatMap(([key]) => labelKeyErrors(key.toLowerCase()).map((error) => invalidText(path, key, error))),
    ...(bytes <= LIMITS.annotationBytes
      ? []
      : [withFix(tooLong(path, LIMITS.annotationBytes), `Remove annotations from ${path}.`)]),
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

function missingFields([item, path]: Item, fields: readonly string[]): InvalidField[] {
  return fields
    .filter((field) => item[field] == null || item[field] === '' || item[field] === 0)
    .map((field) => missingField(`${path}.${field}`));
}

/** Validates the names of containers or volumes, which must be unique. */
function itemNameErrors(items: readonly Item[]): InvalidField[] {
  const seen = new Set<string>();
  return items.flatMap(([item, path]) => {
    const name = textOf(item['name']);
    if (name === '') return [missingField(`${path}.name`)];
    const isTaken = seen.has(name);
    seen.add(name);
    return isTaken
      ? [withFix(duplicateValue(`${path}.name`, name), `Use another name in ${path}.name.`)]
      : dnsLabelErrors(name).map((error) => invalidName(`${path}.name`, name, error));
  });
}

/** Volume types in the order in which API servers read them. */
const VOLUME_TYPES =
  'emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image'.split(
    ' ',
  );

/** Required field by volume type. */
const SOURCES: Readonly<Record<string, string>> = {
  hostPath: 'path',
  secret: 'secretName',
  configMap: 'name',
  persistentVolumeClaim: 'claimName',
};

function volumeErrors([volume, path]: Item): InvalidField[] {
  const [first = '', ...others] = VOLUME_TYPES.filter((type) => isObject(volume[type]));
  const required = SOURCES[first];
  return [
    ...(required === undefined ? [] : missingFields([objectMember(volume, first), `${path}.${first}`], [required])),
    ...others.map((type) =>
      withFix(
        forbiddenField(`${path}.${type}`, 'may not specify more than 1 volume type'),
        `Remove ${path}.${type} or the other source of the volume.`,
      ),
    ),
  ];
}

/** Validates a number, unless it is absent or 0. */
function rangeErrors(value: unknown, path: string, min: number, max: number): InvalidField[] {
  if (typeof value !== 'number' || value === 0 || (value >= min && value <= max)) return [];
  const error = invalidValue(path, value, `must be between ${min} and ${max}, inclusive`);
  return [withFix(error, `Set ${path} to a number from ${min} to ${max}.`)];
}

const MAX_ID = 2 ** 31 - 1;

/** Validates the security context of a pod or container, with the IDs in the given fields. */
function securityContextErrors([owner, ownerPath]: Item, ids: readonly string[]): InvalidField[] {
  const context = objectMember(owner, 'securityContext');
  const path = `${ownerPath}.securityContext`;
  const { add } = objectMember(context, 'capabilities');
  const escalations = [
    ...(context['privileged'] === true
      ? [
          [
            '`privileged` to true',
            `Remove ${path}.privileged, or set ${path}.allowPrivilegeEscalation to true.`,
          ] as const,
        ]
      : []),
    ...(Array.isArray(add) && add.includes('CAP_SYS_ADMIN')
      ? [
          [
            '`capabilities.Add` CAP_SYS_ADMIN',
            `Remove ${path}.allowPrivilegeEscalation or the capability CAP_SYS_ADMIN.`,
          ] as const,
        ]
      : []),
  ];
  return [
    ...ids.flatMap((id) => rangeErrors(context[id], `${path}.${id}`, 0, MAX_ID)),
    ...(context['allowPrivilegeEscalation'] === false ? escalations : []).map(([escalation, fix]) =>
      withFix(invalidValue(path, context, `cannot set \`allowPrivilegeEscalation\` to false and ${escalation}`), fix),
    ),
    ...profileErrors(context, path),
  ];
}

/** Returns the text of a quantity. Go decodes null as 0. */
function quantityText(quantity: unknown): string {
  return typeof quantity === 'number' ? String(quantity) : textOf(quantity) || '0';
}

/** Validates that requests do not exceed limits. Only the built-in resources can be overcommitted. */
function resourceErrors([container, containerPath]: Item): InvalidField[] {
  const resources = objectMember(container, 'resources');
  const path = `${containerPath}.resources`;
  const limits = objectMember(resources, 'limits');
  return Object.entries(objectMember(resources, 'requests')).flatMap(([name, request]) => {
    const limit = ownMember(limits, name);
    const resource = truncate(name);
    const equalFix = `Set ${resource} to the same quantity in ${path}.requests and ${path}.limits.`;
    const lessFix = `Reduce ${resource} in ${path}.requests, or increase it in ${path}.limits.`;
    const isFixed = (name.includes('/') && !name.includes('kubernetes.io/')) || name.startsWith('hugepages-');
    if (limit === undefined) {
      const error = requiredField(`${path}.limits`, 'Limit must be set for non overcommitable resources');
      return isFixed ? [withFix(error, equalFix)] : [];
    }
    const [requested, allowed] = [parseQuantity(quantityText(request)), parseQuantity(quantityText(limit))];
    // Rounding errors can make equal quantities differ slightly.
    const tolerance = Math.abs(allowed) * 1e-9;
    const isInvalid = isFixed ? Math.abs(requested - allowed) > tolerance : requested > allowed + tolerance;
    const rule = `must be ${isFixed ? '' : 'less than or '}equal to ${name} limit of ${quantityText(limit)}`;
    const error = invalidValue(`${path}.requests`, quantityText(request), rule);
    return isInvalid ? [withFix(error, isFixed ? equalFix : lessFix)] : [];
  });
}

const PROFILE_TYPES: readonly string[] = ['Localhost', 'RuntimeDefault', 'Unconfined'];

/** Validates the seccomp and AppArmor profiles of a security context. */
function profileErrors(context: JsonObject, contextPath: string): InvalidField[] {
  return (['seccompProfile', 'appArmorProfile'] as const).flatMap((name) => {
    const profile = context[name];
    if (!isObject(profile)) return [];
    const path = `${contextPath}.${name}`;
    const { type, localhostProfile: file } = profile;
    const product = name === 'seccompProfile' ? 'seccomp' : 'AppArmor';
    if (type == null || type === '') return [missingField(`${path}.type`, `type is required when ${name} is set`)];
    if (type === 'Localhost') {
      // An empty `localhostProfile` is a valid relative path for seccomp.
      const isMissing = file == null || (file === '' && product === 'AppArmor');
      return isMissing
        ? [missingField(`${path}.localhostProfile`, `must be set when ${product} type is Localhost`)]
        : [];
    }
    if (!PROFILE_TYPES.includes(textOf(type))) return [unsupportedText(`${path}.type`, type, PROFILE_TYPES)];
    if (file == null) return [];
    const value = product === 'AppArmor' ? file : { Type: type, LocalhostProfile: file };
    const error = invalidValue(`${path}.localhostProfile`, value, `can only be set when ${product} type is Localhost`);
    return [withFix(error, `Remove ${path}.localhostProfile, or set ${path}.type to Localhost.`)];
  });
}

const RESTART_POLICIES: readonly string[] = ['Always', 'OnFailure', 'Never'];

/**
 * Validates a pod spec.
 * @param claims names of the volumes that the StatefulSet controller adds
 */
function podSpecErrors(spec: JsonObject, path: string, claims: readonly unknown[] = []): InvalidField[] {
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
    ...(itemsOf(spec, 'containers', path).length === 0
      ? [withFix(requiredField(`${path}.containers`, ''), `Add at least one container to ${path}.containers.`)]
      : []),
    ...itemNameErrors(containers),
    ...containers.flatMap((container) => containerErrors(container, names)),
    ...(RESTART_POLICIES.includes(policy) ? [] : [unsupportedText(`${path}.restartPolicy`, policy, RESTART_POLICIES)]),
  ];
}

function containerErrors([container, path]: Item, volumes: ReadonlySet<unknown>): InvalidField[] {
  const image = textOf(container['image']);
  const missing = (list: string, fields: readonly string[]): InvalidField[] =>
    itemsOf(container, list, path).flatMap((item) => missingFields(item, fields));
  return [
    ...missingFields([container, path], ['image']),
    ...securityContextErrors([container, path], ['runAsGroup', 'runAsUser']),
    ...resourceErrors([container, path]),
    ...(image === image.trim()
      ? []
      : [
          withFix(
            invalidValue(`${path}.image`, image, 'must not have leading or trailing whitespace'),
            `Remove the whitespace from ${path}.image.`,
          ),
        ]),
    ...missing('ports', ['containerPort']),
    ...itemsOf(container, 'ports', path).flatMap(([port, portPath]) =>
      ['containerPort', 'hostPort'].flatMap((field) => rangeErrors(port[field], `${portPath}.${field}`, 1, 65_535)),
    ),
    ...missing('env', ['name']),
    ...missing('volumeMounts', ['name', 'mountPath']),
    ...itemsOf(container, 'volumeMounts', path)
      .filter(([{ name }]) => textOf(name) !== '' && !volumes.has(name))
      .map(([{ name }, mount]) => ({
        ...withFix(notFound(`${mount}.name`, name), `Add the volume to the pod, or correct ${mount}.name.`),
        compared: volumes,
      })),
  ];
}

function templateErrors(owner: JsonObject, path: string, claims: readonly unknown[] = []): InvalidField[] {
  const template = objectMember(owner, 'template');
  const labels = objectMember(objectMember(template, 'metadata'), 'labels');
  return [
    ...labelErrors(labels, `${path}.labels`, `${path}.metadata.labels`),
    ...podSpecErrors(objectMember(template, 'spec'), `${path}.spec`, claims),
  ];
}

/**
 * Validates the pod template of a workload whose pods always restart. The selector must match the template's labels.
 */
function restartedErrors(spec: JsonObject, selector: unknown): InvalidField[] {
  const path = 'spec.template';
  const labels = valueAt(spec, ['template', 'metadata', 'labels']) ?? null;
  const policy = textOf(valueAt(spec, ['template', 'spec', 'restartPolicy']));
  const claims = itemsOf(spec, 'volumeClaimTemplates', '').map(([claim]) => objectMember(claim, 'metadata')['name']);
  return [
    ...(matchesLabelSelector(selector, isObject(labels) ? (labels as Labels) : {})
      ? []
      : [mismatch(`${path}.metadata.labels`, labels, selector)]),
    ...templateErrors(spec, path, claims),
    ...(policy === 'Always' ? [] : [unsupportedText(`${path}.spec.restartPolicy`, policy, ['Always'])]),
  ];
}

type Labels = Readonly<Record<string, string>>;

function workloadErrors({ kind, spec: value }: JsonObject): InvalidField[] {
  const spec = isObject(value) ? value : {};
  const { selector } = spec;
  // Upstream uses the message for Deployments for ReplicaSets as well.
  const name = kind === 'ReplicaSet' ? 'deployment' : String(kind).toLowerCase();
  if (isObject(selector) && isEmptySelector(selector)) {
    return [
      withFix(
        invalidValue('spec.selector', selector, `empty selector is invalid for ${name}`),
        missingField('spec.selector').fix,
      ),
      ...restartedErrors(spec, selector),
    ];
  }
  // If a DaemonSet has no selector, API servers report only that the selector does not match.
  const isMissing = selector == null && kind !== 'DaemonSet';
  return [...(isMissing ? [missingField('spec.selector')] : []), ...restartedErrors(spec, selector)];
}

function replicationControllerErrors({ spec: value }: JsonObject): InvalidField[] {
  const spec = isObject(value) ? value : {};
  const matchLabels = objectMember(spec, 'selector');
  const isEmpty = Object.keys(matchLabels).length === 0;
  return [
    ...(isEmpty
      ? [withFix(requiredField('spec.selector', ''), 'Set spec.selector to the labels of the pod template.')]
      : []),
    ...(isObject(spec['template']) ? restartedErrors(spec, { matchLabels }) : [missingField('spec.template')]),
  ];
}

function jobSpecErrors(spec: JsonObject, path: string): InvalidField[] {
  const policy = textOf(valueAt(spec, ['template', 'spec', 'restartPolicy']));
  const field = `${path}.template.spec.restartPolicy`;
  const error = requiredField(field, 'valid values: "OnFailure", "Never"');
  return [
    ...templateErrors(spec, `${path}.template`),
    ...(policy === 'Always' || policy === '' ? [withFix(error, `Set ${field} to "OnFailure" or "Never".`)] : []),
  ];
}

function cronJobErrors(cronJob: JsonObject): InvalidField[] {
  const spec = objectMember(cronJob, 'spec');
  return [
    ...jobSpecErrors(objectMember(objectMember(spec, 'jobTemplate'), 'spec'), 'spec.jobTemplate.spec'),
    ...missingFields([spec, 'spec'], ['schedule']),
  ];
}

type Validate = (object: JsonObject) => InvalidField[];

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

/**
 * Validates the pod or pod template of a built-in object after API server defaulting. Returns no errors for other
 * kinds.
 */
export function podErrors(object: JsonObject): InvalidField[] {
  return KINDS[kindKey(object)]?.(object) ?? [];
}

function kindKey({ apiVersion, kind }: JsonObject): string {
  return `${String(apiVersion)} ${String(kind)}`;
}

/** Name rules for kinds whose names are not DNS subdomains. */
const NAME_RULES: Readonly<Record<string, NameRule>> = { 'v1 Namespace': dnsLabelErrors, 'v1 Service': dnsLabelErrors };

/** Matches API groups whose objects are requests and need no name. */
const REQUEST = /^authentication\.|^authorization\./;

/**
 * Sets the defaults of a new object of a built-in kind and validates it. Validates the format of names only for
 * Namespaces, Services and kinds with pods, because other kinds have their own rules.
 */
export function manifestErrors(object: JsonObject): InvalidField[] {
  const key = kindKey(object);
  const metadata = objectMember(object, 'metadata');
  const rule = NAME_RULES[key] ?? (Object.hasOwn(KINDS, key) ? dnsSubdomainErrors : () => []);
  const named = REQUEST.test(key) ? [] : nameErrors(metadata, rule);
  return [...named, ...metadataMapErrors(metadata), ...podErrors(withApiDefaults(object))];
}

/** Descriptions of valid values for the fixes, by field name. */
const VALUES: Readonly<Record<string, string>> = {
  image: 'the name of an image',
  localhostProfile: 'the path or the name of a profile on the node',
  path: 'a path on the node',
  schedule: 'a schedule in cron format, such as "0 3 * * *"',
  selector: 'a selector that matches the labels of the pod template, such as matchLabels: {app: web}',
  type: 'RuntimeDefault, Localhost or Unconfined',
};

function withFix(error: FieldError, fix: string): InvalidField {
  return { ...error, fix };
}

function missingField(path: string, detail = ''): InvalidField {
  const value = VALUES[path.slice(path.lastIndexOf('.') + 1)];
  return withFix(requiredField(path, detail), value === undefined ? `Set ${path}.` : `Set ${path} to ${value}.`);
}

function unsupportedText(path: string, value: unknown, supported: readonly string[]): InvalidField {
  const others = supported.slice(0, -1).map(quote).join(', ');
  const last = quote(supported.at(-1) ?? '');
  return withFix(
    notSupported(path, value, supported),
    `Set ${path} to ${others === '' ? last : `${others} or ${last}`}.`,
  );
}

function invalidText(path: string, value: string, detail: string, field = path): InvalidField {
  return withFix(invalidValue(path, value, detail), `Correct ${quote(truncate(value))} in ${field}.`);
}

function invalidName(path: string, value: string, detail: string): InvalidField {
  const valid = value
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replaceAll(/^-|-$/g, '');
  const example = valid === '' ? '' : `, such as ${quote(valid)}`;
  return withFix(invalidValue(path, value, detail), `Use another name in ${path}${example}.`);
}

function mismatch(path: string, labels: unknown, selector: unknown): InvalidField {
  const error = invalidValue(path, labels, '`selector` does not match template `labels`');
  if (!isObject(selector) || isEmptySelector(selector)) {
    return { ...withFix(error, missingField('spec.selector').fix), compared: selector };
  }
  const missing = Object.entries(objectMember(selector, 'matchLabels')).filter(
    ([key, label]) => !isObject(labels) || ownMember(labels, key) !== label,
  );
  const text = truncate(missing.map(([key, label]) => `${key}=${String(label)}`).join(', '));
  const fix =
    text === ''
      ? `Change ${path} or spec.selector, so the selector matches the labels.`
      : `Add the ${missing.length === 1 ? 'label' : 'labels'} ${text} to ${path}, or correct spec.selector.`;
  return { ...withFix(error, fix), compared: selector };
}
