import type { Store } from '../../cluster/store.ts';
import { UserError } from '../../config/files.ts';
import { sortedSet, quote } from '../../kube/text.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';

/**
 * The SCC of that name.
 * @throws {UserError} that names the SCCs that there are
 */
export function findScc(store: Store, name: string): SecurityContextConstraints {
  const scc = store.get('SecurityContextConstraints', name);
  if (scc) return scc;
  const names = sortedSet(store.list('SecurityContextConstraints').map(({ metadata }) => metadata?.name ?? ''));
  throw new UserError(`there is no SCC ${quote(name)}; there are ${names.length === 0 ? 'none' : names.join(', ')}`);
}
