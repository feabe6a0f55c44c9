import { metadataOwnersOf } from '../kube/managed-fields.ts';
import type { Namespace } from '../kube/types.ts';
import { createSccLevels, needOf, type ManagementSettings, type SccLevels } from '../policy/rollout/label-sync.ts';
import { isManaged } from '../policy/rollout/label-sync/managed.ts';
import { predictedLevelOf } from '../policy/rollout/readiness.ts';
import type { Level } from '../policy/pss/types.ts';
import { canUseScc } from './select.ts';
import type { Store } from './store.ts';

/** Makes the function that tells what enforcement would hold a namespace to; `undefined` where nobody can tell. */
export function createPredictedLevels(
  management: ManagementSettings,
): (namespace: Namespace, store: Store) => Level | undefined {
  const sccLevels = createCurrentSccLevels();
  return (namespace, store) => {
    const owners = metadataOwnersOf(namespace.metadata);
    // Where SCCs are somebody else's, so are the labels; and who cannot tell what belongs to whom says nothing.
    if (management.scc.mode === 'off' || owners === undefined) return predictedLevelOf(namespace);
    if (!isManaged(namespace, owners, management)) return 'restricted';
    const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
    const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
    const need = needOf({ namespace, serviceAccounts, sccLevels: sccLevels(store), canUse: canUseScc(store) });
    return predictedLevelOf(namespace, { isManaged: true, need });
  };
}

/** Tells the levels of the SCCs of now, judged again only when one has changed. */
export function createCurrentSccLevels(): (store: Store) => SccLevels {
  let made: { readonly store: Store; readonly revision: number; readonly levels: SccLevels } | undefined;
  return (store) => {
    const revision = store.revision('SecurityContextConstraints');
    if (made?.store !== store || made.revision !== revision) {
      const levels = createSccLevels(store.list('SecurityContextConstraints'), { profile: 'accurate' });
      made = { store, revision, levels };
    }
    return made.levels;
  };
}
