/**
 * Safe defaults for the security contexts of new pods, so a pod without a security context complies with the restricted
 * level. A default is set only if the field is absent. Explicit values are never changed. Each default exists in
 * TypeScript for the webhook, and in CEL for a MutatingAdmissionPolicy.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
 */
import type { V1LabelSelector, V1LabelSelectorRequirement } from '@kubernetes/client-node';
import type { DefaultsKind } from '../../kube/admission-policies.ts';
import { celList, celString } from '../../kube/cel.ts';
import { matchesLabelSelector } from '../../kube/label-selector.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { type JsonObject, type Namespace, type Wire, objectMember, withValueAt } from '../../kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../../kube/well-known.ts';
import { type ContainerFields, decodePod, type PodFields, type SecurityContextFields } from '../pod/index.ts';
import type { CelVariable } from '../pss/index.ts';
import { sccMode, type SccSettings, selectEnforcedNamespaces } from '../scc/index.ts';
import { createPolicyObject, POD_RULE, type PolicyObject } from './admission-policies.ts';

/** Pods with more containers get no defaults. */
export const MAX_CONTAINERS = 500;

/** The security context fields that have a default. */
export const DEFAULT_FIELDS = ['seccompProfile', 'capabilities', 'allowPrivilegeEscalation', 'runAsNonRoot'] as const;
export type DefaultField = (typeof DEFAULT_FIELDS)[number];

export interface PodDefaults {
  readonly mode: 'off' | 'apply';
  readonly fields: readonly DefaultField[];
  /** LabelSelector for the namespaces. An empty selector matches all namespaces. */
  readonly namespaceSelector: Wire<V1LabelSelector>;
  readonly exemptNamespaces: readonly string[];
}

