/**
 * Sets safe defaults in the security contexts of new pods, so a pod without a security context complies with the
 * restricted level. A default is set only if the field is absent. Explicit values are never changed. Each default is
 * defined in TypeScript for the webhook and for templates, and in CEL for the policy in `defaults-policy.ts`.
 */
import type { V1LabelSelector, V1LabelSelectorRequirement } from '@kubernetes/client-node';
import { celString } from '../../kube/cel.ts';
import { matchesLabelSelector } from '../../kube/label-selector.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject, type Namespace, type Wire, objectMember, withValueAt } from '../../kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../../kube/well-known.ts';
import { type ContainerFields, decodePod, type PodFields, type SecurityContextFields } from '../pod/index.ts';
import { sccMode, type SccSettings } from '../scc/index.ts';

/** Maximum number of containers in a pod that gets defaults. */
export const MAX_CONTAINERS = 500;

/** The security context fields that have a default. */
export const DEFAULT_FIELDS = ['seccompProfile', 'capabilities', 'allowPrivilegeEscalation', 'runAsNonRoot'] as const;
export type DefaultField = (typeof DEFAULT_FIELDS)[number];

export interface PodDefaults {
  readonly mode: 'off' | 'apply';
  readonly fields: readonly DefaultField[];
  /** Selects the namespaces in which the defaults apply. An empty selector matches all namespaces. */
  readonly namespaceSelector: Wire<V1LabelSelector>;
  readonly exemptNamespaces: readonly string[];
}

