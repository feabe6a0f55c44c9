/**
 * The objects of the Kubernetes API as this program sees them: JSON as sent.
 *
 * The folder `kube/` holds the words of the Kubernetes API. It is pure: no clock, no I/O, no packages at run time.
 */
import type {
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1Container,
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1EphemeralContainer,
  V1Job,
  V1Lease,
  V1MutatingWebhookConfiguration,
  V1Namespace,
  V1Node,
  V1ObjectMeta,
  V1Pod,
  V1PodSpec,
  V1PodTemplate,
  V1PodTemplateSpec,
  V1ReplicaSet,
  V1ReplicationController,
  V1Role,
  V1RoleBinding,
  V1Secret,
  V1ServiceAccount,
  V1StatefulSet,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { FeatureGate } from './feature-gate.ts';
import type { PSAEnforcementConfig } from './psa-enforcement-config.ts';
import type { Report } from './report.ts';
import type { RangeAllocation, SecurityContextConstraints } from './scc.ts';

/** A client-node model as it is on the wire: dates are strings, nothing may be changed, `null` is as good as absent. */
export type Wire<T> = T extends Date
  ? string
  : T extends (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Wire<T[Key]> }
      : T;

/** The changeable form of a wire object; obtained from `draft()` only. */
export type Draft<T> = T extends readonly (infer Item)[]
  ? Draft<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Draft<T[Key]> }
    : T;

/** Returns a deep copy that may be changed. */
export function draft<T>(object: T): Draft<T> {
  return copyOf(object, 0) as Draft<T>;
}

/** No object of the API is as deep; whoever takes its time can copy that too. */
const MAX_DEPTH = 64;

/** JSON by hand, for that is many times faster than to clone whatever there may be. */
function copyOf(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) return structuredClone(value);
  if (Array.isArray(value)) return value.map((item) => copyOf(item, depth + 1));
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (key === '__proto__') {
      Object.defineProperty(copy, key, {
        value: copyOf(member, depth + 1),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    } else copy[key] = copyOf(member, depth + 1);
  }
  return copy;
}

export type ObjectMeta = Wire<V1ObjectMeta>;
export type Pod = Wire<V1Pod>;
export type PodSpec = Wire<V1PodSpec>;
export type PodTemplateSpec = Wire<V1PodTemplateSpec>;
export type Container = Wire<V1Container>;
export type EphemeralContainer = Wire<V1EphemeralContainer>;
export type Namespace = Wire<V1Namespace>;
export type Node = Wire<V1Node>;
export type ServiceAccount = Wire<V1ServiceAccount>;
export type Role = Wire<V1Role>;
export type ClusterRole = Wire<V1ClusterRole>;
export type RoleBinding = Wire<V1RoleBinding>;
export type ClusterRoleBinding = Wire<V1ClusterRoleBinding>;
export type Lease = Wire<V1Lease>;
export type ConfigMap = Wire<V1ConfigMap>;
export type Secret = Wire<V1Secret>;
export type MutatingWebhookConfiguration = Wire<V1MutatingWebhookConfiguration>;
export type ValidatingWebhookConfiguration = Wire<V1ValidatingWebhookConfiguration>;

/** What a pod and a pod template have in common; all that a check may read. */
export interface PodLike {
  readonly metadata?: ObjectMeta;
  readonly spec?: PodSpec;
}

/** Any object of the Kubernetes API. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

/** Every kind that this program keeps in its store. */
export interface Kinds extends WorkloadKinds {
  Namespace: Namespace;
  Node: Node;
  Pod: Pod;
  ServiceAccount: ServiceAccount;
  Role: Role;
  ClusterRole: ClusterRole;
  RoleBinding: RoleBinding;
  ClusterRoleBinding: ClusterRoleBinding;
  SecurityContextConstraints: SecurityContextConstraints;
  RangeAllocation: RangeAllocation;
  Lease: Lease;
  Secret: Secret;
  ConfigMap: ConfigMap;
  MutatingWebhookConfiguration: MutatingWebhookConfiguration;
  ValidatingWebhookConfiguration: ValidatingWebhookConfiguration;
  PSAEnforcementConfig: PSAEnforcementConfig;
  FeatureGate: FeatureGate;
  Report: Report;
}

export type Kind = keyof Kinds;

/** The kinds with a pod template. */
export interface WorkloadKinds {
  PodTemplate: Wire<V1PodTemplate>;
  ReplicationController: Wire<V1ReplicationController>;
  ReplicaSet: Wire<V1ReplicaSet>;
  Deployment: Wire<V1Deployment>;
  StatefulSet: Wire<V1StatefulSet>;
  DaemonSet: Wire<V1DaemonSet>;
  Job: Wire<V1Job>;
  CronJob: Wire<V1CronJob>;
}

export type Workload = WorkloadKinds[keyof WorkloadKinds];

/** Group, version and kind, as in an AdmissionReview; the core group is `''`. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Group, version and resource (the lower-case plural), as in an AdmissionReview. */
export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** The requester, as the API server authenticated it. */
export interface UserInfo {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** A plain JSON object, nothing known about its members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for a JSON object: neither null nor a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