/** The pod defaults settings, and the SCC admission settings that exclude namespaces. */
export interface DefaultsSettings {
  readonly defaults: PodDefaults;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** A pod or one of its containers. Pods lack the container fields. */
type Target = SecurityContextFields & Partial<Pick<ContainerFields, 'name' | 'privileged' | 'capabilities'>>;

/**
 * The default for a field. The expressions read `c`, where `c.fields` is a container or the pod spec and `c.path` is
 * its JSON pointer.
 */
interface PodDefault {
  /** Path of the value in the security context. */
  readonly path: readonly [DefaultField, ...string[]];
  readonly value: unknown;
  /** True if pods have the field too and containers inherit it. */
  readonly isInherited: boolean;
  /** Returns true if the value is set explicitly. */
  isSet(target: Target): boolean;
  /** Returns true if the value would be invalid or would conflict with an explicit setting of the pod. */
  isExcepted(target: Target, pod: PodFields): boolean;
  readonly cel: Readonly<Record<'isSet' | 'isExcepted', string>>;
}

const CONTEXT = 'c.fields.?securityContext';
const POD_CONTEXT = 'object.spec.?securityContext';
const ANNOTATIONS = 'object.metadata.?annotations.orValue({})';
const IS_WINDOWS = 'object.spec.?os.?name.orValue("") == "windows"';

/** `ALL` includes `SYS_ADMIN`. The API server rejects only `CAP_SYS_ADMIN`. */
const SYS_ADMIN = /^(?:(?:CAP_)?SYS_ADMIN|ALL)$/i;
const ALL = /^ALL$/i;
/** The kubelet rejects this Windows user if `runAsNonRoot` is true. */
const WINDOWS_ROOT = /^ContainerAdministrator$/i;

/** Node 22 does not support this syntax in its own patterns. */
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

function selectDefaults(fields: readonly DefaultField[]): readonly PodDefault[] {
  return DEFAULT_FIELDS.filter((field) => fields.includes(field)).map((field) => DEFAULTS[field]);
}

/** Privileged containers and HostProcess containers get no defaults. */
function isPrivileged({ privileged = false, hostProcess }: Target, pod: PodFields): boolean {
  return privileged || hostProcess || pod.hostProcess;
}

const IS_PRIVILEGED = [
  `${CONTEXT}.?privileged`,
  `${CONTEXT}.?windowsOptions.?hostProcess`,
  `${POD_CONTEXT}.?windowsOptions.?hostProcess`,
]
  .map((flag) => `${flag}.orValue(false)`)
  .join(' || ');

// Namespaces that have defaults.

/**
 * Returns true if new pods in the namespace get the defaults. In namespaces that enforce SCCs, SCC admission defaults
 * the pods instead.
 */
export function hasDefaults(namespace: Namespace, { defaults, scc }: DefaultsSettings): boolean {
  const { name = '', labels } = namespace.metadata ?? {};
  return (
    defaults.mode === 'apply' &&
    !defaults.exemptNamespaces.includes(name) &&
    matchesLabelSelector(defaults.namespaceSelector, labels) &&
    sccMode(namespace, scc).mode !== 'enforce'
  );
}

type Requirement = Wire<V1LabelSelectorRequirement>;

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

const CONTAINER_LISTS = ['initContainers', 'containers'] as const;

/**
 * Excludes pods with more containers than `withPodDefaults` changes. API servers would need seconds for them, even
 * without a patch.
 */
const NOT_TOO_LARGE = {
  name: 'not-too-large',
  expression: `${CONTAINER_LISTS.map((list) => `(has(object.spec.${list}) ? size(object.spec.${list}) : 0)`).join(' + ')} <= ${MAX_CONTAINERS}`,
} as const;

/** Excludes mirror pods, because a static pod runs with the security context from its manifest file. */
export const NOT_MIRROR = {
  name: 'not-mirror',
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
} as const;

// The defaults in TypeScript, for the webhook and for templates.

/** Returns the pod with default values for the given fields, or the original object if nothing changes. */
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

/** Applies the defaults of its namespace to a pod template. */
export function completeTemplate(template: PodFields, namespace: Namespace, settings: DefaultsSettings): PodFields {
  if (!hasDefaults(namespace, settings)) return template;
  const completed = withPodDefaults(template, settings.defaults.fields);
  return completed === template.json ? template : (decodePod(completed).pod ?? template);
}

/**
 * Returns the pod if all containers that lack the field can inherit the default. Otherwise, returns the containers to
 * set it on.
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

// The defaults in CEL, for the policy.

/** The first Kubernetes 1.x minor version that serves MutatingAdmissionPolicies as v1. */
export const MIN_DEFAULTS_MINOR = 36;

/** Generates the policy and its binding, both with the given name. Returns nothing if the defaults are disabled. */
export function generateDefaultsPolicy(
  { defaults, scc }: DefaultsSettings,
  name: string,
): readonly PolicyObject<DefaultsKind>[] {
  const matchExpressions = selectedNamespaces(defaults);
  if (matchExpressions === undefined) return [];
  const chosen = selectDefaults(defaults.fields);
  const names = chosen.map(({ path: [field] }) => field).join(', ');
  const unlessEnforced = scc.mode === 'off' ? '' : `${isSelected(selectEnforcedNamespaces(scc))} ? [] : `;
  return [
    createPolicyObject('MutatingAdmissionPolicy', name, `Sets absent security context fields of new pods: ${names}.`, {
      // Ignoring failures is safe because Pod Security evaluates the pod even if the defaults are missing.
      failurePolicy: 'Ignore',
      reinvocationPolicy: 'IfNeeded',
      matchConstraints: {
        namespaceSelector: matchExpressions.length === 0 ? {} : { matchExpressions },
        resourceRules: [{ ...POD_RULE, operations: ['CREATE'], resources: ['pods'] }],
      },
      matchConditions: [NOT_MIRROR, NOT_TOO_LARGE],
      variables: [...TARGETS, ...chosen.flatMap(targetVariables)],
      mutations: [
        {
          patchType: 'JSONPatch',
          jsonPatch: { expression: `${unlessEnforced}${patchExpression(chosen)}` },
        },
      ],
    }),
    createPolicyObject('MutatingAdmissionPolicyBinding', name, 'All namespaces that the policy selects.', {
      policyName: name,
    }),
  ];
}

/**
 * Returns a CEL bool that is true if the namespace satisfies the requirements. Supports the operators `Exists` and
 * `NotIn`.
 */
function isSelected(requirements: readonly Requirement[]): string {
  const labels = 'namespaceObject.metadata.?labels.orValue({})';
  return requirements
    .map(({ key, operator, values = [] }) =>
      operator === 'Exists'
        ? `${celString(key)} in ${labels}`
        : `!(${labels}[?${celString(key)}].orValue("") in ${celList(values)})`,
    )
    .join(' && ');
}

const TARGETS: readonly CelVariable[] = [
  { name: 'pod', expression: '[{"path": dyn("/spec"), "fields": dyn(object.spec)}]' },
  {
    name: 'containers',
    expression: CONTAINER_LISTS.map(
      (list) =>
        `lists.range(size(object.spec.?${list}.orValue([]))).map(i, {"path": dyn("/spec/${list}/" + string(i)), "fields": dyn(object.spec.${list}[i])})`,
    ).join(' + '),
  },
];

function celIsKept({ cel }: PodDefault): string {
  return `${IS_PRIVILEGED} || ${cel.isExcepted}`;
}

/** Returns the variables that contain the targets of a default, as `findTargets` finds them. */
function targetVariables(podDefault: PodDefault): readonly CelVariable[] {
  const [field] = podDefault.path;
  const absent = `variables.containers.filter(c, !(${podDefault.cel.isSet}))`;
  const takers = (list: string): string => `${list}.filter(c, !(${celIsKept(podDefault)}))`;
  if (!podDefault.isInherited) return [{ name: field, expression: takers(absent) }];
  const name = `${field}Absent`;
  const isForAll = `size(variables.${name}) > 0 && !(variables.pod + variables.${name}).exists(c, ${celIsKept(podDefault)})`;
  return [
    { name, expression: `variables.pod.exists(c, ${podDefault.cel.isSet}) ? [] : ${absent}` },
    { name: field, expression: `${isForAll} ? variables.pod : ${takers(`variables.${name}`)}` },
  ];
}

/** Returns the patch, which adds parent objects before the values. Adding a parent twice is harmless. */
function patchExpression(chosen: readonly PodDefault[]): string {
  const add = (targets: string, path: string, value: string): string =>
    `${targets}.map(c, JSONPatch{op: "add", path: c.path + ${celString(`/securityContext${path}`)}, value: ${value}})`;
  const all = chosen.map(({ path: [field] }) => `variables.${field}`).join(' + ');
  const patches = chosen.flatMap(({ path, value }) => {
    const [field, ...members] = path;
    const isAbsent = `!${CONTEXT}.?${field}.hasValue()`;
    return [
      ...(members.length === 0 ? [] : [add(`variables.${field}.filter(c, ${isAbsent})`, `/${field}`, '{}')]),
      add(`variables.${field}`, `/${path.join('/')}`, JSON.stringify(value)),
    ];
  });
  return [add(`(${all}).filter(c, !${CONTEXT}.hasValue())`, '', '{}'), ...patches].join(' + ');
}
