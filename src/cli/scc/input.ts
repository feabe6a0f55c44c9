/** The input of SCC decisions about objects of an inventory: the SCCs with their grants. */
import { canUseScc } from '../../cluster/access.ts';
import type { Store } from '../../cluster/store.ts';
import type { Kind } from '../../kube/types.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';

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
