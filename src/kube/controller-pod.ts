import { applyDefaults } from './defaults.ts';
import { fill, type Part } from './default-pod.ts';
import { podTemplateOf, podTemplatePath } from './pod.ts';
import { RESOURCES } from './resources.ts';
import { mountsToken, mountToken } from './token-volume.ts';
import {
  draft,
  isObject,
  type JsonObject,
  type Kind,
  type KubeObject,
  type Pod,
  type ServiceAccount,
  type UserInfo,
} from './types.ts';

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
export function controllerPodOf(
  object: KubeObject,
  kind: Kind,
  findAccount: FindServiceAccount = () => undefined,
): ControllerPod | undefined {
  const controller = CONTROLLERS[kind];
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  const template = controller === undefined || path === undefined ? undefined : podTemplateOf(object, path);
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
  const complete: Part = { ...draft(pod), apiVersion: 'v1', kind: 'Pod' };
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

function setAccount(spec: Part, findAccount: FindServiceAccount): void {
  fill(spec, 'serviceAccountName', DEFAULT_ACCOUNT);
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
