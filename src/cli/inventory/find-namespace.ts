import type { Store } from '../../cluster/store.ts';
import { UserError } from '../../config/files.ts';
import { quote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';

/**
 * The namespace of that name.
 * @throws {UserError} if there is none
 */
export function findNamespace(store: Store, name: string): Namespace {
  const namespace = store.get('Namespace', name);
  if (!namespace) throw new UserError(`namespace ${quote(name)} not found`);
  return namespace;
}
