import { getObjects, type MutableObject, applyDefaults, setDefault } from './defaults.ts';
import {
  type JsonObject,
  draft,
  isObject,
  type Kind,
  type KubeObject,
  type Pod,
  type ServiceAccount,
  type UserInfo,
} from './types.ts';
import { getPodTemplate, podTemplatePath } from './pod.ts';
import { RESOURCES } from './resources.ts';

const PREFIX = 'kube-api-access-';
const MOUNT_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';
/** 0644, as JSON has no octal numbers. */
const FILE_MODE = 420;

/** The token, the cluster's CA and the name of the namespace, as the kubelet would write them. */
function tokenVolume(name: string): MutableObject {
  const sources = [
    // Seven seconds beyond the hour: kubelets tell by it the tokens that nobody asked for.
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] },
    },
  ];
  return { name, projected: { sources, defaultMode: FILE_MODE } };
}

/** True if a pod gets the token of its service account: the pod's wish counts first, then that of the account. */
export function mountsToken(spec: JsonObject, account: JsonObject | undefined): boolean {
  const wish = spec['automountServiceAccountToken'] ?? account?.['automountServiceAccountToken'];
  return wish == null || wish === true;
}

/**
 * Mounts the service account's token, in place, into every container of a pod spec that has nothing at its place yet.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function mountToken(spec: MutableObject, suffix: () => string): void {
  const volumes = getObjects(spec, 'volumes');
  const existing = volumes.map(nameOf).find((name) => name.startsWith(PREFIX));
  const containers = [...getObjects(spec, 'initContainers'), ...getObjects(spec, 'containers')];
  const without = containers.filter(
    (container) => !getObjects(container, 'volumeMounts').some((mount) => mount['mountPath'] === MOUNT_PATH),
  );
  if (without.length === 0) return;
  const name = existing ?? `${PREFIX}${suffix()}`;
  for (const container of without) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container['volumeMounts'] = [...getObjects(container, 'volumeMounts'), mount];
  }
  if (existing === undefined) spec['volumes'] = [...volumes, tokenVolume(name)];
}

function nameOf(part: MutableObject): string {
  const { name } = part;
  return typeof name === 'string' ? name : '';
}

/** A pod as its controller would create it, and as whom. */
export interface ControllerPod {
  readonly pod: Pod;
  readonly requester: UserInfo;
}

/** Finds the service account of that name in the namespace of the pod; an account that is missing mounts its token. */
export type FindServiceAccount = (name: string) => ServiceAccount | undefined;

const DEFAULT_ACCOUNT = 'default';
const MIRROR = 'kubernetes.io/config.mirror';

/**
 * The controllers that create pods, by the kind of what they work on; a Deployment has its pods made through a ReplicaSet,
 * a CronJob through a Job.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go
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
 * The pod that the controller of a workload would create, completed as by `completePod`; `undefined` for kinds that no
 * controller makes pods of, and for a workload without a template.
 */
export function getControllerPod(
  object: KubeObject,
  kind: Kind,
  findAccount: FindServiceAccount = () => undefined,
): ControllerPod | undefined {
  const controller = CONTROLLERS[kind];
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  const template = controller === undefined || path === undefined ? undefined : getPodTemplate(object, path);
  if (controller === undefined || template === undefined) return undefined;
  const { name = '', namespace } = object.metadata ?? {};
  const metadata = {
    ...(isObject(template.metadata) ? template.metadata : {}),
    generateName: `${name}-`,
    ...(namespace === undefined ? {} : { namespace }),
  };
  const spec = isObject(template.spec) ? withClaims(template.spec, kind === 'StatefulSet' ? claimsOf(object) : []) : {};
  return { pod: completePod({ metadata, spec } as Pod, findAccount), requester: controllerUser(controller) };
}

/**
 * The pod with what the API server fills in before webhooks see it: defaults, the service account, its token. Mirror pods
 * get no account.
 */
export function completePod(pod: Pod, findAccount: FindServiceAccount = () => undefined): Pod {
  const complete: MutableObject = { ...draft(pod), apiVersion: 'v1', kind: 'Pod' };
  applyDefaults(complete);
  const { spec } = complete;
  if (isObject(spec) && !isMirrorPod(pod)) setAccount(spec, findAccount);
  return complete;
}

/** True for what the kubelet shows of a static pod. */
export function isMirrorPod({ metadata }: Pod): boolean {
  return metadata?.annotations?.[MIRROR] != null;
}

/** Who creates the mirror pods of a node. */
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
  if (mountsToken(spec, findAccount(name))) mountToken(spec, () => 'xxxxx');
}

/** The names of the claims that a StatefulSet makes for each of its pods. */
function claimsOf({ spec }: KubeObject & { readonly spec?: unknown }): readonly string[] {
  const claims: unknown = isObject(spec) ? spec['volumeClaimTemplates'] : undefined;
  if (!Array.isArray(claims)) return [];
  return claims.flatMap((claim: unknown) => {
    const metadata = isObject(claim) ? claim['metadata'] : undefined;
    return isObject(metadata) && typeof metadata['name'] === 'string' ? [metadata['name']] : [];
  });
}

/** A claim takes the place of a volume of its name. */
function withClaims(spec: JsonObject, claims: readonly string[]): JsonObject {
  if (claims.length === 0) return spec;
  const given: readonly unknown[] = Array.isArray(spec['volumes']) ? spec['volumes'] : [];
  const others = given.filter((volume) => !isObject(volume) || !claims.some((name) => name === volume['name']));
  const volumes = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  return { ...spec, volumes: [...volumes, ...others] };
}