/** The pod defaults settings, and the SCC admission settings that exclude namespaces. */
export interface DefaultsSettings {
  readonly defaults: PodDefaults;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** A pod or one of its containers. The container fields are absent for pods. */
type Target = SecurityContextFields & Partial<Pick<ContainerFields, 'name' | 'privileged' | 'capabilities'>>;

/**
 * The default for a field. The CEL expressions read `c`, where `c.fields` is a container or the pod spec and `c.path`
 * is its JSON pointer.
 */
export interface PodDefault {
  /** Path of the value in the security context. */
  readonly path: readonly [DefaultField, ...string[]];
  readonly value: unknown;
  /** True if pods also have the field and containers inherit it. */
  readonly isInherited: boolean;
  /** Returns true if the target sets the field explicitly. */
  isSet(target: Target): boolean;
  /** Returns true if the default would be invalid or would conflict with an explicit setting of the pod. */
  isExcepted(target: Target, pod: PodFields): boolean;
  readonly cel: Readonly<Record<'isSet' | 'isExcepted', string>>;
}

export const CONTEXT = 'c.fields.?securityContext';
const POD_CONTEXT = 'object.spec.?securityContext';
const ANNOTATIONS = 'object.metadata.?annotations.orValue({})';
const IS_WINDOWS = 'object.spec.?os.?name.orValue("") == "windows"';

/** Matches capabilities that include `SYS_ADMIN`, as `ALL` does. The API server rejects only `CAP_SYS_ADMIN`. */
const SYS_ADMIN = /^(?:(?:CAP_)?SYS_ADMIN|ALL)$/i;
const ALL = /^ALL$/i;
/** Matches the Windows user that the kubelet rejects if `runAsNonRoot` is true. */
const WINDOWS_ROOT = /^ContainerAdministrator$/i;

/**
 * Returns a CEL string with a case-insensitive pattern. Node 22 does not support the `(?i:)` syntax in its own
 * patterns.
 */
function celIgnoreCase(pattern: RegExp): string {
  return celString(`(?i:${pattern.source})`);
}

function addsCapability({ capabilities }: Target, pattern: RegExp): boolean {
  return capabilities?.add.some((name) => pattern.test(name)) ?? false;
}

function celAddsCapability(pattern: RegExp): string {
  return `${CONTEXT}.?capabilities.?add.orValue([]).exists(name, name.matches(${celIgnoreCase(pattern)}))`;
}

const DEFAULTS: Readonly<Record<DefaultField, PodDefault>> = {
  seccompProfile: {
    path: ['seccompProfile'],
    value: { type: 'RuntimeDefault' },
    isInherited: true,
    isSet: ({ seccompProfile }) => seccompProfile !== undefined,
    isExcepted: ({ name = '' }, { osName, annotations }) =>
      osName === 'windows' ||
      Object.hasOwn(annotations, SECCOMP_POD_ANNOTATION) ||
      Object.hasOwn(annotations, SECCOMP_CONTAINER_ANNOTATION_PREFIX + name),
    cel: {
      isSet: `${CONTEXT}.?seccompProfile.hasValue()`,
      isExcepted: `${IS_WINDOWS} || ${celString(SECCOMP_POD_ANNOTATION)} in ${ANNOTATIONS} || (${celString(SECCOMP_CONTAINER_ANNOTATION_PREFIX)} + c.fields.?name.orValue("")) in ${ANNOTATIONS}`,
    },
  },
  capabilities: {
    path: ['capabilities', 'drop'],
    value: ['ALL'],
    isInherited: false,
    isSet: ({ capabilities }) => capabilities !== undefined && capabilities.drop.length > 0,
    isExcepted: (target, { osName }) => osName === 'windows' || addsCapability(target, ALL),
    cel: {
      isSet: `${CONTEXT}.?capabilities.?drop.orValue([]) != []`,
      isExcepted: `${IS_WINDOWS} || ${celAddsCapability(ALL)}`,
    },
  },
  allowPrivilegeEscalation: {
    path: ['allowPrivilegeEscalation'],
    value: false,
    isInherited: false,
    isSet: ({ allowPrivilegeEscalation }: Partial<ContainerFields>) => allowPrivilegeEscalation !== undefined,
    isExcepted: (target, { osName }) => osName === 'windows' || addsCapability(target, SYS_ADMIN),
    cel: {
      isSet: `${CONTEXT}.?allowPrivilegeEscalation.hasValue()`,
      isExcepted: `${IS_WINDOWS} || ${celAddsCapability(SYS_ADMIN)}`,
    },
  },
  runAsNonRoot: {
    path: ['runAsNonRoot'],
    value: true,
    isInherited: true,
    isSet: ({ runAsNonRoot }) => runAsNonRoot !== undefined,
    isExcepted: ({ runAsUser, userName }, pod) =>
      (runAsUser ?? pod.runAsUser) === 0 || WINDOWS_ROOT.test(userName ?? pod.userName ?? ''),
    cel: {
      isSet: `${CONTEXT}.?runAsNonRoot.hasValue()`,
      isExcepted: `${CONTEXT}.?runAsUser.or(${POD_CONTEXT}.?runAsUser).orValue(1) == 0 || ${CONTEXT}.?windowsOptions.?runAsUserName.or(${POD_CONTEXT}.?windowsOptions.?runAsUserName).orValue("").matches(${celIgnoreCase(WINDOWS_ROOT)})`,
    },
  },
};

export function selectDefaults(fields: readonly DefaultField[]): readonly PodDefault[] {
  return DEFAULT_FIELDS.filter((field) => fields.includes(field)).map((field) => DEFAULTS[field]);
}

/** Returns true for privileged containers and HostProcess containers, which get no defaults. */
function isPrivileged({ privileged = false, hostProcess }: Target, pod: PodFields): boolean {
  return privileged || hostProcess || pod.hostProcess;
}

export const IS_PRIVILEGED = [
  `${CONTEXT}.?privileged`,
  `${CONTEXT}.?windowsOptions.?hostProcess`,
  `${POD_CONTEXT}.?windowsOptions.?hostProcess`,
]
  .map((flag) => `${flag}.orValue(false)`)
  .join(' || ');

/** Returns true if the settings select the namespace, regardless of SCC admission. */
function selectsNamespace(
  { mode, exemptNamespaces, namespaceSelector }: PodDefaults,
  { metadata }: Namespace,
): boolean {
  const { name = '', labels } = metadata ?? {};
  return mode === 'apply' && !exemptNamespaces.includes(name) && matchesLabelSelector(namespaceSelector, labels);
}

/**
 * Returns true if new pods in the namespace get the defaults. In namespaces that enforce SCCs, SCC admission defaults
 * the pods instead.
 */
export function hasDefaults(namespace: Namespace, { defaults, scc }: DefaultsSettings): boolean {
  return selectsNamespace(defaults, namespace) && sccMode(namespace, scc).mode !== 'enforce';
}

export type Requirement = Wire<V1LabelSelectorRequirement>;

/** Returns the label requirements that select the namespaces, or `undefined` if the defaults are disabled. */
export function selectedNamespaces({ mode, namespaceSelector, exemptNamespaces }: PodDefaults) {
  if (mode === 'off') return undefined;
  const { matchLabels = {}, matchExpressions = [] } = namespaceSelector;
  const requirements: readonly Requirement[] = [
    ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'In', values: [value] })),
    // API servers drop empty lists.
    ...matchExpressions.map(({ values = [], ...rest }) => (values.length === 0 ? rest : { ...rest, values })),
    ...(exemptNamespaces.length === 0
      ? []
      : [{ key: NAMESPACE_NAME_LABEL, operator: 'NotIn', values: exemptNamespaces }]),
  ];
  return requirements;
}

