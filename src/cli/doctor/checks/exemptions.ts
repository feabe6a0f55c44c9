import { summarizeNames } from '../../../kube/text.ts';
import type { ExemptionProblem } from '../../../views/exemption-problems.ts';
import { type CheckResult, type DoctorCheck, evaluateFact, warning } from '../facts.ts';
import { instruction } from '../fix.ts';

const FIELDS = { namespace: 'namespaces', user: 'usernames', runtimeClass: 'runtimeClasses' } as const;

export const exemptions: DoctorCheck = {
  name: 'exemptions',
  evaluate: (facts) => evaluateFact(facts.exemptionProblems, 'exemptions', describeExemptionProblems),
};

/** Reports exemptions that have no effect, or that exempt more users than their names state. */
export function describeExemptionProblems(problems: readonly ExemptionProblem[]): readonly CheckResult[] {
  return Array.from(
    Map.groupBy(problems, ({ kind, problem }) => `spec.podSecurity.exemptions.${FIELDS[kind]}\n${problem}`),
    ([key, group]) => {
      const [field = '', problem = ''] = key.split('\n');
      const fix = instruction(`remove them from ${field} unless this is intended`);
      return warning(`${field} ${summarizeNames(group.map(({ name }) => name))}`, problem, { fix });
    },
  );
}
