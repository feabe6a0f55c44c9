/** The options of `install` and `upgrade`, and the settings that follow from them and from the cluster. */
import { type ClusterClient, DEFINITIONS, readServer, type Server } from '../../cluster/client.ts';
import { UserError } from '../../config/files.ts';
import { type Setting, withSetting } from '../../config/setting-paths.ts';
import { readDocuments } from '../../config/yaml.ts';
import { decodePolicy, defaultSettings, type ManifestSettings } from '../../install/index.ts';
import { MINIMUM_MINOR, PROFILES } from '../../install/settings.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { KubeObject } from '../../kube/types.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import { OPTIONAL_FEATURES } from '../../kube/well-known.ts';
import { clusterOptions, dryRunOption } from '../cluster.ts';
import { VERSION } from '../command.ts';
import {
  boolean,
  flag,
  integer,
  namespaceName,
  nonEmpty,
  oneOf,
  type Option,
  option,
  type OptionText,
  type Values,
} from '../options.ts';
import { NODES_CONFIG } from './installed.ts';

/** The consequence of SCC CRDs without enforcement. Charts detect OpenShift by the API group of SCCs. */
export const CHART_CONSEQUENCE =
  'charts that detect OpenShift by this group omit runAsUser and fsGroup, which SCC admission sets only while it enforces SCCs';

/** Nodes of a managed cluster have the same labels. */
const NODE_LIMIT = '5';

/** Reads the properties of a cluster. Rejects with an ApiError or a UserError if its version cannot be read. */
export async function gatherFacts(client: ClusterClient): Promise<ClusterFacts> {
  const [server, definition, nodesDefinition, nodes] = await Promise.all([
    readServer(client),
    client.get(DEFINITIONS, 'securitycontextconstraints.security.openshift.io').catch(ignoreApiError),
    client.get(DEFINITIONS, NODES_CONFIG).catch(ignoreApiError),
    client.send({ method: 'GET', path: '/api/v1/nodes', query: { limit: NODE_LIMIT } }).catch(ignoreApiError),
  ]);
  const items: readonly KubeObject[] = Array.isArray(nodes?.['items']) ? nodes['items'] : [];
  return {
    ...server,
    server: client.connection.server,
    sccDefinition: definitionOwner(definition),
    nodesDefinition: definitionOwner(nodesDefinition),
    nodeLabels: [...new Set(items.flatMap(({ metadata }) => Object.keys(metadata?.labels ?? {})))],
  };
}

function definitionOwner(definition: KubeObject | null | undefined): DefinitionOwner {
  if (!definition) return definition === null ? 'unknown' : 'none';
  return isPartOfPortcullis(definition) ? 'portcullis' : 'others';
}

function ignoreApiError(error: unknown): null {
  if (error instanceof ApiError) return null;
  throw error;
}

export const DEFAULTS = defaultSettings(VERSION);

