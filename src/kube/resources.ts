/** The kinds that Portcullis reads or writes, and their API paths. */
import type { Kind } from './kinds.ts';
import type { GroupVersionResource, KubeObject } from './types.ts';

export interface ResourceInfo extends GroupVersionResource {
  readonly scope: 'Cluster' | 'Namespaced';
  /** The `kind` of the objects, if it differs from the key in `Kinds`. */
  readonly kind?: string;
  /** Path of the pod template in objects of the kind. */
  readonly podTemplate?: readonly string[];
}

export function namespaced(apiVersion: string, resource: string, podTemplate?: readonly string[]): ResourceInfo {
  return { ...parseApiVersion(apiVersion), resource, scope: 'Namespaced', ...(podTemplate ? { podTemplate } : {}) };
}

export function clusterScoped(apiVersion: string, resource: string): ResourceInfo {
  return { ...namespaced(apiVersion, resource), scope: 'Cluster' };
}

const TEMPLATE = ['spec', 'template'] as const;
const RBAC = 'rbac.authorization.k8s.io/v1';
const ADMISSION = 'admissionregistration.k8s.io/v1';
const OPENREPORTS = 'openreports.io/v1alpha1';
const WGPOLICY = 'wgpolicyk8s.io/v1alpha2';

/** The resource for each kind. To support another kind, add a row here and its type to `Kinds`. */
export const RESOURCES: Readonly<Record<Kind, ResourceInfo>> = {
  Namespace: clusterScoped('v1', 'namespaces'),
  Node: clusterScoped('v1', 'nodes'),
  Pod: namespaced('v1', 'pods'),
  ServiceAccount: namespaced('v1', 'serviceaccounts'),
  PodTemplate: namespaced('v1', 'podtemplates', ['template']),
  ReplicationController: namespaced('v1', 'replicationcontrollers', TEMPLATE),
  ReplicaSet: namespaced('apps/v1', 'replicasets', TEMPLATE),
  Deployment: namespaced('apps/v1', 'deployments', TEMPLATE),
  StatefulSet: namespaced('apps/v1', 'statefulsets', TEMPLATE),
  DaemonSet: namespaced('apps/v1', 'daemonsets', TEMPLATE),
  Job: namespaced('batch/v1', 'jobs', TEMPLATE),
  CronJob: namespaced('batch/v1', 'cronjobs', ['spec', 'jobTemplate', ...TEMPLATE]),
  Role: namespaced(RBAC, 'roles'),
  ClusterRole: clusterScoped(RBAC, 'clusterroles'),
  RoleBinding: namespaced(RBAC, 'rolebindings'),
  ClusterRoleBinding: clusterScoped(RBAC, 'clusterrolebindings'),
  SecurityContextConstraints: clusterScoped('security.openshift.io/v1', 'securitycontextconstraints'),
  RangeAllocation: clusterScoped('security.internal.openshift.io/v1', 'rangeallocations'),
  RuntimeClass: clusterScoped('node.k8s.io/v1', 'runtimeclasses'),
  Lease: namespaced('coordination.k8s.io/v1', 'leases'),
  EndpointSlice: namespaced('discovery.k8s.io/v1', 'endpointslices'),
  ConfigMap: namespaced('v1', 'configmaps'),
  Secret: namespaced('v1', 'secrets'),
  MutatingWebhookConfiguration: clusterScoped(ADMISSION, 'mutatingwebhookconfigurations'),
  ValidatingWebhookConfiguration: clusterScoped(ADMISSION, 'validatingwebhookconfigurations'),
  ValidatingAdmissionPolicy: clusterScoped(ADMISSION, 'validatingadmissionpolicies'),
  ValidatingAdmissionPolicyBinding: clusterScoped(ADMISSION, 'validatingadmissionpolicybindings'),
  MutatingAdmissionPolicy: clusterScoped(ADMISSION, 'mutatingadmissionpolicies'),
  MutatingAdmissionPolicyBinding: clusterScoped(ADMISSION, 'mutatingadmissionpolicybindings'),
  PSAEnforcementConfig: clusterScoped('config.openshift.io/v1alpha1', 'psaenforcementconfigs'),
  PortcullisConfiguration: clusterScoped('config.portcullis.dev/v1alpha1', 'portcullisconfigurations'),
  PodSecurityException: namespaced('policy.portcullis.dev/v1alpha1', 'podsecurityexceptions'),
  FeatureGate: clusterScoped('config.openshift.io/v1', 'featuregates'),
  ClusterServiceVersion: namespaced('operators.coreos.com/v1alpha1', 'clusterserviceversions'),
  CatalogSource: namespaced('operators.coreos.com/v1alpha1', 'catalogsources'),
  NodesConfig: { ...clusterScoped('config.openshift.io/v1', 'nodes'), kind: 'Node' },
  MachineConfigPool: clusterScoped('machineconfiguration.openshift.io/v1', 'machineconfigpools'),
  Report: namespaced(OPENREPORTS, 'reports'),
  ClusterReport: clusterScoped(OPENREPORTS, 'clusterreports'),
  PolicyReport: namespaced(WGPOLICY, 'policyreports'),
  ClusterPolicyReport: clusterScoped(WGPOLICY, 'clusterpolicyreports'),
};

