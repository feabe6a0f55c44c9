import { isOpenShift, patchSettings } from '../../installation/settings.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  type Fix,
  info,
  ok,
  problem,
  unknown,
} from '../facts.ts';
import { ownWebhooks } from '../matching.ts';
import { restoreConfigurations } from './webhooks.ts';

/** Detects the PodSecurity plugin of the API server and OpenShift's SCC admission. */
export const otherAdmission: DoctorCheck = {
  name: 'other-admission',
  evaluate: (facts) => [...evaluatePlugin(facts), ...evaluatePlatform(facts)],
};

export const PLUGIN = 'PodSecurity plugin';

const POD_SECURITY_WEBHOOK = 'validate.pods.portcullis.dev';
/** Webhooks that are registered only if SCC admission is not off. */
const SCC_WEBHOOKS: readonly string[] = ['mutate.pods.portcullis.dev', 'connect.pods.portcullis.dev'];

/**
 * Returns the component that denied a violating pod. The API server evaluates policies after the plugin, and a denial
 * by a policy contains the name of the policy.
 */
export function podSecurityEvaluator(rejection = ''): 'plugin' | 'policy' | undefined {
  if (!rejection.includes('violates PodSecurity "')) return undefined;
  return rejection.includes("ValidatingAdmissionPolicy '") ? 'policy' : 'plugin';
}

/**
 * Detects the plugin in the installation namespace, whose level is restricted. The webhook excludes this namespace, so
 * only the plugin denies pods there.
 */
function evaluatePlugin(facts: Facts): readonly CheckResult[] {
  const { probes, webhookConfigurations, namespaces } = facts;
  const isRegistered = ownWebhooks(webhookConfigurations).some(({ webhook }) => webhook.name === POD_SECURITY_WEBHOOK);
  const undetected = (reason: string): readonly CheckResult[] => [
    unknown(PLUGIN, `cannot detect whether it is enabled: ${reason}`),
  ];
  const probe = probes.find(({ id }) => id === 'a violating pod');
  if (!probe) {
    return evaluateFact(namespaces, PLUGIN, () => undetected('the installation namespace has no enforce label'));
  }
  const { rejection } = probe;
  if (rejection === undefined) {
    if (isRegistered) return [ok(PLUGIN, 'is disabled. Only Portcullis evaluates pods')];
    return [
      problem(PLUGIN, `is disabled, and ${POD_SECURITY_WEBHOOK} is not registered`, {
        impact: 'no component evaluates pods against the labels of their namespaces',
        fix: restoreConfigurations(facts),
      }),
    ];
  }
  const evaluator = podSecurityEvaluator(rejection);
  if (evaluator === undefined) return undetected(rejection);
  if (evaluator === 'policy') {
    const evaluators = isRegistered ? 'ValidatingAdmissionPolicies and Portcullis' : 'Only ValidatingAdmissionPolicies';
    return [ok(PLUGIN, `is disabled. ${evaluators} evaluate pods`)];
  }
  if (!isRegistered) {
    return [info(PLUGIN, `is enabled, but ${POD_SECURITY_WEBHOOK} is not registered. Only the plugin evaluates pods`)];
  }
  return [
    info(PLUGIN, 'is enabled and evaluates pods before Portcullis. Identical warnings are shown once', {
      impact: 'exemptions and defaults of the Portcullis configuration do not apply to the plugin',
    }),
  ];
}

const SCC_ADMISSION = 'SCC admission';
const SCC_ANNOTATION = 'openshift.io/scc';

const SCC_OFF: Fix = { commands: [patchSettings([{ path: ['scc', 'mode'], value: 'off' }])] };

function evaluatePlatform(facts: Facts): readonly CheckResult[] {
  const { server, probes, webhookConfigurations, namespace } = facts;
  return evaluateFact(server, SCC_ADMISSION, (facts) => {
    const probe = probes.find((candidate) => candidate.id === 'a pod' && candidate.namespace?.name === namespace);
    const isAnnotated = probe?.object?.metadata.annotations?.[SCC_ANNOTATION] !== undefined;
    if (!isOpenShift(facts) && !isAnnotated) return [];
    const message = `the cluster has its own SCC admission${isOpenShift(facts) ? ' (OpenShift)' : ''}`;
    const names = ownWebhooks(webhookConfigurations)
      .map(({ webhook }) => webhook.name)
      .filter((name) => SCC_WEBHOOKS.includes(name));
    if (names.length === 0) return [ok(SCC_ADMISSION, `${message}, and SCC admission of Portcullis is off`)];
    const impact = 'both assign SCCs to pods and ranges to namespaces, and overwrite each other';
    return [
      problem(SCC_ADMISSION, `${message}, and Portcullis has registered ${names.join(', ')}`, { impact, fix: SCC_OFF }),
    ];
  });
}
