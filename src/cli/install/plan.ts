/** Defines the options of `install` and `upgrade`, and derives settings from them and from the cluster. */
import { FEATURES, OPTIONAL_FEATURES } from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { type ClusterClient, DEFINITIONS, readServer, type Server } from '../../cluster/client.ts';
import { type Setting, withSetting } from '../../config/setting-paths.ts';
import { readDocuments } from '../../config/yaml.ts';
import { decodePolicy, defaultSettings, type ManifestSettings, MINIMUM_MINOR, PROFILES } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { clusterOptions, ignoreApiError } from '../cluster.ts';
import { VERSION } from '../command.ts';
import { NODES_CONFIG } from '../installation/installation.ts';
import { CHART_CONSEQUENCE, isOpenShift } from '../installation/settings.ts';
import {
  boolean,
  flag,
  integer,
  namespaceName,
  nonEmpty,
  type Option,
  option,
  type OptionText,
  type Values,
} from '../options.ts';

/** Cluster properties that affect the installation. */
export interface ClusterFacts extends Server {
  /** Address of the API server. */
  readonly server: string;
  /** True if the SCC CRD belongs to another product. */
  readonly hasForeignSccs: boolean;
  /** True if the CRD of the minimum kubelet version belongs to another product. */
  readonly hasForeignNodesConfig: boolean;
}

/** Reads the properties of a cluster. Rejects with an ApiError or a UserError if its version cannot be read. */
export async function readClusterFacts(client: ClusterClient): Promise<ClusterFacts> {
  const isForeign = async (name: string): Promise<boolean> => {
    const crd = await client.get(DEFINITIONS, name).catch(ignoreApiError);
    return crd !== undefined && !isPartOfPortcullis(crd);
  };
  const [server, hasForeignSccs, hasForeignNodesConfig] = await Promise.all([
    readServer(client),
    isForeign('securitycontextconstraints.security.openshift.io'),
    isForeign(NODES_CONFIG),
  ]);
  return { ...server, server: client.connection.server, hasForeignSccs, hasForeignNodesConfig };
}

export const DEFAULTS = defaultSettings(VERSION);

/** Options of `install` and `upgrade`. */
export const planOptions = {
  ...clusterOptions,
  'allow-weaker': flag({ help: 'Accept settings that enforce less than the current settings' }),
  namespace: option('NAME', namespaceName, DEFAULTS.namespace, { short: 'n', help: 'Installation namespace' }),
  image: option('IMAGE', nonEmpty, undefined, {
    help: `Image of the replicas, with registry and tag or digest. Default: the current image, or ${DEFAULTS.image}`,
  }),
  replicas: option('N', integer(1, 15), undefined, {
    help: `Replicas. Default: the current number, or ${DEFAULTS.replicas}`,
  }),
  rollout: choice({ help: 'Install the CRDs and permissions for the rollout. Default: true, or false on OpenShift' }),
  scc: choice({ help: 'Install the CRDs, webhooks and controllers for security context constraints. Default: false' }),
  kubelet: choice({ help: 'Install webhooks and controllers for the minimum kubelet version. Default: false' }),
  olm: choice({ help: 'Install webhooks and controllers for the Operator Lifecycle Manager. Default: false' }),
  'nodes-config': choice({ help: `Install the CRD ${NODES_CONFIG} for the minimum kubelet version. Default: false` }),
  set: {
    value: 'PATH=VALUE',
    help: 'Policy setting in the spec of the PortcullisConfiguration, such as rollout.phase=Enforce. The value is YAML. Can be repeated',
    resolve: (texts: readonly string[]) => texts.map(setting),
  },
  'cert-manager': choice({ help: 'Use a serving certificate issued by cert-manager' }),
  monitoring: choice({
    help: 'Print a ServiceMonitor, alerts and a dashboard. Default: true if the cluster has the Prometheus operator',
  }),
  'runbook-url': option('URL', webAddress, undefined, {
    help: 'URL of your copy of docs/how-to/runbook.md, for alerts',
  }),
};

export type PlanValues = Values<typeof planOptions>;

/** Applies the options to the settings of a profile or cluster. Throws a UserError for contradictory options. */
export function applyOptions(base: ManifestSettings, values: PlanValues): ManifestSettings {
  const features = Object.fromEntries(
    FEATURES.map((name) => [name, values[name] ?? base.features[name]]),
  ) as ManifestSettings['features'];
  const { namespace, image = base.image, replicas = base.replicas, monitoring, 'cert-manager': certManager } = values;
  const policy = values.set.reduce(withSetting, base.policy);
  const settings: ManifestSettings = {
    ...base,
    namespace,
    image,
    replicas,
    runbook: values['runbook-url'] ?? base.runbook,
    features,
    policy,
    nodesConfig: (values['nodes-config'] ?? base.nodesConfig) && features.kubelet,
    ...(certManager === undefined ? {} : { certificates: certManager ? 'cert-manager' : 'self-managed' }),
    ...(monitoring === undefined ? {} : { monitoring: monitoring ? 'prometheus-operator' : 'none' }),
  };
  const { phase } = decodePolicy(settings).rollout;
  if (!features.rollout && phase !== 'Disabled') {
    throw new UserError(`--set=rollout.phase=${phase} requires the CRDs of the rollout: remove --rollout=false`);
  }
  const missing = OPTIONAL_FEATURES.find((feature) => !features[feature] && policy[feature] != null);
  if (missing !== undefined) {
    const fix =
      values[missing] === false ? `remove --${missing}=false, or add --set=${missing}=null` : `add --${missing}`;
    throw new UserError(`spec.${missing} requires the ${missing} feature: ${fix}`);
  }
  if (values['nodes-config'] === true && !features.kubelet) {
    throw new UserError('--nodes-config requires the kubelet feature: add --kubelet');
  }
  return settings;
}