const KINDS: ReadonlyMap<string, Kind> = new Map(
  Object.entries(RESOURCES).map(([kind, { group, resource }]) => [`${resource}.${group}`, kind as Kind]),
);

/** Returns the kind of a resource, or `undefined` if Portcullis does not use it. */
export function findKind({ group, resource }: Pick<ResourceInfo, 'group' | 'resource'>): Kind | undefined {
  return KINDS.get(`${resource}.${group}`);
}

/** Returns the apiVersion of a kind, such as `apps/v1`. */
export function getApiVersion(kind: Kind): string {
  return formatApiVersion(RESOURCES[kind]);
}

/** Formats an apiVersion, such as `apps/v1`, or `v1` in the core group. */
export function formatApiVersion({ group, version }: Pick<ResourceInfo, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** Parses an apiVersion. Inverse of `formatApiVersion`. */
export function parseApiVersion(apiVersion: string): Pick<ResourceInfo, 'group' | 'version'> {
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return { group, version };
}

/** Returns the `apiVersion` and `kind` fields for objects of the kind. */
export function typeMeta(kind: Kind): { readonly apiVersion: string; readonly kind: string } {
  return { apiVersion: getApiVersion(kind), kind: RESOURCES[kind].kind ?? kind };
}

/** Returns all kinds that have the given `kind` name. Several API groups may use the same name. */
export function findKindsNamed(name: string): readonly Kind[] {
  return [...KINDS.values()].filter((kind) => typeMeta(kind).kind === name);
}

/** A kind that Portcullis uses, or the description of any other resource. */
type AnyResource = Kind | (GroupVersionResource & Partial<Pick<ResourceInfo, 'scope'>>);

function resourceInfo(resource: AnyResource) {
  return typeof resource === 'string' ? RESOURCES[resource] : resource;
}

/** Formats a resource for messages, such as `pods` or `roles.rbac.authorization.k8s.io`. */
export function resourceName(resource: AnyResource): string {
  const { group, resource: plural } = resourceInfo(resource);
  return group === '' ? plural : `${plural}.${group}`;
}

/** Returns the API path for a resource, in one namespace or across all namespaces. */
export function resourcePath(resource: AnyResource, namespace?: string): string {
  const { group, version, resource: plural, scope } = resourceInfo(resource);
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const inNamespace =
    scope === 'Cluster' || namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${inNamespace}/${plural}`;
}

/** Returns the API path for one object. */
export function objectPath(resource: AnyResource, name: string, namespace?: string): string {
  return `${resourcePath(resource, namespace)}/${encodeURIComponent(name)}`;
}

/** Returns the object's name, or `''` if it has none. */
export function objectName({ metadata }: KubeObject): string {
  return metadata?.name ?? '';
}

/** Returns `namespace/name`, or the name of a cluster-scoped object. Names do not contain slashes. */
export function objectKey({ metadata }: KubeObject): string {
  const { name = '', namespace } = metadata ?? {};
  return namespace === undefined ? name : `${namespace}/${name}`;
}
