import { GUARD_POLICY, POLICY_KINDS } from '../../../api/admission-policies.ts';
import { decodePolicy } from '../../../install/index.ts';
import { summarizeNames } from '../../../kube/text.ts';
import { printSubject, type RbacGrant } from '../../../policy/rbac/index.ts';
import { type CheckResult, type DoctorCheck, evaluateFact, info, ok, problem, warning } from '../facts.ts';
import { instruction, leaderCorrects } from '../fix.ts';

const OBJECT = `policy ${GUARD_POLICY}`;
const LEVELS = 'levels of all namespaces';

/** Checks that the namespace label guard is in force, and lists the users who may lower levels. */
export const guard: DoctorCheck = {
  name: 'guard',
  evaluate(facts) {
    const { labels } = decodePolicy(facts.settings).guard;
    if (labels === 'off') return [];
    return evaluateFact(facts.guard ?? { unknown: 'not read' }, OBJECT, ({ objects, grants }) => [
      POLICY_KINDS.every((kind) => objects.includes(kind))
        ? ok(OBJECT, `is in force in ${labels} mode`)
        : problem(OBJECT, `spec.guard.labels is ${labels}, but the policy or its binding does not exist`, {
            impact: 'users who may update a namespace can lower its level',
            fix: leaderCorrects(facts),
          }),
      ...describeLowerGrants(grants),
    ]);
  },
};

/** Matches groups that contain unprivileged users. */
const BROAD = /^system:(?:authenticated|unauthenticated|serviceaccounts(?::.*)?)$/;

/** Describes the subjects that may lower the level of all namespaces. */
export function describeLowerGrants(grants: readonly RbacGrant[]): readonly CheckResult[] {
  const names = grants.map(({ subject }) => printSubject(subject));
  const broad = grants.filter(({ subject: { kind, name } }) => kind === 'Group' && BROAD.test(name));
  return [
    info(LEVELS, `may be lowered by ${names.length === 0 ? 'no subject' : summarizeNames(names)}`),
    ...broad.map(({ subject, binding }) =>
      warning(LEVELS, `may be lowered by ${printSubject(subject)}`, {
        impact: 'the guard does not protect namespaces from the users of this group',
        fix: instruction(`remove the group from ClusterRoleBinding ${binding.name}, or the lower verb from its role`),
      }),
    ),
  ];
}
