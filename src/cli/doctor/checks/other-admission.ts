import { decodePolicy } from '../../../install/index.ts';
import { CONFIGURATION_NAME } from '../../../kube/well-known.ts';
import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import type { Configuration } from '../../installation.ts';
import { evaluateFact, FIXES, info, ok, problem, unknown, type Check, type CheckResult, type Facts } from '../facts.ts';
import { ownWebhooks } from '../matching.ts';
import { webhooks } from './webhooks.ts';

/** Detects the PodSecurity plugin of the API server, and the SCC admission of OpenShift. */
export const otherAdmission: Check = {
  name: 'other-admission',
  evaluate: (facts) => [...evaluatePlugin(facts), ...evaluatePlatform(facts)],
};

const PLUGIN_DENIAL = /violates PodSecurity "/;
/** The API server evaluates policies after the plugin, and names them in a denial. */
const POLICY_DENIAL = /ValidatingAdmissionPolicy '/;
const PLUGIN = 'PodSecurity plugin';

/** The namespace of the installation is restricted, and the webhook excludes it: only the plugin denies pods there. */
function evaluatePlugin(facts: Facts): readonly CheckResult[] {
  const { probes, configurations, namespaces } = facts;
  const isRegistered = ownWebhooks(configurations).some(({ webhook }) => webhook.name === 'psa.portcullis.dev');
  const undetected = (reason: string): readonly CheckResult[] => [
    unknown(PLUGIN, `cannot detect whether it is enabled: ${reason}`),
  ];
  const probe = probes.find(({ id }) => id === 'a violating pod');
  if (!probe) {
    return evaluateFact(namespaces, PLUGIN, () => undetected('the namespace of the installation has no enforce label'));
  }
  const { refusal } = probe;
  if (refusal !== undefined && !PLUGIN_DENIAL.test(refusal)) return undetected(refusal);
  if (refusal !== undefined && POLICY_DENIAL.test(refusal)) {
    const evaluators = isRegistered ? 'ValidatingAdmissionPolicies and Portcullis' : 'only ValidatingAdmissionPolicies';
    return [ok(PLUGIN, `is disabled: ${evaluators} evaluate pods`)];
  }
  if (refusal !== undefined) {
    return isRegistered
      ? [
          info(
            PLUGIN,
            'is enabled: it evaluates pods before Portcullis; identical warnings are shown once',
            'exemptions and defaults of the Portcullis configuration do not apply to the plugin',
          ),
        ]
      : [info(PLUGIN, 'is enabled, and psa.portcullis.dev is not registered: only the plugin evaluates pods')];
  }
  if (isRegistered) return [ok(PLUGIN, 'is disabled: only Portcullis evaluates pods')];
  return [
    problem(PLUGIN, 'is disabled, and psa.portcullis.dev is not registered', {
      impact: 'no component evaluates pods against the labels of their namespaces',
      fix: webhooks.evaluate(facts).find(({ object }) => object.endsWith('psa.portcullis.dev'))?.fix ?? FIXES.settings,
    }),
  ];
}

const SCC_ADMISSION = 'SCC admission';
const SCC_ANNOTATION = 'openshift.io/scc';
/** Groups that only OpenShift serves. CustomResourceDefinitions on other clusters serve its other groups. */
const OPENSHIFT_GROUPS = ['operator.openshift.io', 'route.openshift.io'];
/** The leader deletes the webhooks of a feature that is off. */
function formatOff(settings: Facts['settings'], registered: readonly Configuration[]): string {
  const off = `kubectl patch portcullisconfiguration ${CONFIGURATION_NAME} --type=merge -p '{"spec":{"scc":{"mode":"off"}}}'`;
  if (decodePolicy(settings).webhooks.management === 'managed') return off;
  return `${off} && kubectl delete ${registered.map(({ kind, name }) => `${kind.toLowerCase()}/${name}`).join(' ')}`;
}

function evaluatePlatform({ server, probes, configurations, namespace, settings }: Facts): readonly CheckResult[] {
  return evaluateFact(server, SCC_ADMISSION, ({ groups }) => {
    const probe = probes.find((candidate) => candidate.id === 'a pod' && candidate.namespace?.name === namespace);
    const isAnnotated = probe?.object?.metadata.annotations?.[SCC_ANNOTATION] !== undefined;
    const isOpenShift = OPENSHIFT_GROUPS.some((group) => groups.includes(group));
    if (!isOpenShift && !isAnnotated) return [];
    const message = `the cluster has its own SCC admission${isOpenShift ? ' (OpenShift)' : ''}`;
    const registered = configurations.filter((one) => isPartOfPortcullis(one) && hasSccWebhooks(one));
    if (registered.length === 0) return [ok(SCC_ADMISSION, `${message}, and that of Portcullis is off`)];
    return [
      problem(
        SCC_ADMISSION,
        `${message}, and ${registered.map(({ name }) => name).join(', ')} ${registered.length === 1 ? 'is' : 'are'} registered`,
        {
          impact: 'both assign SCCs to pods and ranges to namespaces, and overwrite each other',
          fix: formatOff(settings, registered),
        },
      ),
    ];
  });
}

function hasSccWebhooks({ webhooks }: Configuration): boolean {
  return webhooks.some(({ name }) => name.endsWith('.scc.portcullis.dev'));
}