/** Returns the pod with defaults for the given fields, or the original object if nothing changes. */
export function withPodDefaults(pod: PodFields, fields: readonly DefaultField[]): JsonObject {
  const containers = pod.containers.filter(({ list }) => list !== 'ephemeralContainers');
  if (containers.length > MAX_CONTAINERS) return pod.json;
  const changes = new Map<Target, readonly PodDefault[]>();
  for (const podDefault of selectDefaults(fields)) {
    for (const target of findTargets(podDefault, pod, containers))
      changes.set(target, [...(changes.get(target) ?? []), podDefault]);
  }
  if (changes.size === 0) return pod.json;
  const change = (target: Target, json: JsonObject): JsonObject => {
    const securityContext = (changes.get(target) ?? []).reduce<unknown>(
      (context, { path, value }) => withValueAt(context, path, value),
      json['securityContext'],
    );
    return changes.has(target) ? { ...json, securityContext } : json;
  };
  const changed = (list: ContainerFields['list']) => {
    const members = containers.filter((container) => container.list === list);
    return members.length === 0 ? {} : { [list]: members.map((member) => change(member, member.json)) };
  };
  const spec = change(pod, objectMember(pod.json, 'spec'));
  return { ...pod.json, spec: { ...spec, ...changed('initContainers'), ...changed('containers') } };
}

/** Returns a new pod with the defaults of its namespace, or `undefined` if nothing changes. */
export function completeNewPod(object: unknown, namespace: Namespace, defaults: PodDefaults): JsonObject | undefined {
  const pod = isObject(object) && selectsNamespace(defaults, namespace) ? decodePod(object).pod : undefined;
  const completed = pod && withPodDefaults(pod, defaults.fields);
  return completed === object ? undefined : completed;
}

/** Applies the defaults of the namespace to a pod template. */
export function completeTemplate(template: PodFields, namespace: Namespace, settings: DefaultsSettings): PodFields {
  if (!hasDefaults(namespace, settings)) return template;
  const completed = withPodDefaults(template, settings.defaults.fields);
  return completed === template.json ? template : (decodePod(completed).pod ?? template);
}

/**
 * Returns the targets on which the default is set. This is the pod if all containers that lack the field can inherit
 * the default, or else the individual containers.
 */
function findTargets(
  { isInherited, isSet, isExcepted }: PodDefault,
  pod: PodFields,
  containers: readonly ContainerFields[],
): readonly Target[] {
  if (isInherited && isSet(pod)) return [];
  const isKept = (target: Target): boolean => isPrivileged(target, pod) || isExcepted(target, pod);
  const absent = containers.filter((container) => !isSet(container));
  const isForAll = isInherited && absent.length > 0 && ![pod, ...absent].some(isKept);
  return isForAll ? [pod] : absent.filter((container) => !isKept(container));
}
