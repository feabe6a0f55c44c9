import { CONFIGURATION_NAME, OPTIONAL_FEATURES } from '../../../api/names.ts';
import { isPartOfPortcullis } from '../../../api/webhooks.ts';
import { type DoctorCheck, type CheckResult, evaluateFact, type Facts, info, ok, problem, warning } from '../facts.ts';
import { applyManifests, instruction, replicaLogs, commandFix } from '../fix.ts';
import { invalidReason } from '../gather.ts';

const OBJECT = `PortcullisConfiguration ${CONFIGURATION_NAME}`;
const EDIT = commandFix('kubectl', 'edit', 'portcullisconfiguration', CONFIGURATION_NAME);

const LAST_VALID = 'replicas apply the last valid settings';
const NONE_RECORDED =
  'replicas keep the last valid settings. No settings are recorded, so a new replica does not become ready';

/** Controller conditions whose status `False` requires action. */
const REPORTED: ReadonlyMap<string, Pick<CheckResult, 'impact' | 'fix'>> = new Map([
  [
    'PodsReviewed',
    {
      impact: 'these pods keep running, and are not changed or deleted',
      fix: {
        ...commandFix(
          'kubectl',
          'get',
          'portcullisconfiguration',
          CONFIGURATION_NAME,
          '-o=jsonpath={.status.unreviewedPods}',
        ),
        note: 'lists the pods to correct and to replace',
      },
    },
  ],
  [
    'KubeletMinimumEnforced',
    {
      impact: 'these API servers do not deny requests from nodes with an older kubelet',
      fix: instruction(
        'configure the authorization webhook in the API servers, see portcullis install --profile=control-plane',
      ),
    },
  ],
]);

/**
 * Reports a missing settings object. The leader creates the object, and restores it if it is deleted without
 * confirmation.
 */
function evaluateMissing({ webhookConfigurations }: Facts): CheckResult {
  if (!webhookConfigurations.some(isPartOfPortcullis)) return info(OBJECT, 'does not exist. The leader creates it');
  return problem(OBJECT, 'does not exist, and the leader has not restored it', {
    impact: 'replicas use the last valid settings until they stop. New replicas do not become ready',
    fix: instruction(
      'create it with your settings. If its spec is empty, the initial settings of the Deployment apply',
    ),
  });
}

/** Checks that the policy settings are valid and in force. */
export const configuration: DoctorCheck = {
  name: 'configuration',
  evaluate: (facts) =>
    evaluateFact(facts.settingsObject, 'configuration', (object) => {
      const { namespace, settings } = facts;
      if (!object) return [evaluateMissing(facts)];
      const { metadata, status } = object;
      const spec = object.spec ?? {};
      const invalid = invalidReason(spec, namespace);
      if (invalid !== undefined) {
        return [problem(OBJECT, invalid, { impact: status?.applied ? LAST_VALID : NONE_RECORDED, fix: EDIT })];
      }
      const missing = OPTIONAL_FEATURES.find((feature) => !settings.features[feature] && spec[feature] != null);
      if (missing !== undefined) {
        const message = `spec.${missing} is set, but the ${missing} feature is not installed`;
        const patch = JSON.stringify({ spec: { [missing]: null } });
        const fix = commandFix(
          'kubectl',
          'patch',
          'portcullisconfiguration',
          CONFIGURATION_NAME,
          '--type=merge',
          '-p',
          patch,
        );
        const impact = 'Portcullis ignores these settings. To use them, install the feature instead: ';
        return [warning(OBJECT, message, { impact, alternative: applyManifests(facts, missing), fix })];
      }
      const failed = (status?.conditions ?? []).filter((condition) => condition.status === 'False');
      // The conditions of optional features are reported separately.
      const rejected = failed.find(({ type }) => type === 'Accepted' || type === 'Applied');
      if (rejected) {
        const { type, message } = rejected;
        const fix = type === 'Accepted' ? EDIT : replicaLogs(facts);
        return [warning(OBJECT, `${type} is False: ${message}`, { impact: LAST_VALID, fix })];
      }
      const overridden = status?.conditions?.find(({ reason }) => reason === 'InitialSettingsOverridden');
      return [
        ok(OBJECT, `generation ${metadata?.generation ?? 0} is valid and in force`),
        ...failed.flatMap(({ type, message }) => {
          const details = REPORTED.get(type);
          return details ? [warning(OBJECT, `${type} is False: ${message}`, details)] : [];
        }),
        ...(overridden ? [info(OBJECT, overridden.message)] : []),
      ];
    }),
};
