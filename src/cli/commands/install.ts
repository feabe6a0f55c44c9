import type { ApiRequest, Connection } from '../../cluster/connection.ts';
import { PART_OF, PART_OF_LABEL } from '../../kube/well-known.ts';
import { ApiError } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { UserError } from '../../config/files.ts';
import { defaultSettings, type ManifestSettings, buildManifests } from '../../install/index.ts';
import { PROFILES, type Profile, MINIMUM_MINOR } from '../../install/settings.ts';
import { namespaceName } from '../scc-options.ts';
import { ROLLOUT_PHASES } from '../../policy/rollout/settings.ts';
import { SCC_MODES } from '../../policy/scc/mode.ts';
import { AUTHORIZATIONS } from '../../server/access-reviews.ts';
import { clusterOptions, withCluster } from '../installation.ts';
import { boolean, integer, objectName, oneOf, type Option, option, type OptionText, type Values } from '../options.ts';
import { printYaml } from '../../config/yaml.ts';
import { defineCommand, EXIT, VERSION } from '../command.ts';
import { printable } from '../output/print.ts';

const SCC_DEFINITION =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/securitycontextconstraints.security.openshift.io';
/** Nodes of a managed cluster have the same labels. */
const NODE_LIMIT = '5';

/** Reads the properties of a cluster. Rejects with an ApiError or a UserError if its version cannot be read. */
async function gatherFacts(connection: Connection, signal: AbortSignal): Promise<ClusterFacts> {
  const read = (path: string, query: ApiRequest['query'] = {}): Promise<JsonObject> =>
    connection.request({ method: 'GET', path, query, signal });
  const [version, apis, sccDefinition, nodes] = await Promise.all([
    read('/version'),
    read('/apis'),
    read(SCC_DEFINITION).then(definitionOwner, missingDefinition),
    read('/api/v1/nodes', { limit: NODE_LIMIT }).catch(orEmpty),
  ]);
  return {
    server: connection.server,
    version: String(version['gitVersion']),
    groups: getItems(apis, 'groups').map(({ name }) => String(name)),
    sccDefinition,
    nodeLabels: [...new Set(getItems(nodes, 'items').flatMap((node) => Object.keys(getLabels(node))))],
  };
}

function definitionOwner(definition: JsonObject): ClusterFacts['sccDefinition'] {
  return getLabels(definition)[PART_OF_LABEL] === PART_OF ? 'portcullis' : 'others';
}

function missingDefinition(error: unknown): ClusterFacts['sccDefinition'] {
  if (!(error instanceof ApiError)) throw error;
  return error.status.code === 404 ? 'none' : 'unknown';
}

function orEmpty(error: unknown): JsonObject {
  if (error instanceof ApiError) return {};
  throw error;
}

