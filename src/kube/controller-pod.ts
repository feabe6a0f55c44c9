import { getObjects, type MutableObject, setApiDefaults, setDefault } from './defaults.ts';
import { defined } from './defined.ts';
import type { Kind } from './kinds.ts';
import { getPodTemplate, podTemplatePath, withoutEphemeralContainers } from './pod.ts';
import { RESOURCES } from './resources.ts';
import { quote } from './text.ts';
import {
  draft,
  isObject,
  type JsonObject,
  type KubeObject,
  type Pod,
  type ServiceAccount,
  type UserInfo,
  objectMember,
} from './types.ts';

const PREFIX = 'kube-api-access-';

/** Name of the service account token volume in computed and stored pods. API servers generate a random suffix. */
export const TOKEN_VOLUME = `${PREFIX}xxxxx`;

/** Returns true for the name of a volume with which the API server mounts the service account token. */
export function isTokenVolume(name: unknown): boolean {
  return typeof name === 'string' && name.startsWith(PREFIX);
}

const MOUNT_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';
/** File mode 0644. */
const FILE_MODE = 420;

/** Returns the volume that contains the token, the cluster CA and the namespace name. */
function tokenVolume(name: string): MutableObject {
  const sources = [
    // The API server recognizes injected tokens by the 7 s that exceed one hour.
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] },
    },
  ];
  return { name, projected: { sources, defaultMode: FILE_MODE } };
}

/**
 * Returns true if a pod mounts its service account token. The pod's `automountServiceAccountToken` field takes
 * precedence over the service account's.
 */
export function mountsToken(spec: JsonObject, account: JsonObject | undefined): boolean {
  const automount = spec['automountServiceAccountToken'] ?? account?.['automountServiceAccountToken'];
  return automount == null || automount === true;
}

/**
 * Mounts the service account token into every container of a pod spec that does not mount the token path yet. Mutates
 * the spec.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function mountToken(spec: MutableObject, generateName: (prefix: string) => string): void {
  const volumes = getObjects(spec, 'volumes');
  const existing = volumes.map(partName).find(isTokenVolume);
  const containers = [...getObjects(spec, 'initContainers'), ...getObjects(spec, 'containers')];
  const without = containers.filter(
    (container) => !getObjects(container, 'volumeMounts').some((mount) => mount['mountPath'] === MOUNT_PATH),
  );
  if (without.length === 0) return;
  const name = existing ?? generateName(PREFIX);
  for (const container of without) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container['volumeMounts'] = [...getObjects(container, 'volumeMounts'), mount];
  }
  if (existing === undefined) spec['volumes'] = [...volumes, tokenVolume(name)];
}

function partName(part: MutableObject): string {
  const { name } = part;
  return typeof name === 'string' ? name : '';
}

/** The pod that a controller creates, and the user as which the controller creates it. */
interface ControllerPod {
  readonly pod: Pod;
  readonly requester: UserInfo;
}

/**
 * Finds a service account in the pod's namespace. If it returns `undefined`, the account is assumed not to disable
 * mounting its token.
 */
export type FindServiceAccount = (name: string) => ServiceAccount | undefined;

const DEFAULT_ACCOUNT = 'default';
const MIRROR = 'kubernetes.io/config.mirror';

/**
 * The controllers that create pods, by workload kind. The ReplicaSet controller creates the pods of a Deployment, and
 * the Job controller creates the pods of a CronJob.
 * @see
 * https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go
 */
const CONTROLLERS: Readonly<Partial<Record<Kind, string>>> = {
  ReplicationController: 'replication-controller',
  ReplicaSet: 'replicaset-controller',
  Deployment: 'replicaset-controller',
  StatefulSet: 'statefulset-controller',
  DaemonSet: 'daemon-set-controller',
  Job: 'job-controller',
  CronJob: 'job-controller',
};

/**
 * The users that create workload pods. Each controller has its own service account, or all controllers share a single
 * user if they run in one process.
 */
const CONTROLLER_USERS: ReadonlySet<string | undefined> = new Set([
  'system:kube-controller-manager',
  ...Object.values(CONTROLLERS).map((name) => `system:serviceaccount:kube-system:${name}`),
]);

/** Returns true if the user is a controller that creates workload pods. */
export function isWorkloadController({ username }: UserInfo): boolean {
  return CONTROLLER_USERS.has(username);
}

/** A custom resource that contains a pod template at `path` and whose controller is unknown. */
export interface CustomPodSource {
  readonly kind: string;
  readonly object: KubeObject;
  readonly template: readonly (string | number)[];
  /**
   * Returns the path of a pod field in the custom resource. Set only if the pod fields are spread over the custom
   * resource, in which case `object` is a copy that contains the pod as a template.
   */
  sourceField?(podField: string): string;
}

/** An object that creates pods. */
export type PodCreator =
  | { readonly kind: Kind; readonly object: KubeObject; readonly template?: never }
  | CustomPodSource;

/** The user that represents an unknown controller. */
const UNKNOWN_CONTROLLER: UserInfo = { groups: ['system:authenticated'] };

/**
 * Returns the pod that a workload's controller creates, defaulted by `submittedPod`. Returns `undefined` for other kinds
 * and for workloads that have no pod template.
 */
