/** Runs Pod Security Admission reviews with defaults for the inputs that a case does not set. */
import { parsePath } from '../../src/config/yaml.ts';
import type { AdmissionRequest } from '../../src/kube/admission.ts';
import { type JsonObject, type Namespace, type Pod, withValueAt } from '../../src/kube/types.ts';
import type { WorkloadResource } from '../../src/policy/pod/index.ts';
import {
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULT_LIMITS,
  type PodSecurityConfiguration,
  type PodSecurityInput,
  type PodSecurityReview,
  reviewPodSecurity,
} from '../../src/policy/psa/index.ts';
import { type Check, type ExceptionRule, indexExceptions } from '../../src/policy/pss/index.ts';

export type Labels = Readonly<Record<string, string>>;

export interface ReviewFixture {
  readonly defaults?: Partial<PodSecurityConfiguration['defaults']>;
  readonly exemptions?: Partial<PodSecurityConfiguration['exemptions']>;
  /**
   * The Pod Security labels of the stored namespace `ns`, without their domain. If absent, the namespace does not
   * exist.
   */
  readonly labels?: Labels;
  readonly pods?: PodSecurityInput['listPods'];
  readonly limits?: Partial<PodSecurityInput['limits']>;
  readonly deadlineMs?: number;
  readonly now?: () => number;
  readonly workloadResources?: readonly WorkloadResource[];
  /** Exceptions in the namespace `ns`. */
  readonly exceptions?: readonly ExceptionRule[];
  readonly request: AdmissionRequest;
}

export function review(given: ReviewFixture): PodSecurityReview {
  const namespace: Namespace | undefined = given.labels && namespaceWith(given.labels);
  return reviewPodSecurity({
    request: given.request,
    podSecurity: createPodSecurity({
      defaults: { ...DEFAULT_CONFIGURATION.defaults, ...given.defaults },
      exemptions: { ...DEFAULT_CONFIGURATION.exemptions, ...given.exemptions },
    }),
    findNamespace: (name) => (name === 'ns' ? namespace : undefined),
    findExceptions: (name) => indexExceptions(name === 'ns' ? (given.exceptions ?? []) : []),
    listPods: given.pods ?? (() => []),
    limits: { ...DEFAULT_LIMITS, ...given.limits },
    now: given.now ?? (() => 0),
    ...(given.deadlineMs === undefined ? {} : { deadlineMs: given.deadlineMs }),
    ...(given.workloadResources ? { workloadResources: given.workloadResources } : {}),
  });
}

/** Builds the namespace `ns`. The labels are given without their domain. */
export function namespaceWith(labels: Labels): Namespace & { readonly apiVersion: string; readonly kind: string } {
  const full: Record<string, string> = {};
  for (const [key, value] of Object.entries(labels)) full[`pod-security.kubernetes.io/${key}`] = value;
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns', labels: full } };
}

const CORE = { group: '', version: 'v1' };

const ALICE = { uid: '1', namespace: 'ns', operation: 'CREATE', userInfo: { username: 'alice' } } as const;

export function podRequest(object: unknown, change: Partial<AdmissionRequest> = {}): AdmissionRequest {
  const kind = { ...CORE, kind: 'Pod' };
  return { ...ALICE, name: 'p', kind, resource: { ...CORE, resource: 'pods' }, object, ...change };
}

export function namespaceRequest(
  operation: AdmissionRequest['operation'],
  object: unknown,
  oldObject: unknown,
  change: Partial<AdmissionRequest> = {},
): AdmissionRequest {
  const kind = { ...CORE, kind: 'Namespace' };
  const resource = { ...CORE, resource: 'namespaces' };
  return { ...ALICE, operation, name: 'ns', kind, resource, object, oldObject, ...change };
}

export function deploymentRequest(object: unknown, change: Partial<AdmissionRequest> = {}): AdmissionRequest {
  const apps = { group: 'apps', version: 'v1' };
  const resource = { ...apps, resource: 'deployments' };
  return { ...ALICE, name: 'd', kind: { ...apps, kind: 'Deployment' }, resource, object, ...change };
}

/** Returns a pod `p` that satisfies every policy, unless the changes to its spec or container violate a policy. */
export function compliantPod(spec: object = {}, container: object = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'ns' },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'c',
          image: 'i:1',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          ...container,
        },
      ],
      ...spec,
    },
  };
}

/** Returns a pod with the given field, which violates a check. */
export function violatingPod({ violation: [path, value] }: Pick<Check, 'violation'>): JsonObject {
  return withValueAt({ ...compliantPod() }, parsePath(path), value) as JsonObject;
}

/** Returns a pod that violates one baseline check. */
export function hostNetworkPod(name = 'p'): Pod {
  return { ...compliantPod({ hostNetwork: true }), metadata: { name, namespace: 'ns' } };
}

/** Returns a pod that satisfies baseline but violates four restricted checks. */
export function plainPod(name = 'p'): Pod {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec: { containers: [{ name: 'c', image: 'i:1' }] } };
}

export const PLAIN_REASONS =
  'allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile';

export const PLAIN_DETAILS =
  'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ' +
  'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), ' +
  'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ' +
  'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")';
