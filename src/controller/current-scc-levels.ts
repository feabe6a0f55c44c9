import type { Store } from '../cluster/store.ts';
import { createSccLevels, type SccLevels } from '../policy/psa/label-sync.ts';

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