/** Parses a `--set` argument. */
function setting(argument: string): Setting {
  const [, path = '', text = ''] = /^([\w.]+)=(.*)$/s.exec(argument) ?? [];
  if (path === '') throw new UserError(`${quote(argument)} must be a setting such as rollout.phase=Enforce`);
  if (text.trim() === '') throw new UserError(`${path} has no value: use ${path}=null for the default`);
  const { documents, errors } = readDocuments(text, '--set');
  const [error] = errors;
  if (error) throw new UserError(`${path}: ${error.message}`);
  const value = documents[0]?.value ?? null;
  // The parser reads `off` as a boolean, as in YAML 1.1.
  return { path: path.split('.'), value: path.endsWith('.mode') && value === false ? 'off' : value };
}

/** Defines a flag whose value is `undefined` unless it is set. */
function choice(text: OptionText): Option<boolean | undefined> {
  return { ...text, resolve: (texts) => (texts.length === 0 ? undefined : boolean(texts.at(-1) ?? '')) };
}

function webAddress(value: string): string {
  if (/^https?:\/\/[^#\s]+$/.test(value) && URL.canParse(value)) return value;
  throw new UserError('must be the URL of a page, such as https://example.com/runbook.md');
}

const CERT_MANAGER = 'cert-manager.io';
const PROMETHEUS_OPERATOR = 'monitoring.coreos.com';

/**
 * Returns the settings to install in a cluster, and the assumptions. The cluster may already have settings. Throws a
 * UserError if the cluster does not support the settings.
 */
export function planForCluster(facts: ClusterFacts, installed: Partial<ManifestSettings>, values: PlanValues) {
  const base: ManifestSettings = {
    ...DEFAULTS,
    ...(isOpenShift(facts) ? PROFILES['without-rollout'] : {}),
    ...(facts.groups.includes(PROMETHEUS_OPERATOR) ? PROFILES.monitoring : {}),
    ...installed,
  };
  const settings = applyOptions(base, values);
  const problem = findProblem(facts, settings);
  if (problem !== undefined) throw new UserError(problem);
  return { settings, notes: formatNotes(facts, settings) };
}

function findProblem(facts: ClusterFacts, settings: ManifestSettings): string | undefined {
  const { server, version, groups, hasForeignNodesConfig } = facts;
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is required`;
  }
  if (isOpenShift(facts) && settings.features.scc) {
    return '--scc: OpenShift has its own SCC admission, which conflicts with Portcullis SCC admission: remove --scc';
  }
  if (settings.nodesConfig && hasForeignNodesConfig) {
    return `--nodes-config: another product has defined ${NODES_CONFIG}, and Portcullis reads its object: remove the option`;
  }
  if (settings.certificates === 'cert-manager' && !groups.includes(CERT_MANAGER)) {
    return `--cert-manager: ${server} does not serve ${CERT_MANAGER}: install cert-manager first, or remove the option`;
  }
  return settings.monitoring === 'prometheus-operator' && !groups.includes(PROMETHEUS_OPERATOR)
    ? `--monitoring: ${server} does not serve ${PROMETHEUS_OPERATOR}: install the Prometheus operator first, or remove the option`
    : undefined;
}

/**
 * Returns true if the version is older than the oldest supported version. Version v0.0.0, which API servers built from
 * source report, is accepted.
 */
function isTooOld(version: string): boolean {
  const minor = /^v?1\.(\d+)/.exec(version)?.[1];
  return minor !== undefined && Number(minor) < MINIMUM_MINOR;
}

function formatNotes(facts: ClusterFacts, settings: ManifestSettings): readonly string[] {
  const { server, version, groups, hasForeignSccs } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (isOpenShift(facts)) notes.push('detected OpenShift, which manages SCCs, their CRDs and ranges');
  else if (settings.features.scc) {
    if (!groups.includes(RESOURCES.SecurityContextConstraints.group))
      notes.push(`the cluster will serve security.openshift.io, so ${CHART_CONSEQUENCE}`);
    if (hasForeignSccs) notes.push('the SCC CRD belongs to another product and is replaced');
  }
  if (settings.nodesConfig) {
    notes.push(
      'the cluster will serve config.openshift.io/v1, so programs that detect OpenShift by this group treat the cluster as OpenShift',
    );
  }
  if (settings.monitoring === 'prometheus-operator') {
    notes.push(
      'detected the Prometheus operator: the output contains a ServiceMonitor and alerts; --monitoring=false omits them',
    );
  }
  if (settings.certificates === 'self-managed' && groups.includes(CERT_MANAGER)) {
    notes.push(
      'detected cert-manager: with --cert-manager, it issues the serving certificate; otherwise, the replicas create it',
    );
  }
  return notes;
}