function getItems(list: JsonObject, field: string): readonly JsonObject[] {
  const items = list[field];
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function getLabels({ metadata }: JsonObject): JsonObject {
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  return isObject(labels) ? labels : {};
}

const DEFAULTS = defaultSettings(VERSION);

const installOptions = {
  ...clusterOptions,
  profile: option('NAME', oneOf(Object.keys(PROFILES) as Profile[]), undefined, {
    help: `Print a profile without reading a cluster: one of ${Object.keys(PROFILES).join(', ')}`,
  }),
  namespace: option('NAME', namespaceName, DEFAULTS.namespace, { short: 'n', help: 'Namespace of the installation' }),
  image: option('IMAGE', objectName, DEFAULTS.image, {
    help: 'Image of the replicas, with registry and tag or digest',
  }),
  replicas: option('N', integer(1, 15), undefined, { help: `Number of replicas. Default: ${DEFAULTS.replicas}` }),
  'scc-mode': option('MODE', oneOf(SCC_MODES), undefined, {
    help: `Default SCC mode for namespaces without the label: one of ${SCC_MODES.join(', ')}. With off, no objects for SCCs are printed. Default: ${DEFAULTS.sccMode}; off on OpenShift`,
  }),
  rollout: option('PHASE', oneOf(ROLLOUT_PHASES), undefined, {
    help: `Phase of the rollout of enforcement: one of ${ROLLOUT_PHASES.join(', ')}. Default: ${DEFAULTS.rollout}; Disabled on OpenShift`,
  }),
  authorization: option('BY', oneOf(AUTHORIZATIONS), DEFAULTS.authorization, {
    help: 'Source of SCC permissions: rbac or sar',
  }),
  'cert-manager': choice({ help: 'Use a serving certificate issued by cert-manager' }),
  monitoring: choice({
    help: 'Print a ServiceMonitor, alerts and a dashboard. Default: true if the cluster has the Prometheus operator',
  }),
  'runbook-url': option('URL', webAddress, DEFAULTS.runbook, {
    help: 'URL of your copy of docs/runbook.md, which the alerts link to',
  }),
};

/** The request in the options. Absent options depend on the profile or on the cluster. */
function installRequest(values: Values<typeof installOptions>): InstallRequest {
  const { namespace, image, replicas, authorization, 'scc-mode': sccMode, profile, monitoring, rollout } = values;
  const { 'cert-manager': certManager, 'runbook-url': runbook } = values;
  const requested: Partial<ManifestSettings> = {
    ...(replicas === undefined ? {} : { replicas }),
    ...(sccMode === undefined ? {} : { sccMode }),
    ...(rollout === undefined ? {} : { rollout }),
    ...(certManager === undefined ? {} : { certificates: certManager ? 'cert-manager' : 'self-managed' }),
    ...(monitoring === undefined ? {} : { monitoring: monitoring ? 'prometheus-operator' : 'none' }),
  };
  return { defaults: { ...DEFAULTS, namespace, image, authorization, runbook }, profile, requested };
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
  matches(facts: ClusterFacts): boolean;
  /** A requirement of the platform. */
  readonly note: string;
}

const hasVersion = (pattern: RegExp) => (facts: ClusterFacts) => pattern.test(facts.version);
const hasNodeLabel = (prefix: string) => (facts: ClusterFacts) =>
  facts.nodeLabels.some((label) => label.startsWith(prefix));

/** Managed platforms and how to detect them. */
const PLATFORMS: readonly Platform[] = [
  {
    name: 'Google Kubernetes Engine',
    matches: hasVersion(/-gke\./),
    note: 'in a private cluster, a firewall rule must allow the control plane to reach TCP port 8443 of the nodes',
  },
  {
    name: 'Amazon EKS',
    matches: hasVersion(/-eks-/),
    note: 'the security group of the nodes must allow the control plane to reach TCP port 8443; if the control plane cannot reach the pod network, run the replicas with hostNetwork',
  },
  {
    name: 'Azure Kubernetes Service',
    matches: hasNodeLabel('kubernetes.azure.com/'),
    note: 'the annotation admissions.enforcer/disabled prevents AKS from changing the namespace selectors',
  },
  {
    name: 'K3s or RKE2',
    matches: hasVersion(/\+(?:k3s|rke2)/),
    note: 'the configuration of the server may set Pod Security defaults, which apply in addition',
  },
];

/** Notes about the platform of the cluster. */
function platformNotes(facts: ClusterFacts): readonly string[] {
  return PLATFORMS.filter(({ matches }) => matches(facts)).map(({ name, note }) => `detected ${name}: ${note}`);
}

/** The settings to install and the assumptions, or the reason why the cluster is not supported. */
type InstallPlan =
  { readonly settings: ManifestSettings; readonly notes: readonly string[] } | { readonly problem: string };

export interface InstallRequest {
  readonly defaults: ManifestSettings;
  /** Used without reading a cluster. */
  readonly profile: Profile | undefined;
  /** Settings from options. */
  readonly requested: Partial<ManifestSettings>;
}

/** Only OpenShift serves this group. CustomResourceDefinitions on other clusters serve its other groups. */
const OPENSHIFT = 'route.openshift.io';
const CERT_MANAGER = 'cert-manager.io';
const PROMETHEUS_OPERATOR = 'monitoring.coreos.com';

/** Plans an installation from a profile, without a cluster. */
export function planForProfile({ defaults, profile = 'default', requested }: InstallRequest): InstallPlan {
  const notes = [`the profile ${profile}, for Kubernetes 1.${MINIMUM_MINOR} or newer; no cluster was read`];
  return { settings: { ...defaults, ...PROFILES[profile], ...requested }, notes };
}

/** Plans an installation for a cluster. */
export function planForCluster(facts: ClusterFacts, { defaults, requested }: InstallRequest): InstallPlan {
  const isOpenShift = facts.groups.includes(OPENSHIFT);
  const settings: ManifestSettings = {
    ...defaults,
    ...(isOpenShift ? PROFILES.openshift : {}),
    ...(facts.groups.includes(PROMETHEUS_OPERATOR) ? PROFILES.monitoring : {}),
    ...requested,
  };
  const problem = findProblem(facts, settings);
  return problem === undefined ? { settings, notes: formatNotes(facts, settings) } : { problem };
}

function findProblem({ server, version, groups }: ClusterFacts, settings: ManifestSettings): string | undefined {
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is required for match conditions`;
  }
  if (groups.includes(OPENSHIFT) && settings.sccMode !== 'off') {
    return `--scc-mode=${settings.sccMode}: OpenShift has its own SCC admission, which conflicts with that of Portcullis: use --scc-mode=off`;
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
  const { server, version, groups, sccDefinition } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (groups.includes(OPENSHIFT)) notes.push('detected OpenShift, which manages SCCs, their definitions and ranges');
  else if (settings.sccMode !== 'off') {
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

Apply the webhooks after the replicas are ready: until then, API servers deny pods. Always use server-side
apply: otherwise, webhooks that a newer version removes stay in the cluster.

Examples:
  portcullis install --image=registry.example.com/portcullis:0.1.0 > portcullis.yaml
  kubectl apply --server-side -f portcullis.yaml -l 'app.kubernetes.io/component!=webhooks'
  kubectl -n portcullis rollout status deployment/portcullis
  kubectl apply --server-side -f portcullis.yaml

  portcullis install --profile=openshift > portcullis.yaml

Exit codes:
  0  success
  2  wrong usage, or the cluster cannot be read or is not supported
`;

export const command = defineCommand({
  details: DETAILS,
  options: installOptions,
  async run(options, _operands, io) {
    const request = installRequest(options);
    if (options.profile !== undefined && (options.kubeconfig !== undefined || options.context !== undefined)) {
      throw new UserError('--profile cannot be combined with --kubeconfig and --context');
    }
    const plan =
      options.profile === undefined
        ? planForCluster(await withCluster(options, io, (connection) => gatherFacts(connection, io.signal)), request)
        : planForProfile(request);
    if ('problem' in plan) throw new UserError(plan.problem);
    for (const note of plan.notes) io.stderr.write(`Assumed: ${printable(note)}\n`);
    io.stdout.write(printYaml(buildManifests(plan.settings)));
    return EXIT.passed;
  },
});

/** The properties of a cluster that affect its installation. */
export interface ClusterFacts {
  readonly server: string;
  /** Version such as `v1.36.3`. */
  readonly version: string;
  /** API groups that the cluster serves. */
  readonly groups: readonly string[];
  /** Owner of the definition of SCCs; `unknown` if it cannot be read. */
  readonly sccDefinition: 'none' | 'portcullis' | 'others' | 'unknown';
  /** Labels of some nodes; empty if nodes cannot be read. */
  readonly nodeLabels: readonly string[];
}