export function getControllerPod(
  { kind, object, template }: PodCreator,
  findAccount: FindServiceAccount = () => undefined,
): ControllerPod | undefined {
  if (template !== undefined) {
    const pod = getPodOfTemplate(object, template, []);
    return pod && { pod: submittedPod(pod, findAccount), requester: UNKNOWN_CONTROLLER };
  }
  const controller = CONTROLLERS[kind];
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  if (controller === undefined || path === undefined) return undefined;
  const pod = getPodOfTemplate(object, path, kind === 'StatefulSet' ? claimNames(object) : []);
  return pod && { pod: submittedPod(pod, findAccount), requester: controllerUser(controller) };
}

function getPodOfTemplate(
  object: KubeObject,
  path: CustomPodSource['template'],
  claims: readonly string[],
): Pod | undefined {
  const template = getPodTemplate(object, path);
  if (template === undefined) return undefined;
  const { name = '', namespace } = object.metadata ?? {};
  const metadata = {
    ...objectMember(template, 'metadata'),
    generateName: `${name}-`,
    ...defined({ namespace }),
  };
  return { metadata, spec: isObject(template.spec) ? withClaims(template.spec, claims) : {} } as Pod;
}

/**
 * Returns the pod as webhooks receive it, with defaults, the service account and its token. Mirror pods have no service
 * account.
 */
export function submittedPod(pod: Pod, findAccount: FindServiceAccount = () => undefined): Pod {
  const complete: MutableObject = { ...draft(pod), apiVersion: 'v1', kind: 'Pod' };
  setApiDefaults(complete);
  const { spec } = complete;
  if (isObject(spec) && !isMirrorPod(pod)) setAccount(spec, findAccount);
  return complete;
}

/** Returns true for a mirror pod, which represents a static pod. */
export function isMirrorPod({ metadata }: Pod): boolean {
  return metadata?.annotations?.[MIRROR] != null;
}

/** Returns the user that creates the mirror pods of a node. */
export function nodeUser(nodeName: string): UserInfo {
  return { username: `system:node:${nodeName}`, groups: ['system:nodes', 'system:authenticated'] };
}

function controllerUser(name: string): UserInfo {
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'];
  return { username: `system:serviceaccount:kube-system:${name}`, groups };
}

function setAccount(spec: MutableObject, findAccount: FindServiceAccount): void {
  setDefault(spec, 'serviceAccountName', DEFAULT_ACCOUNT);
  const name = spec['serviceAccountName'];
  if (typeof name !== 'string') return;
  spec['serviceAccount'] = name;
  if (mountsToken(spec, findAccount(name))) mountToken(spec, () => TOKEN_VOLUME);
}

/** Returns the names of a StatefulSet's volume claim templates. */
function claimNames({ spec }: KubeObject & { readonly spec?: unknown }): readonly string[] {
  const claims = objectMember({ spec }, 'spec')['volumeClaimTemplates'];
  if (!Array.isArray(claims)) return [];
  return claims.flatMap((claim: unknown) => {
    const { name } = objectMember(claim, 'metadata');
    return typeof name === 'string' ? [name] : [];
  });
}

/** Adds the volumes for the claims. They replace volumes that have the same name. */
function withClaims(spec: JsonObject, claims: readonly string[]): JsonObject {
  if (claims.length === 0) return spec;
  const existing: readonly unknown[] = Array.isArray(spec['volumes']) ? spec['volumes'] : [];
  const others = existing.filter((volume) => !isObject(volume) || !claims.some((name) => name === volume['name']));
  const volumes = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  return { ...spec, volumes: [...volumes, ...others] };
}

/** A pod as webhooks would receive it, and its creator. */
interface CreatedPod extends ControllerPod {
  /** Absent for mirror pods. */
  readonly serviceAccount?: string;
  /** The API server's error for a pod whose service account does not exist. */
  readonly denial?: string;
}

interface CreatePodOptions {
  readonly namespace: string;
  /** The user who creates pods that have no controller and are not mirror pods. */
  readonly creator: UserInfo;
  readonly findAccount: FindServiceAccount;
}

/**
 * Returns a pod, or the pod that a workload's controller would create, with the API server's defaults. Returns
 * `undefined` for a workload that has no pod template.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function createPod(
  source: PodCreator,
  { namespace, creator, findAccount }: CreatePodOptions,
): CreatedPod | undefined {
  const created =
    source.kind === 'Pod' && source.template === undefined
      ? directPod(source.object, creator, findAccount)
      : getControllerPod(source, findAccount);
  const account: unknown = created?.pod.spec?.serviceAccountName;
  if (created === undefined || typeof account !== 'string') return created;
  const isMissing = !isMirrorPod(created.pod) && findAccount(account) === undefined;
  const denial = `error looking up service account ${namespace}/${account}: serviceaccount ${quote(account)} not found`;
  return { ...created, ...(account === '' ? {} : { serviceAccount: account }), ...(isMissing ? { denial } : {}) };
}

function directPod(object: KubeObject, creator: UserInfo, findAccount: FindServiceAccount): ControllerPod {
  const pod = withoutEphemeralContainers(object);
  const requester = isMirrorPod(pod) ? nodeUser(pod.spec?.nodeName ?? '') : creator;
  return { pod: submittedPod(pod, findAccount), requester };
}
