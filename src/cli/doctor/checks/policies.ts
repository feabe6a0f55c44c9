import { deleteAllCommand } from '../../installation/policies.ts';
import {
  type DoctorCheck,
  type CheckName,
  type Facts,
  factValue,
  type Fix,
  type RemainingPolicies,
  warning,
} from '../facts.ts';
import { instruction } from '../fix.ts';

/** Reports the policies of an installation without a server. The fix deletes them if the server is at least as strict. */
export const policies: DoctorCheck = {
  name: 'policies',
  evaluate: (facts) =>
    facts.remainingPolicies
      ? [
          warning('policies', 'from an installation without a server exist alongside the server', {
            impact:
              'they enforce the settings in their annotation in addition to the settings of the server. portcullis uninstall --keep-policies removes the server',
            fix: { ...replacePolicies(facts.remainingPolicies, facts), after: SERVER_CHECKS },
          }),
        ]
      : [],
};

/**
 * Checks that must pass before the policies are deleted. If one of them fails, the policies may be the only
 * enforcement.
 */
const SERVER_CHECKS: readonly CheckName[] = [
  'installation',
  'webhooks',
  'break-glass',
  'reachability',
  'certificates',
  'replicas',
  'leases',
  'configuration',
];

function replacePolicies({ policies, weaker: comparison }: RemainingPolicies, { settingsObject }: Facts): Fix {
  if (!('value' in comparison))
    return instruction(`it is unknown what the server enforces, so first resolve this error: ${comparison.unknown}`);
  const { conditions = [] } = factValue(settingsObject)?.status ?? {};
  if (conditions.some(({ type, status }) => type === 'Applied' && status === 'False')) {
    return instruction('wait until the settings are in force');
  }
  if (comparison.value.length === 0) return { commands: [deleteAllCommand(policies)] };
  return instruction(
    `before you delete the policies, tighten these settings of the server, or wait until its rollout has raised the level: ${comparison.value.join('; ')}`,
  );
}
