import { TEMPORARY_GRANTS_ANNOTATION } from '../../../api/names.ts';
import { KUBE_SYSTEM } from '../../../kube/well-known.ts';
import { printSubject } from '../../../policy/rbac/index.ts';
import { type DoctorCheck, type CheckResult, evaluateFact, type SuspectGrant, warning } from '../facts.ts';
import { commandFix } from '../fix.ts';

/**
 * Checks for permanent grants of SCCs that a subject of a temporary grant may have created. RBAC lets the holder of a
 * permission pass it on.
 */
export const grants: DoctorCheck = {
  name: 'grants',
  evaluate: (facts) => evaluateFact(facts.suspectGrants, 'grants of SCCs', (found) => found.flatMap(describeGrant)),
};

function describeGrant({ scc, subject, through, during }: SuspectGrant): readonly CheckResult[] {
  if (during === undefined || !('binding' in through)) return [];
  const { kind, name, namespace } = through.binding;
  const scope = namespace === undefined ? [] : ['-n', namespace];
  const recorded = [...new Set([namespace ?? KUBE_SYSTEM, KUBE_SYSTEM])].join(' or ');
  return [
    warning(
      `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`,
      `permanently grants SCC ${scc} to ${printSubject(subject)}, and was created or changed while the SCC was granted temporarily (${during.from} to ${during.until})`,
      {
        impact: 'a subject of the temporary grant may have created it',
        fix: {
          ...commandFix('kubectl', ...scope, 'delete', kind.toLowerCase(), name),
          note: `only if it is not intended. After you have reviewed all of these grants, remove the record, which is the annotation ${TEMPORARY_GRANTS_ANNOTATION} of namespace ${recorded}`,
        },
      },
    ),
  ];
}
