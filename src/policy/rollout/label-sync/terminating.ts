import type { Namespace } from '../../../kube/types.ts';

/** True if the namespace is on its way out. */
export function isTerminating({ metadata, status }: Namespace): boolean {
  return status?.phase === 'Terminating' || metadata?.deletionTimestamp != null;
}
