import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { explainScc } from './explain.ts';
import { printObstacle } from './warnings.ts';

/**
 * The fields of a pod, each with its value, for which an SCC would not admit it if it were created now; none if it would.
 */
export function misfitsOf(pod: Pod, scc: SecurityContextConstraints, namespace: Namespace): readonly string[] {
  const input = { operation: 'CREATE', object: pod, namespace, userInfo: {}, sccs: [scc], canUse: () => true } as const;
  return explainScc(input).sccs.flatMap(({ obstacles }) => obstacles.map(printObstacle));
}
