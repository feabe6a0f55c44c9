import type { Store } from '../../cluster/store.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { completePod, controllerPodOf, isMirrorPod, nodeUser } from '../../kube/controller-pod.ts';
import { withoutEphemeral } from '../../kube/pod.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import type { Pod, UserInfo } from '../../kube/types.ts';
import { namespaceOf } from '../report/identity.ts';

/** A pod that would be created, where and by whom. */
export interface CreatedPod {
  readonly pod: Pod;
  readonly namespace: string;
  readonly creator: Creator;
}

/** Somebody who creates pods, and how to call them. */
export interface Creator {
  readonly user: UserInfo;
  readonly name: string;
}

interface PodContext {
  readonly store: Store;
  /** Of objects that name none. */
  readonly namespace: string;
  /** Who creates the pods that no controller creates. */
  readonly creator: Creator;
}

/**
 * The pod that an object is, or that its controller would create, with what the API server fills in; `undefined` for
 * kinds that no pods come from.
 */
export function podOf({ apiVersion, kind, value }: ManifestObject, context: PodContext): CreatedPod | undefined {
  const source = POD_SOURCES.find((one) => one === kind && apiVersionOf(one) === apiVersion);
  if (source === undefined) return undefined;
  const namespace = namespaceOf(value) ?? context.namespace;
  const findAccount = (name: string) => context.store.get('ServiceAccount', name, namespace);
  if (source !== 'Pod') {
    const made = controllerPodOf(value, source, findAccount);
    return made && { pod: made.pod, namespace, creator: named(made.requester) };
  }
  const pod = withoutEphemeral(value);
  const creator = isMirrorPod(pod) ? named(nodeUser(pod.spec?.nodeName ?? '')) : context.creator;
  return { pod: completePod(pod, findAccount), namespace, creator };
}

function named(user: UserInfo): Creator {
  return { user, name: user.username ?? '' };
}
