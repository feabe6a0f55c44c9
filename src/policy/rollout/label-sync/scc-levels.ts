import { NAMESPACE_RANGE_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { Namespace } from '../../../kube/types.ts';
import type { Level } from '../../pss/types.ts';
import { namespaceRangesOf } from '../../scc/namespace-ranges.ts';
import { isStricter } from '../../psa/policy.ts';
import { psaLevelOf, type SccLevelOptions } from '../scc-level.ts';

/** An SCC and the level that its pods keep. */
export interface LevelledScc {
  readonly scc: SecurityContextConstraints;
  readonly level: Level;
  /** What in the SCC could not be judged by the original rules. */
  readonly doubt?: string;
}

/** SCCs with their levels, from the most permissive level on. */
export type SccLevels = (namespace: Namespace) => readonly LevelledScc[];

/** All that SCCs take from a namespace for their level is whether its ids include root. */
const EXAMPLES: readonly Namespace[] = ['1/1', '0/1'].map((range) => ({
  metadata: { name: 'any', annotations: { [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: range } },
}));

/** Judges SCCs once for all namespaces, not once for each. */
export function createSccLevels(sccs: readonly SecurityContextConstraints[], options: SccLevelOptions): SccLevels {
  const [ordinary = [], rooted = []] = EXAMPLES.map((example) => levelsIn(sccs, example, options));
  return (namespace) => {
    const { uidRange } = namespaceRangesOf(namespace);
    return 'value' in uidRange && uidRange.value.min > 0 ? ordinary : rooted;
  };
}

function levelsIn(
  sccs: readonly SecurityContextConstraints[],
  namespace: Namespace,
  options: SccLevelOptions,
): readonly LevelledScc[] {
  return sccs
    .map((scc): LevelledScc => {
      const { level = 'privileged' } = psaLevelOf(scc, namespace, options);
      const { error } = psaLevelOf(scc, namespace, { profile: 'upstream' });
      return { scc, level, ...(error === undefined ? {} : { doubt: error }) };
    })
    .sort((a, b) => Number(isStricter(a.level, b.level)) - Number(isStricter(b.level, a.level)));
}
