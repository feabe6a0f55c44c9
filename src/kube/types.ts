import type {
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1EndpointSlice,
  V1Lease,
  V1MutatingWebhookConfiguration,
  V1Namespace,
  V1Node,
  V1ObjectMeta,
  V1Pod,
  V1PodSpec,
  V1PodTemplateSpec,
  V1Role,
  V1RoleBinding,
  V1Secret,
  V1ServiceAccount,
  V1SubjectAccessReviewStatus,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { Condition } from './conditions.ts';

/** The JSON form of a client-node model. Dates are strings, members are read-only, and null means absent. */
export type Wire<T> = T extends Date
  ? string
  : T extends (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Wire<T[Key]> }
      : T;

/** The mutable form of a type, which `draft` returns. */
export type Draft<T> = T extends readonly (infer Item)[]
  ? Draft<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Draft<T[Key]> }
    : T;

export function draft<T>(object: T): Draft<T> {
  return deepCopy(object, 0) as Draft<T>;
}

/** Maximum recursion depth. Deeper parts are copied by structuredClone, which does not recurse on the stack. */
const MAX_DEPTH = 64;

/** Copies a JSON value several times faster than structuredClone does. */
function deepCopy(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) return structuredClone(value);
  if (Array.isArray(value)) return value.map((item) => deepCopy(item, depth + 1));
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (key === '__proto__') {
      Object.defineProperty(copy, key, {
        value: deepCopy(member, depth + 1),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    } else copy[key] = deepCopy(member, depth + 1);
  }
  return copy;
}

/** Returns the value at a path of field names and list indexes, or `undefined` if it is absent. */
export function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((value, step) => {
    if (Array.isArray(value)) return (value as readonly unknown[])[Number(step)];
    return isObject(value) ? ownMember(value, step) : undefined;
  }, root);
}

/** Returns an object's own member, so keys such as `constructor` do not refer to inherited properties. */
export function ownMember(object: JsonObject, key: string | number): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Returns a copy of a value with the field at a path changed. Creates missing parent objects. */
export function withValueAt(root: unknown, [step, ...rest]: readonly (string | number)[], value: unknown): unknown {
  if (step === undefined) return value;
  if (typeof step === 'number')
    return Array.isArray(root) ? root.with(step, withValueAt(root[step], rest, value)) : root;
  const object = isObject(root) ? root : {};
  return { ...object, [step]: withValueAt(object[step], rest, value) };
}

/** Returns a member that is an object, or an empty object if the member is absent or has another type. */
export function objectMember(owner: unknown, key: string): JsonObject {
  const member = isObject(owner) ? owner[key] : undefined;
  return isObject(member) ? member : {};
}

export type ObjectMeta = Wire<V1ObjectMeta>;
export type Pod = Wire<V1Pod>;
export type PodSpec = Wire<V1PodSpec>;
export type PodTemplateSpec = Wire<V1PodTemplateSpec>;
export type Namespace = Wire<V1Namespace>;
export type Node = Wire<V1Node>;
export type ServiceAccount = Wire<V1ServiceAccount>;
export type Role = Wire<V1Role>;
export type ClusterRole = Wire<V1ClusterRole>;
export type RoleBinding = Wire<V1RoleBinding>;
export type ClusterRoleBinding = Wire<V1ClusterRoleBinding>;
export type Lease = Wire<V1Lease>;
export type EndpointSlice = Wire<V1EndpointSlice>;
export type ConfigMap = Wire<V1ConfigMap>;
export type Secret = Wire<V1Secret>;
export type MutatingWebhookConfiguration = Wire<V1MutatingWebhookConfiguration>;
export type ValidatingWebhookConfiguration = Wire<V1ValidatingWebhookConfiguration>;
export type AccessReviewStatus = Wire<V1SubjectAccessReviewStatus>;

/** A pod or a pod template. */
export interface PodLike {
  readonly metadata?: ObjectMeta;
  readonly spec?: PodSpec;
}