/** The options of `install` and `upgrade`. */
export const planOptions = {
  ...clusterOptions,
  ...dryRunOption,
  'allow-weaker': flag({ help: 'Accept settings that enforce less than those of the cluster' }),
  namespace: option('NAME', namespaceName, DEFAULTS.namespace, { short: 'n', help: 'Namespace of the installation' }),
  image: option('IMAGE', nonEmpty, undefined, {
    help: `Image of the replicas, with registry and tag or digest. Default: that of the cluster, else ${DEFAULTS.image}`,
  }),
  replicas: option('N', integer(1, 15), undefined, {
    help: `Number of replicas. Default: that of the cluster, else ${DEFAULTS.replicas}`,
  }),
  scc: choice({
    help: 'Install the definitions and permissions of SCC admission. Default: true; false on OpenShift',
  }),
  rollout: choice({
    help: 'Install the definitions and permissions of the rollout of enforcement. Default: true; false on OpenShift',
  }),
  kubelet: choice({
    help: 'Install the webhooks, controllers and permissions of the minimum kubelet version. Default: false',
  }),
  olm: choice({
    help: 'Install the webhooks, controllers and permissions for the Operator Lifecycle Manager. Default: false',
  }),
  'nodes-config': choice({
    help: `Install the definition of ${NODES_CONFIG}, which contains the minimum kubelet version. Default: false`,
  }),
  set: {
    value: 'PATH=VALUE',
    help: 'Policy setting: a field of the spec of the PortcullisConfiguration, such as scc.mode=enforce. The value is YAML. Can be repeated',
    resolve: (texts: readonly string[]) => texts.map(setting),
  },
  webhooks: option('BY', oneOf(['managed', 'static'] as const), undefined, {
    help: 'managed: the leader registers the webhooks when a replica is ready. static: the output contains the webhook configurations, and no replica changes them. Default: managed',
  }),
  'cert-manager': choice({ help: 'Use a serving certificate issued by cert-manager' }),
  monitoring: choice({
    help: 'Print a ServiceMonitor, alerts and a dashboard. Default: true if the cluster has the Prometheus operator',
  }),
  'runbook-url': option('URL', webAddress, undefined, {
    help: 'URL of your copy of docs/how-to/runbook.md, which the alerts link to',
  }),
};

/** The settings in the options. Absent options depend on the profile or on the cluster. */
export function requestedSettings(values: Values<typeof planOptions>): Partial<ManifestSettings> {
  const { namespace, image, replicas, monitoring } = values;
  const { 'cert-manager': certManager, 'runbook-url': runbook, 'nodes-config': nodesConfig } = values;
  return {
    namespace,
    ...(image === undefined ? {} : { image }),
    ...(runbook === undefined ? {} : { runbook }),
    ...(nodesConfig === undefined ? {} : { nodesConfig }),
    ...(replicas === undefined ? {} : { replicas }),
    ...(certManager === undefined ? {} : { certificates: certManager ? 'cert-manager' : 'self-managed' }),
    ...(monitoring === undefined ? {} : { monitoring: monitoring ? 'prometheus-operator' : 'none' }),
  };
}

export type FeatureValues = Pick<
  Values<typeof planOptions>,
  keyof ManifestSettings['features'] | 'nodes-config' | 'webhooks' | 'set'
>;

const NO_OPTIONS: FeatureValues = {
  scc: undefined,
  rollout: undefined,
  kubelet: undefined,
  olm: undefined,
  'nodes-config': undefined,
  webhooks: undefined,
  set: [],
};

/** The policy settings of the options. */
export function requestedChanges({ webhooks, set }: FeatureValues, hasSccs: boolean): readonly Setting[] {
  return [
    ...(hasSccs ? [] : [{ path: ['scc', 'mode'], value: 'off' }]),
    ...(webhooks === undefined ? [] : [{ path: ['webhooks', 'management'], value: webhooks }]),
    ...set,
  ];
}

/** The features and policy settings: those of the options, else those of the profile or of the cluster. */
export function withOptions(base: ManifestSettings, values: FeatureValues): ManifestSettings {
  const { features: given } = base;
  const { scc = given.scc, rollout = given.rollout, kubelet = given.kubelet, olm = given.olm } = values;
  const policy = requestedChanges(values, scc).reduce(withSetting, base.policy);
  const features = { scc, rollout, kubelet, olm };
  const settings = { ...base, features, policy, nodesConfig: base.nodesConfig && kubelet };
  const { scc: admission, rollout: phases } = decodePolicy(settings);
  if (!scc && admission.mode !== 'off') {
    throw new UserError(
      `--set=scc.mode=${admission.mode} requires the definitions of SCC admission: remove --scc=false`,
    );
  }
  if (!rollout && phases.phase !== 'Disabled') {
    throw new UserError(
      `--set=rollout.phase=${phases.phase} requires the definitions of the rollout: remove --rollout=false`,
    );
  }
  const missing = OPTIONAL_FEATURES.find((feature) => !features[feature] && policy[feature] != null);
  if (missing !== undefined) {
    const fix =
      values[missing] === false ? `remove --${missing}=false, or add --set=${missing}=null` : `add --${missing}`;
    throw new UserError(`spec.${missing} has an effect only with the ${missing} feature: ${fix}`);
  }
  if (values['nodes-config'] === true && !kubelet) {
    throw new UserError('--nodes-config has an effect only with the kubelet feature: add --kubelet');
  }
  return settings;
}

