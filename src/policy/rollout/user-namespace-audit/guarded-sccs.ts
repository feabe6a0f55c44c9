import { NAMESPACE_RANGE_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { Namespace } from '../../../kube/types.ts';
import { psaLevelOf } from '../scc-level.ts';

/**
 * The SCCs that require user namespaces, by name: `at risk` if their pods would have more than restricted rights without
 * them, else `harmless`.
 */
export type GuardedSccs = ReadonlyMap<string, GuardedScc>;

export interface GuardedScc {
  readonly scc: SecurityContextConstraints;
  readonly risk: 'at risk' | 'harmless';
}

/** Ranges as every namespace has them: what an SCC leaves to the namespace is no risk. */
const ORDINARY: Namespace = {
  metadata: {
    name: 'any',
    annotations: {
      [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: '1000000000/10000',
      [NAMESPACE_RANGE_ANNOTATIONS.mcs]: 's0:c1,c0',
    },
  },
};

/** Finds and judges them, whatever their names. */
export function guardedSccsOf(sccs: readonly SecurityContextConstraints[]): GuardedSccs {
  const guarded = sccs.filter(({ userNamespaceLevel }) => userNamespaceLevel === 'RequirePodLevel');
  return new Map(guarded.map((scc) => [scc.metadata?.name ?? '', { scc, risk: riskOf(scc) }]));
}

/** OpenShift overlooks capabilities that are added by default, our own conversion does not. */
function riskOf(scc: SecurityContextConstraints): GuardedScc['risk'] {
  const isRestricted = (['upstream', 'accurate'] as const).every(
    (profile) => psaLevelOf(scc, ORDINARY, { profile, userNamespaces: 'ignore' }).level === 'restricted',
  );
  return isRestricted ? 'harmless' : 'at risk';
}
