import { UserError } from '../../config/files.ts';
import { printYaml, readDocuments } from '../../config/yaml.ts';
import { buildManifests, decodePolicy, defaultSettings, type ManifestSettings } from '../../install/index.ts';
import { MINIMUM_MINOR, PROFILES, type Profile } from '../../install/settings.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject, type KubeObject } from '../../kube/types.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import { defineCommand, EXIT, VERSION } from '../command.ts';
import {
  clusterOptions,
  DEFINITIONS,
  readServer,
  withCluster,
  type ClusterClient,
  type Server,
} from '../installation.ts';
import { boolean, integer, nonEmpty, oneOf, type Option, option, type OptionText, type Values } from '../options.ts';
import { printable } from '../output/print.ts';
import { namespaceName } from '../scc-options.ts';

/** Nodes of a managed cluster have the same labels. */
const NODE_LIMIT = '5';

/** Reads the properties of a cluster. Rejects with an ApiError or a UserError if its version cannot be read. */
async function gatherFacts(client: ClusterClient): Promise<ClusterFacts> {
  const [server, definition, nodes] = await Promise.all([
    readServer(client),
    client.get(DEFINITIONS, 'securitycontextconstraints.security.openshift.io').catch(ignoreApiError),
    client.send({ method: 'GET', path: '/api/v1/nodes', query: { limit: NODE_LIMIT } }).catch(ignoreApiError),
  ]);
  const items: readonly KubeObject[] = Array.isArray(nodes?.['items']) ? nodes['items'] : [];
  return {
    ...server,
    server: client.connection.server,
    sccDefinition: definition === null ? 'unknown' : definitionOwner(definition),
    nodeLabels: [...new Set(items.flatMap(({ metadata }) => Object.keys(metadata?.labels ?? {})))],
  };
}

function definitionOwner(definition: KubeObject | undefined): ClusterFacts['sccDefinition'] {
  if (!definition) return 'none';
  return isPartOfPortcullis(definition) ? 'portcullis' : 'others';
}

function ignoreApiError(error: unknown): null {
  if (error instanceof ApiError) return null;
  throw error;
}

const DEFAULTS = defaultSettings(VERSION);

const WEBHOOKS = { managed: 'Managed', static: 'External' } as const;

const installOptions = {
  ...clusterOptions,
  profile: option('NAME', oneOf(Object.keys(PROFILES) as Profile[]), undefined, {
    help: `Print a profile without reading a cluster: one of ${Object.keys(PROFILES).join(', ')}`,
  }),
  namespace: option('NAME', namespaceName, DEFAULTS.namespace, { short: 'n', help: 'Namespace of the installation' }),
  image: option('IMAGE', nonEmpty, DEFAULTS.image, {
    help: 'Image of the replicas, with registry and tag or digest',
  }),
  replicas: option('N', integer(1, 15), undefined, { help: `Number of replicas. Default: ${DEFAULTS.replicas}` }),
  scc: choice({
    help: 'Install the definitions and permissions of SCC admission. Default: true; false on OpenShift',
  }),
  rollout: choice({
    help: 'Install the definitions and permissions of the rollout of enforcement. Default: true; false on OpenShift',
  }),
  set: {
    value: 'PATH=VALUE',
    help: 'Policy setting: a field of the spec of the PortcullisConfiguration, such as scc.mode=enforce. The value is YAML. Can be repeated',
    resolve: (texts: readonly string[]) => texts.map(setting),
  },
  webhooks: option('BY', oneOf(Object.keys(WEBHOOKS) as (keyof typeof WEBHOOKS)[]), undefined, {
    help: 'managed: the leader registers the webhooks when a replica is ready. static: the output contains the webhook configurations, and no replica changes them. Default: managed',
  }),
  'cert-manager': choice({ help: 'Use a serving certificate issued by cert-manager' }),
  monitoring: choice({
    help: 'Print a ServiceMonitor, alerts and a dashboard. Default: true if the cluster has the Prometheus operator',
  }),
  'runbook-url': option('URL', webAddress, DEFAULTS.runbook, {
    help: 'URL of your copy of docs/runbook.md, which the alerts link to',
  }),
};

/** The settings in the options. Absent options depend on the profile or on the cluster. */
function requestedSettings(values: Values<typeof installOptions>): Partial<ManifestSettings> {
  const { namespace, image, replicas, monitoring, 'cert-manager': certManager, 'runbook-url': runbook } = values;
  return {
    namespace,
    image,
    runbook,
    ...(replicas === undefined ? {} : { replicas }),
    ...(certManager === undefined ? {} : { certificates: certManager ? 'cert-manager' : 'self-managed' }),
    ...(monitoring === undefined ? {} : { monitoring: monitoring ? 'prometheus-operator' : 'none' }),
  };
}

type FeatureValues = Pick<Values<typeof installOptions>, 'scc' | 'rollout' | 'webhooks' | 'set'>;

const NO_OPTIONS: FeatureValues = { scc: undefined, rollout: undefined, webhooks: undefined, set: [] };