/** Any Kubernetes API object. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

/** Group, version and kind. The core group is `''`. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Group, version and lowercase plural resource name. */
export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** An authenticated user. */
export interface UserInfo {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** A JSON object whose members have not been validated. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns true for a JSON object, but not for null or a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the objects in a list. Ignores other items. Returns an empty list if the value is not a list. */
export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns the strings in a list. Ignores other items. Returns an empty list if the value is not a list. */
export function stringsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

/** The policy settings of an installation. The only object of this kind is named `cluster`. */
export interface PortcullisConfiguration extends KubeObject {
  /** Null after server-side apply has removed all fields. */
  readonly spec?: JsonObject | null;
  readonly status?: {
    readonly observedGeneration?: number;
    /**
     * The last valid spec and its generation. Generation 0 means the initial settings that applied before the object
     * existed.
     */
    readonly applied?: { readonly generation: number; readonly spec: JsonObject };
    /** The default SCC mode in force (absent without the SCC feature) and the rollout phase. */
    readonly sccMode?: string;
    readonly rolloutPhase?: string;
    readonly conditions?: readonly Condition[];
    /** The generation that each replica applies. */
    readonly replicas?: readonly { readonly name: string; readonly generation: number }[];
    /** The minimum kubelet version in force and the rendered minimum, which determines the feature gates. */
    readonly kubelet?: {
      readonly minimumVersion?: string;
      readonly renderedMinimumVersion?: string;
      /** The object that sets the minimum. */
      readonly source?: string;
      /**
       * The nodes of each pool when the minimum was rendered. Set only while a lower minimum waits for the pools to be
       * updated.
       */
      readonly pools?: readonly { readonly name: string; readonly members: readonly string[] }[];
    };
    /** The first pods that were admitted without a review and that the policy denies. */
    readonly unreviewedPods?: readonly UnreviewedPod[];
  };
}

export interface UnreviewedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Creation time of the pod. */
  readonly created: string;
  /** The reason why the policy denies the pod. */
  readonly message: string;
}

/**
 * A cluster's enabled features. The only object of this kind is named `cluster`.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export interface FeatureGate extends KubeObject {
  readonly spec?: {
    /** `''`, `TechPreviewNoUpgrade`, `DevPreviewNoUpgrade`, `OKD` or `CustomNoUpgrade`. */
    readonly featureSet?: string | null;
    /** Used only for `CustomNoUpgrade`. */
    readonly customNoUpgrade?: {
      readonly enabled?: readonly string[] | null;
      readonly disabled?: readonly string[] | null;
    } | null;
  } | null;
  readonly status?: {
    /** One item for each component version. */
    readonly featureGates?:
      | readonly {
          readonly version?: string | null;
          readonly enabled?: readonly { readonly name?: string | null }[] | null;
          readonly disabled?: readonly { readonly name?: string | null }[] | null;
        }[]
      | null;
  } | null;
}

/**
 * A cluster's node configuration, which has kind `Node` in the `config.openshift.io` group. The only object of this
 * kind is named `cluster`.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_node.go
 */
export interface NodesConfig extends KubeObject {
  readonly spec?: {
    /** The empty string means no minimum. */
    readonly minimumKubeletVersion?: string | null;
    readonly workerLatencyProfile?: string | null;
  } | null;
}

/**
 * A group of nodes that share one configuration.
 * @see https://github.com/openshift/api/blob/master/machineconfiguration/v1/types.go
 */
export interface MachineConfigPool extends KubeObject {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly machineCount?: number;
    readonly updatedMachineCount?: number;
  };
}

/** The object that a report or result refers to. */
export interface ReportSubject {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid?: string;
}

export interface ReportResult {
  readonly source: string;
  readonly policy: string;
  readonly rule: string;
  readonly category: string;
  readonly severity: 'high' | 'medium' | 'low' | 'info';
  readonly result: 'pass' | 'fail' | 'warn' | 'error' | 'skip';
  readonly scored: boolean;
  readonly message: string;
  readonly timestamp: { readonly seconds: number; readonly nanos: number };
  readonly resources?: readonly ReportSubject[];
  readonly properties?: Readonly<Record<string, string>>;
}

/**
 * Policy results for a namespace or for the cluster, in a format that several policy engines share.
 * @see https://github.com/openreports/reports-api/blob/main/docs/api-docs.md
 * @see
 * https://github.com/kubernetes-sigs/wg-policy-prototypes/blob/master/policy-report/pkg/api/wgpolicyk8s.io/v1alpha2/policyreport_types.go
 */
export interface Report extends KubeObject {
  /** Absent in the wgpolicyk8s.io group, where each result has its own source. */
  readonly source?: string;
  readonly scope?: ReportSubject;
  readonly summary: Readonly<Record<ReportResult['result'], number>>;
  readonly results: readonly ReportResult[];
}

/** An installed operator. The store keeps only its metadata. */
export interface ClusterServiceVersion extends KubeObject {
  readonly status?: { readonly reason?: string };
}

/** A catalog of operators. The spec is untyped, because manifests may contain fields that the CRD lacks. */
export interface CatalogSource extends KubeObject {
  readonly spec?: unknown;
}

/** A value, or an error that explains why there is no value. */
export type Result<T> = { readonly value: T } | { readonly error: string };
