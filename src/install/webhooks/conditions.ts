/**
 * Match conditions: what an API server need not ask about, since the answer would change nothing. While nobody answers,
 * finalizers can still be taken off pods, and namespaces can still be deleted.
 */
import type { V1MatchCondition } from '@kubernetes/client-node';
import type { Wire } from '../../kube/types.ts';

type MatchCondition = Wire<V1MatchCondition>;

const NOT_AN_UPDATE_OF_OTHER_THINGS = 'not-an-update-of-other-things';

/** An absent map is an empty one. */
function differ(field: 'labels' | 'annotations'): string {
  const map = (object: string): string => `(has(${object}.metadata.${field}) ? ${object}.metadata.${field} : {})`;
  return `${map('object')} != ${map('oldObject')}`;
}

const SPEC_OR_ANNOTATIONS = `object.spec != oldObject.spec || ${differ('annotations')}`;

/** Of pods and namespaces Pod Security looks at no more than this. */
export const POD_SECURITY_CONDITIONS: readonly MatchCondition[] = [
  {
    name: NOT_AN_UPDATE_OF_OTHER_THINGS,
    expression: `request.operation != 'UPDATE' || (request.resource.resource == 'namespaces' ? ${differ('labels')} : ${SPEC_OR_ANNOTATIONS})`,
  },
];

/** SCCs do not count for Windows pods. */
export const SCC_CONDITIONS: readonly MatchCondition[] = [
  { name: 'not-windows', expression: "!has(object.spec.os) || object.spec.os.name != 'windows'" },
  {
    name: NOT_AN_UPDATE_OF_OTHER_THINGS,
    expression: `request.operation != 'UPDATE' || object.spec != oldObject.spec || ${differ('labels')} || ${differ('annotations')}`,
  },
];
