import { UserError } from '../../config/user-error.ts';
import { defaultSettings, type ManifestSettings } from '../../install/index.ts';
import { PROFILES, type Profile } from '../../install/profiles.ts';
import { dnsLabelErrors } from '../../kube/dns-name.ts';
import { quote } from '../../kube/quote.ts';
import { ROLLOUT_PHASES } from '../../policy/rollout/enforcement.ts';
import { SCC_MODES } from '../../policy/scc/mode.ts';
import { AUTHORIZATIONS } from '../../server/scc-access.ts';
import { clusterOptions } from '../installation/options.ts';
import { option, type Option, type OptionText, type Values } from '../options.ts';
import { boolean, integer, objectName, oneOf } from '../values.ts';
import { VERSION } from '../version.ts';
import type { InstallRequest } from './plan.ts';

const DEFAULTS = defaultSettings(VERSION);

export const installOptions = {
  ...clusterOptions,
  profile: option('NAME', oneOf(Object.keys(PROFILES) as Profile[]), undefined, {
    help: `Look at no cluster, and print one of ${Object.keys(PROFILES).join(', ')}`,
  }),
  namespace: option('NAME', namespaceName, DEFAULTS.namespace, { short: 'n', help: 'Namespace of the installation' }),
  image: option('IMAGE', objectName, DEFAULTS.image, {
    help: 'Image of the replicas, with registry and tag or digest',
  }),
  replicas: option('N', integer(1, 15), undefined, { help: `How many replicas; absent, ${DEFAULTS.replicas}` }),
  'scc-mode': option('MODE', oneOf(SCC_MODES), undefined, {
    help: `What becomes of decisions about security context constraints, one of ${SCC_MODES.join(', ')}; off installs nothing of them. Absent, ${DEFAULTS.sccMode}, and off on OpenShift`,
  }),
  rollout: option('PHASE', oneOf(ROLLOUT_PHASES), undefined, {
    help: `How far enforcement of the Pod Security Standards is rolled out, one of ${ROLLOUT_PHASES.join(', ')}. Absent, ${DEFAULTS.rollout}, and Disabled on OpenShift`,
  }),
  authorization: option('BY', oneOf(AUTHORIZATIONS), DEFAULTS.authorization, {
    help: 'Who tells which SCCs a user may use: rbac or sar',
  }),
  'cert-manager': choice({ help: 'Let cert-manager make the serving certificate' }),
  monitoring: choice({
    help: 'With a ServiceMonitor, alerts and a dashboard; absent, where the Prometheus operator is',
  }),
  'runbook-url': option('URL', webAddress, DEFAULTS.runbook, {
    help: 'Your copy of docs/runbook.md, to whose parts the alerts point',
  }),
};

/** What the options ask for; what nobody named is left to the profile, or to what the cluster looks like. */
export function requestOf(values: Values<typeof installOptions>): InstallRequest {
  const { namespace, image, replicas, authorization, 'scc-mode': sccMode, profile, monitoring, rollout } = values;
  const { 'cert-manager': certManager, 'runbook-url': runbook } = values;
  const wanted: Partial<ManifestSettings> = {
    ...(replicas === undefined ? {} : { replicas }),
    ...(sccMode === undefined ? {} : { sccMode }),
    ...(rollout === undefined ? {} : { rollout }),
    ...(certManager === undefined ? {} : { certificates: certManager ? 'cert-manager' : 'self-managed' }),
    ...(monitoring === undefined ? {} : { monitoring: monitoring ? 'prometheus-operator' : 'none' }),
  };
  return { defaults: { ...DEFAULTS, namespace, image, authorization, runbook }, profile, wanted };
}

/** A flag of which it counts whether it was given at all. */
function choice(text: OptionText): Option<boolean | undefined> {
  return { ...text, resolve: ([...texts]) => (texts.length === 0 ? undefined : boolean(texts.at(-1) ?? '')) };
}

function webAddress(value: string): string {
  if (/^https?:\/\/[^#\s]+$/.test(value) && URL.canParse(value)) return value;
  throw new UserError('must be the address of a page, such as https://example.com/runbook.md');
}

function namespaceName(value: string): string {
  const [problem] = dnsLabelErrors(value);
  if (problem !== undefined) throw new UserError(`${quote(value)} is no name of a namespace: ${problem}`);
  return value;
}
