/** The input of SCC decisions about objects of an inventory: the pods that objects create, and the SCCs with their grants. */
import { canUseScc } from '../cluster/access.ts';
import type { Store } from '../cluster/store.ts';
import {
  completePod,
  getControllerPod,
  isMirrorPod,
  nodeUser,
  type ControllerPod,
  type FindServiceAccount,
  type PodCreator,
} from '../kube/controller-pod.ts';
import { withoutEphemeralContainers } from '../kube/pod.ts';
import { quote } from '../kube/text.ts';
import type { Kind, KubeObject, UserInfo } from '../kube/types.ts';
import { RBAC_KINDS } from '../policy/rbac/rules.ts';
import type { SccSettings } from '../policy/scc/mode.ts';

/** The kinds that SCC decisions about pods depend on. */
export const SCC_INPUT_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  ...RBAC_KINDS,
];

/** Returns the part of the input of an SCC decision that is the same for all pods. */
export function sccInput(store: Store, { compatibility, preferUserNamespaces }: SccSettings) {
  const sccs = store.list('SecurityContextConstraints');
  return { sccs, canUse: canUseScc(store), compatibility, preferUserNamespaces };
}

/** A pod as the API server would receive it, with its creator. */
interface CreatedPod extends ControllerPod {
  /** Absent for mirror pods. */
  readonly serviceAccount?: string;
  /** The error of the API server for a pod whose service account does not exist. */
  readonly denial?: string;
}

interface CreatePodOptions {
  readonly namespace: string;
  /** The creator of a pod without a controller that is no mirror pod. */
  readonly creator: UserInfo;
  readonly findAccount: FindServiceAccount;
}

/**
 * Returns a pod, or the pod that the controller of a workload would create, with the API server's defaults; `undefined` for a
 * workload without a pod template.
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
  return { pod: completePod(pod, findAccount), requester };
}
