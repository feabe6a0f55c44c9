import type { Setting } from '../../../config/setting-paths.ts';
import { decodePolicy } from '../../../install/index.ts';
import { type JsonObject, valueAt } from '../../../kube/types.ts';
import { LABELS } from '../../../policy/psa/policy.ts';
import { deleteAllCommand } from '../../installed/serverless.ts';
import { patchSettings } from '../../installed/settings.ts';
import {
  type Check,
  type CheckName,
  type Facts,
  factValue,
  type Fix,
  type ServerlessFacts,
  warning,
} from '../facts.ts';
import { instruction } from '../fix.ts';

/** Reports the policies of a serverless installation. The fix deletes them if the server is at least as strict. */
export const policies: Check = {
  name: 'policies',
  evaluate: (facts) =>
    facts.serverless
      ? [
          warning('policies', 'from an installation without a server exist alongside the server', {
            impact:
              'they enforce the settings in their annotation in addition to the settings of the server. portcullis uninstall --keep-policies removes the server',
            fix: { ...replacePolicies(facts.serverless, facts), after: SERVER_CHECKS },
          }),
        ]
      : [],
};

/** If any of these checks fails, the policies may be the only enforcement. */
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

function replacePolicies({ policies, spec, weaker: comparison }: ServerlessFacts, facts: Facts): Fix {
  if (!('value' in comparison))
    return instruction(`first determine the enforcement of the server: ${comparison.unknown}`);
  const weaker = comparison.value;
  const { conditions = [] } = factValue(facts.settingsObject)?.status ?? {};
  if (conditions.some(({ type, status }) => type === 'Applied' && status === 'False')) {
    return instruction('wait until the settings are in force');
  }
  if (weaker.length === 0) return { commands: [deleteAllCommand(policies)] };
  if (decodePolicy(facts.settings).rollout.phase !== 'Disabled') {
    return instruction(
      `delete the policies once the rollout enforces at least as much, see portcullis rollout status. They still enforce more: ${weaker.join('; ')}`,
    );
  }
  const paths = weaker.map((one) => one.split(' ', 1).join().split('.'));
  const settings = paths.map((path) => ({ path, value: valueAt(spec, path) ?? null }));
  return { commands: [patchSettings([...addedExemptions(paths, spec, facts), ...settings])] };
}

const EXEMPT_NAMESPACES = ['podSecurity', 'exemptions', 'namespaces'];

/**
 * If the fix adds a default level to the server settings, exempts from it the namespaces that the policies exempt, such
 * as kube-system. Namespaces with a label are not exempted, so the server continues to enforce their label.
 */
function addedExemptions(
  paths: readonly (readonly string[])[],
  spec: JsonObject,
  { settings, namespaces }: Facts,
): readonly Setting[] {
  const { defaults } = decodePolicy(settings).podSecurity.configuration;
  const isSet = paths.some((path) => path.join('.') === 'podSecurity.defaults.enforce');
  if (!isSet || defaults.enforce !== 'privileged') return [];
  const listAt = (root: JsonObject): readonly unknown[] => {
    const value = valueAt(root, EXEMPT_NAMESPACES);
    return Array.isArray(value) ? value : [];
  };
  const isLabeled = (exempt: unknown): boolean =>
    factValue(namespaces)?.some(({ name, labels }) => name === exempt && LABELS.enforce.level in labels) === true;
  const before = listAt(settings.policy);
  const added = listAt(spec).filter((name) => !before.includes(name) && !isLabeled(name));
  return added.length === 0 ? [] : [{ path: EXEMPT_NAMESPACES, value: [...before, ...added] }];
}
