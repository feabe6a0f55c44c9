import { forbiddenField, printFieldError } from '../../kube/field-error.ts';
import { fitsScc, type PassedOver, type SearchInput } from './search.ts';

const HINT = printFieldError(
  forbiddenField(
    'no access to scc/restricted',
    'the pod fails to validate against the `restricted-v2` security context constraint, but would validate successfully against the `restricted` security context constraint',
  ),
);

/**
 * What to say if no SCC was found and the pod would fit `restricted`, which everybody could use before there was
 * `restricted-v2`.
 */
export function hintTexts(search: SearchInput, passedOver: readonly PassedOver[]): readonly string[] {
  const restricted = passedOver.find(({ scc, because }) => because === 'denied' && scc.name === 'restricted');
  const isSuperseded = passedOver.some(({ scc }) => scc.name === 'restricted-v2');
  if (restricted === undefined || !isSuperseded) return [];
  return fitsScc(restricted.scc, search) ? [HINT] : [];
}
