import { summarizeNames } from '../../../kube/text.ts';
import type { ExemptionProblem } from '../../../views/exemptions.ts';
import { type CheckResult, type DoctorCheck, evaluateFact, info, warning } from '../facts.ts';
import { instruction } from '../fix.ts';

const FIELDS = { namespace: 'namespaces', user: 'usernames', runtimeClass: 'runtimeClasses' } as const;

export const exemptions: DoctorCheck = {
  name: 'exemptions',
  evaluate: (facts) => evaluateFact(facts.exemptionProblems, 'exemptions', describeExemptionProblems),
};

/** Reports exemptions that have no effect, or that exempt more users than their names suggest. */
export function describeExemptionProblems(problems: readonly ExemptionProblem[]): readonly CheckResult[] {
  return [...Map.groupBy(problems, ({ kind, problem }) => `${kind} ${problem}`).values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const field = `spec.podSecurity.exemptions.${FIELDS[first.kind]}`;
    const object = `${field} ${summarizeNames(group.map(({ name }) => name))}`;
    if (first.severity === 'info') return [info(object, first.problem)];
    return [warning(object, first.problem, { fix: instruction(`remove them from ${field} unless this is intended`) })];
  });
}