/** The features and policy settings: those of the options, else those of the profile or of the cluster. */
function withOptions(base: ManifestSettings, values: FeatureValues): ManifestSettings {
  const { scc = base.features.scc, rollout = base.features.rollout, webhooks, set } = values;
  const policy = [
    ...(scc ? [] : [{ path: ['scc', 'mode'], value: 'off' }]),
    ...(webhooks === undefined ? [] : [{ path: ['webhooks', 'management'], value: WEBHOOKS[webhooks] }]),
    ...set,
  ].reduce((spec, { path, value }) => withSetting(spec, path, value), base.policy);
  const settings = { ...base, features: { scc, rollout }, policy };
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
  return settings;
}

/** A copy of the spec with one more setting. */
function withSetting(spec: JsonObject, [name = '', ...rest]: readonly string[], value: unknown): JsonObject {
  const inner = spec[name];
  return { ...spec, [name]: rest.length === 0 ? value : withSetting(isObject(inner) ? inner : {}, rest, value) };
}

/** Parses an argument of `--set`. */
function setting(argument: string): { readonly path: readonly string[]; readonly value: unknown } {
  const [, path = '', text = ''] = /^([\w.]+)=(.*)$/s.exec(argument) ?? [];
  if (path === '') throw new UserError(`${quote(argument)} is not a setting such as scc.mode=enforce`);
  const { documents, errors } = readDocuments(text, '--set');
  const [error] = errors;
  if (error) throw new UserError(`${path}: ${error.message}`);
  const value = documents[0]?.value ?? null;
  // The only mode that YAML reads as a boolean.
  return { path: path.split('.'), value: path === 'scc.mode' && value === false ? 'off' : value };
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

function findProblem({ server, version, groups }: ClusterFacts, settings: ManifestSettings): string | undefined {
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is required for match conditions`;
  }
  if (groups.includes(OPENSHIFT) && settings.features.scc) {
    return '--scc: OpenShift has its own SCC admission, which conflicts with that of Portcullis: use --scc=false';
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

/** Charts omit fields that only OpenShift completes. */
const CHART_CONSEQUENCE =
  'the cluster will serve security.openshift.io: charts that detect OpenShift by this group omit runAsUser and fsGroup, which only enforced SCCs complete; --scc=false does not install it';

function formatNotes(facts: ClusterFacts, settings: ManifestSettings): readonly string[] {
  const { server, version, groups, sccDefinition } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (groups.includes(OPENSHIFT)) notes.push('detected OpenShift, which manages SCCs, their definitions and ranges');
  else if (settings.features.scc) {
    if (!groups.includes(RESOURCES.SecurityContextConstraints.group)) notes.push(CHART_CONSEQUENCE);
    if (sccDefinition === 'others') notes.push('the definition of SCCs belongs to another product and is replaced');
    if (sccDefinition === 'unknown')
      notes.push('cannot read whether SCCs are defined: the output contains their definition');
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

const DETAILS = `
Prints the manifests of an installation for the cluster of the kubeconfig, and the assumptions to stderr.
The command changes nothing: apply the output with kubectl. With --profile it does not read a cluster.

The leader registers the webhooks when a replica is ready, and they fail closed for exactly what the
settings enforce. With --webhooks=static, apply the objects with the label
app.kubernetes.io/component=webhooks after the replicas are ready: until then, API servers deny pods.

Examples:
  portcullis install --image=registry.example.com/portcullis:0.1.0 | kubectl apply --server-side -f -
  kubectl -n portcullis rollout status deployment/portcullis

  portcullis install --profile=openshift > portcullis.yaml

Exit codes:
  0  success
  2  wrong usage, or the cluster cannot be read or is not supported
`;

export const command = defineCommand({
  details: DETAILS,
  options: installOptions,
  async run(options, _operands, io) {
    const { profile, kubeconfig, context } = options;
    if (profile !== undefined && (kubeconfig !== undefined || context !== undefined)) {
      throw new UserError('--profile cannot be combined with --kubeconfig and --context');
    }
    const requested = requestedSettings(options);
    const plan =
      profile === undefined
        ? planForCluster(await withCluster(options, io, gatherFacts), requested, options)
        : {
            settings: withOptions({ ...DEFAULTS, ...PROFILES[profile], ...requested }, options),
            notes: [`the profile ${profile}, for Kubernetes 1.${MINIMUM_MINOR} or newer; no cluster was read`],
          };
    for (const note of plan.notes) io.stderr.write(`Assumed: ${printable(note)}\n`);
    io.stdout.write(printYaml(buildManifests(plan.settings)));
    return EXIT.passed;
  },
});

/** The properties of a cluster that affect its installation. */
export interface ClusterFacts extends Server {
  /** Address of the API server. */
  readonly server: string;
  /** Owner of the definition of SCCs; `unknown` if it cannot be read. */
  readonly sccDefinition: 'none' | 'portcullis' | 'others' | 'unknown';
  /** Labels of some nodes; empty if nodes cannot be read. */
  readonly nodeLabels: readonly string[];
}
