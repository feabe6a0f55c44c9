import { POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import type { Pod } from '../../../kube/types.ts';
import type { SccMode } from '../../scc/mode.ts';

/** What tells whether a record on a pod is right. */
export interface ProvenanceContext {
  /** Of the namespace: unless SCCs are enforced there, anybody may have written the record. */
  readonly sccMode: SccMode;
  /** True if the service account may use the SCC of that name in the namespace. */
  mayUse(serviceAccount: string, sccName: string): boolean;
}

/**
 * True if a pod is only there since its creator may use an SCC that its service account may not: once enforcement goes by
 * service accounts, it is not let in again. A record that names an SCC which the account may use counts for the account.
 */
export function isUserCaused(pod: Pod, { sccMode, mayUse }: ProvenanceContext): boolean {
  const { annotations } = pod.metadata ?? {};
  if (sccMode !== 'enforce' || annotations?.[POD_SCC_ANNOTATIONS.subjectType] !== 'user') return false;
  const scc = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  return scc === '' || !mayUse(pod.spec?.serviceAccountName ?? 'default', scc);
}