/** Parses an argument of `--set`. */
function setting(argument: string): Setting {
  const [, path = '', text = ''] = /^([\w.]+)=(.*)$/s.exec(argument) ?? [];
  if (path === '') throw new UserError(`${quote(argument)} is not a setting such as scc.mode=enforce`);
  if (text.trim() === '') throw new UserError(`${path} has no value: use ${path}=null for the default`);
  const { documents, errors } = readDocuments(text, '--set');
  const [error] = errors;
  if (error) throw new UserError(`${path}: ${error.message}`);
  const value = documents[0]?.value ?? null;
  // YAML reads the mode off as a boolean.
  return { path: path.split('.'), value: path.endsWith('.mode') && value === false ? 'off' : value };
}

/** A flag without a default. */
function choice(text: OptionText): Option<boolean | undefined> {
  return { ...text, resolve: (texts) => (texts.length === 0 ? undefined : boolean(texts.at(-1) ?? '')) };
}

function webAddress(value: string): string {
  if (/^https?:\/\/[^#\s]+$/.test(value) && URL.canParse(value)) return value;
  throw new UserError('must be the URL of a page, such as https://example.com/runbook.md');
}

interface Platform {
  readonly name: string;
  /** Detects the platform by the version of the API server. */
  readonly version?: RegExp;
  /** Detects the platform by the labels of nodes. */
  readonly nodeLabel?: RegExp;
  /** A requirement of the platform. */
  readonly note: string;
}

/** Managed platforms. */
const PLATFORMS: readonly Platform[] = [
  {
    name: 'Google Kubernetes Engine',
    version: /-gke\./,
    note: 'in a private cluster, a firewall rule must allow the control plane to reach TCP port 8443 of the nodes',
  },
  {
    name: 'Amazon EKS',
    version: /-eks-/,
    note: 'the security group of the nodes must allow the control plane to reach TCP port 8443; if the control plane cannot reach the pod network, run the replicas with hostNetwork',
  },
  {
    name: 'Azure Kubernetes Service',
    nodeLabel: /^kubernetes\.azure\.com\//,
    note: 'the annotation admissions.enforcer/disabled prevents AKS from changing the namespace selectors',
  },
  {
    name: 'K3s or RKE2',
    version: /\+(?:k3s|rke2)/,
    note: 'the configuration of the server may set Pod Security defaults, which apply in addition',
  },
];

/** Notes about the platform of the cluster. */
function platformNotes({ version, nodeLabels }: ClusterFacts): readonly string[] {
  const platforms = PLATFORMS.filter(
    (one) => one.version?.test(version) === true || nodeLabels.some((label) => one.nodeLabel?.test(label)),
  );
  return platforms.map(({ name, note }) => `detected ${name}: ${note}`);
}

/** The settings to install, and the assumptions. */
interface InstallPlan {
  readonly settings: ManifestSettings;
  readonly notes: readonly string[];
}

/** Only OpenShift serves this group. CustomResourceDefinitions on other clusters serve its other groups. */
const OPENSHIFT = 'route.openshift.io';
const CERT_MANAGER = 'cert-manager.io';
const PROMETHEUS_OPERATOR = 'monitoring.coreos.com';

/** Plans an installation for a cluster. Throws a UserError if the cluster does not support the settings. */
export function planForCluster(
  facts: ClusterFacts,
  requested: Partial<ManifestSettings>,
  features: FeatureValues = NO_OPTIONS,
): InstallPlan {
  const isOpenShift = facts.groups.includes(OPENSHIFT);
  const base: ManifestSettings = {
    ...DEFAULTS,
    ...(isOpenShift ? PROFILES.openshift : {}),
    ...(facts.groups.includes(PROMETHEUS_OPERATOR) ? PROFILES.monitoring : {}),
    ...requested,
  };
  const settings = withOptions(base, features);
  const problem = findProblem(facts, settings);
  if (problem !== undefined) throw new UserError(problem);
  return { settings, notes: formatNotes(facts, settings) };
}

function findProblem(
  { server, version, groups, nodesDefinition }: ClusterFacts,
  settings: ManifestSettings,
): string | undefined {
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is required for match conditions`;
  }
  if (groups.includes(OPENSHIFT) && settings.features.scc) {
    return '--scc: OpenShift has its own SCC admission, which conflicts with that of Portcullis: use --scc=false';
  }
  if (settings.nodesConfig && nodesDefinition === 'others') {
    return `--nodes-config: another product has defined ${NODES_CONFIG}, and Portcullis reads its object: remove the option`;
  }
  if (settings.certificates === 'cert-manager' && !groups.includes(CERT_MANAGER)) {
    return `--cert-manager: ${server} does not serve ${CERT_MANAGER}: install cert-manager first, or remove the option`;
  }
  return settings.monitoring === 'prometheus-operator' && !groups.includes(PROMETHEUS_OPERATOR)
    ? `--monitoring: ${server} does not serve ${PROMETHEUS_OPERATOR}: install the Prometheus operator first, or remove the option`
    : undefined;
}

/** Builds from source have the version v0.0.0, which is accepted. */
function isTooOld(version: string): boolean {
  const minor = /^v?1\.(\d+)/.exec(version)?.[1];
  return minor !== undefined && Number(minor) < MINIMUM_MINOR;
}

function formatNotes(facts: ClusterFacts, settings: ManifestSettings): readonly string[] {
  const { server, version, groups, sccDefinition, nodesDefinition } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (groups.includes(OPENSHIFT)) notes.push('detected OpenShift, which manages SCCs, their definitions and ranges');
  else if (settings.features.scc) {
    if (!groups.includes(RESOURCES.SecurityContextConstraints.group))
      notes.push(`the cluster will serve security.openshift.io: ${CHART_CONSEQUENCE}; --scc=false does not install it`);
    if (sccDefinition === 'others') notes.push('the definition of SCCs belongs to another product and is replaced');
    if (sccDefinition === 'unknown')
      notes.push('cannot read whether SCCs are defined: the output contains their definition');
  }
  if (settings.nodesConfig && nodesDefinition !== 'portcullis') {
    notes.push(
      'the cluster will serve config.openshift.io/v1: programs that detect OpenShift by this group treat the cluster as OpenShift',
    );
  }
  if (settings.monitoring === 'prometheus-operator') {
    notes.push(
      'detected the Prometheus operator: the output contains a ServiceMonitor and alerts; --monitoring=false omits them',
    );
  }
  if (settings.certificates === 'self-managed' && groups.includes(CERT_MANAGER)) {
    notes.push(
      'detected cert-manager: with --cert-manager it issues the serving certificate, otherwise created by the replicas',
    );
  }
  return [...notes, ...platformNotes(facts)];
}

/** The owner of the definition of a kind; `unknown` if it cannot be read. */
type DefinitionOwner = 'none' | 'portcullis' | 'others' | 'unknown';

/** The properties of a cluster that affect its installation. */
export interface ClusterFacts extends Server {
  /** Address of the API server. */
  readonly server: string;
  readonly sccDefinition: DefinitionOwner;
  readonly nodesDefinition: DefinitionOwner;
  /** Labels of some nodes; empty if nodes cannot be read. */
  readonly nodeLabels: readonly string[];
}
