import { LABEL_SYNC_LABEL } from '../../../kube/label-sync.ts';
import type { Namespace } from '../../../kube/types.ts';
import { isPlatformNamespace } from '../label-sync/managed.ts';
import type { Category, Cause } from './types.ts';

/** Where nothing but the cluster itself runs. */
const RUN_LEVEL_ZERO: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease']);

/**
 * Why a namespace violates its level to come: for what it is, else for who let its workloads in. Empty if nothing in it
 * violates anything.
 */
export function classify(
  namespace: Namespace,
  violators: readonly { readonly causes: readonly Cause[] }[],
): readonly Category[] {
  const { name = '', labels } = namespace.metadata ?? {};
  if (RUN_LEVEL_ZERO.has(name)) return ['runLevelZero'];
  if (isPlatformNamespace(name)) return ['openshift'];
  if (labels?.[LABEL_SYNC_LABEL] === 'false') return ['disabledSyncer'];
  const causes = new Set(violators.flatMap((violator) => violator.causes));
  return [
    ...(causes.has('user') ? (['userSCC'] as const) : []),
    ...(causes.has('serviceAccount') ? (['unknown'] as const) : []),
  ];
}
