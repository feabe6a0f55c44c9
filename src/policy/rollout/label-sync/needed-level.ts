import type { Namespace } from '../../../kube/types.ts';
import type { Level } from '../../pss/types.ts';
import type { CanUse } from '../../scc/types.ts';
import type { SccLevels } from './scc-levels.ts';
import { mayUseAs } from './usable-sccs.ts';

/** The level that a namespace needs, and for whom. */
export interface NeededLevel {
  readonly level: Level;
  /** The service account and the SCC for which it is not stricter; absent if no account may use any SCC. */
  readonly cause?: { readonly serviceAccount: string; readonly scc: string };
  /** What the original rules could not judge in that SCC. */
  readonly doubt?: string;
}

interface NeedInput {
  readonly namespace: Namespace;
  /** The names of all of them. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly canUse: CanUse;
}

/**
 * The strictest level that admits all that the service accounts of a namespace may run. Where they may run nothing, no level
 * is too strict.
 */
export function neededLevelOf({ namespace, serviceAccounts, sccLevels, canUse }: NeedInput): NeededLevel {
  const namespaceName = namespace.metadata?.name ?? '';
  const accounts = serviceAccounts.map((name) => ({ name, mayUse: mayUseAs(name, namespaceName, canUse) }));
  for (const { scc, level, doubt } of sccLevels(namespace)) {
    const account = accounts.find(({ mayUse }) => mayUse(scc));
    if (account === undefined) continue;
    const cause = { serviceAccount: account.name, scc: scc.metadata?.name ?? '' };
    return { level, cause, ...(doubt === undefined ? {} : { doubt }) };
  }
  return { level: 'restricted' };
}
