import { settingAt } from '../../../config/setting-paths.ts';
import { shellQuote } from '../../../kube/text.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { CONFIGURATION_NAME, OPTIONAL_FEATURES } from '../../../kube/well-known.ts';
import { evaluateFact, FIXES, info, ok, problem, warning, type Check, type CheckResult } from '../facts.ts';
import { invalidReason, settingErrors } from '../gather.ts';

const OBJECT = `PortcullisConfiguration ${CONFIGURATION_NAME}`;

/** The policy settings are valid and in force. */
export const configuration: Check = {
  name: 'configuration',
  evaluate: (facts) =>
    evaluateFact(facts.configuration, 'configuration', (object) => {
      const { namespace, settings } = facts;
      if (!object) return [info(OBJECT, 'does not exist; the leader creates it')];
      const invalid = invalidReason(object.spec ?? {}, namespace);
      if (invalid !== undefined) {
        const fix = removeEntries(object.spec ?? {}, namespace) ?? FIXES.settings;
        const impact = object.status?.applied ? LAST_VALID : NONE_RECORDED;
        return [problem(OBJECT, invalid, { impact, fix })];
      }
      const missing = OPTIONAL_FEATURES.find((one) => !settings.features[one] && object.spec?.[one] != null);
      if (missing !== undefined) {
        return [
          warning(OBJECT, `spec.${missing} is set, and the feature ${missing} is not installed`, {
            impact: 'these settings have no effect',
            fix: `portcullis install --${missing} | kubectl apply --server-side -f -`,
          }),
        ];
      }
      const { generation } = object.metadata ?? {};
      const { conditions = [] } = object.status ?? {};
      const failed = conditions.find(({ type, status }) => status === 'False' && CONDITIONS.includes(type));
      if (failed) {
        return [
          warning(OBJECT, `${failed.type} is False: ${failed.message}`, {
            impact: LAST_VALID,
            fix: failed.type === 'Accepted' ? FIXES.settings : FIXES.logs(facts),
          }),
        ];
      }
      const reported = conditions.flatMap(({ type, status, message }) => {
        const details = status === 'False' ? REPORTED.get(type) : undefined;
        return details ? [warning(OBJECT, `${type} is False: ${message}`, details)] : [];
      });
      const overridden = conditions.find(({ reason }) => reason === 'InitialSettingsOverridden');
      return [
        ok(OBJECT, `generation ${generation ?? 0} is valid and in force`),
        ...reported,
        ...(overridden ? [info(OBJECT, overridden.message)] : []),
      ];
    }),
};

/** Conditions of controllers whose status `False` requires an action. */
const REPORTED: ReadonlyMap<string, Pick<CheckResult, 'impact' | 'fix'>> = new Map([
  [
    'PodsReviewed',
    {
      impact: 'these pods run, and are not changed or deleted',
      fix: `kubectl get portcullisconfiguration ${CONFIGURATION_NAME} -o jsonpath='{.status.unreviewedPods}' # then correct and replace each pod`,
    },
  ],
  [
    'KubeletMinimumEnforced',
    {
      impact: 'these API servers do not deny requests of nodes with an older kubelet',
      fix: '# configure the authorization webhook in the API servers: portcullis install --profile=control-plane',
    },
  ],
]);

/** The conditions of the settings. Features have other conditions. */
const CONDITIONS = ['Accepted', 'Applied'];

const LAST_VALID = 'replicas apply the last valid settings';
const NONE_RECORDED =
  'replicas keep the last valid settings; none are recorded, so a replica that starts does not become ready';

/**
 * Returns the command that removes the invalid entries of lists; `undefined` if other values are invalid, too, since no
 * command can choose their replacement. The command fails if the settings have changed since they were read.
 */
function removeEntries(spec: JsonObject, namespace: string): string | undefined {
  const paths = new Set(settingErrors(spec, namespace).map(({ path }) => path));
  const entries = [...paths].flatMap((path) => {
    const [, field = '', index = ''] = /^spec\.([\w.]+)\[(\d+)\]$/.exec(path) ?? [];
    const list = settingAt(spec, field.split('.'));
    return Array.isArray(list)
      ? [{ path: `/spec/${field.replaceAll('.', '/')}/${index}`, value: list[Number(index)] as unknown }]
      : [];
  });
  if (entries.length < paths.size) return undefined;
  // The last entry of a list is removed first, so that the indexes of the others stay valid.
  const operations = entries.toReversed().flatMap(({ path, value }) => [
    { op: 'test', path, value },
    { op: 'remove', path },
  ]);
  const patch = shellQuote(JSON.stringify(operations));
  return `kubectl patch portcullisconfiguration ${CONFIGURATION_NAME} --type=json -p ${patch}`;
}
