import { canUseScc } from '../../cluster/select.ts';
import type { Store } from '../../cluster/store.ts';
import type { PodSource } from '../../cluster/workloads.ts';
import { completePod, controllerPodOf, isMirrorPod, nodeUser, type ControllerPod } from '../../kube/controller-pod.ts';
import { withoutEphemeral } from '../../kube/pod.ts';
import type { Kinds, Namespace } from '../../kube/types.ts';
import { planPod } from '../../policy/scc/plan.ts';
import type { CanUse } from '../../policy/scc/types.ts';
import { missingAccount } from '../inventory/missing-account.ts';
import type { ForetoldSettings } from '../scc-options.ts';
import type { Outcome, PlannedWorkload } from './types.ts';

export interface PlanInput {
  readonly store: Store;
  readonly settings: ForetoldSettings;
  /** Absent: what is granted in the store. */
  readonly canUse?: CanUse;
}

/** What becomes of the pods of one object, judged as its controller would create them. */
export function planWorkload(
  { kind, object }: PodSource,
  namespace: Namespace,
  { store, settings, canUse = canUseScc(store) }: PlanInput,
): PlannedWorkload {
  const name = object.metadata?.name ?? '';
  const made = podOf({ kind, object }, store);
  if (made === undefined) return { kind, name, result: { outcome: 'ignored' } };
  const { compatibility, preferUserNamespaces } = settings;
  const result = planPod({
    object: made.pod,
    namespace,
    userInfo: made.requester,
    sccs: store.list('SecurityContextConstraints'),
    canUse,
    compatibility,
    preferUserNamespaces,
  });
  const place = object.metadata?.namespace ?? '';
  const refusal = missingAccount(made.pod, place, (account) => store.get('ServiceAccount', account, place));
  return { kind, name, ...accountOf(made), ...(refusal === undefined ? {} : { refusal }), result };
}

/** An object of a namespace where SCCs do not count. */
export function passWorkload({ kind, object }: PodSource): PlannedWorkload {
  const result: Outcome = { outcome: 'off' };
  return { kind, name: object.metadata?.name ?? '', result };
}

/** Who creates pods that no controller makes is not known: only their service account counts. */
function podOf({ kind, object }: PodSource, store: Store): ControllerPod | undefined {
  const findAccount = (account: string) => store.get('ServiceAccount', account, object.metadata?.namespace);
  if (kind !== 'Pod') return controllerPodOf(object, kind, findAccount);
  const pod = withoutEphemeral(object as Kinds['Pod']);
  const requester = isMirrorPod(pod) ? nodeUser(pod.spec?.nodeName ?? '') : {};
  return { pod: completePod(pod, findAccount), requester };
}

function accountOf({ pod }: ControllerPod): Pick<PlannedWorkload, 'serviceAccount'> {
  const name: unknown = pod.spec?.serviceAccountName;
  return typeof name === 'string' && name !== '' ? { serviceAccount: name } : {};
}
