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
/** Nodes of a managed cluster are alike. */
const SOME = '5';

/** Looks at a cluster. Rejects with an ApiError or a UserError if not even its version can be read. */
async function gatherFacts(connection: Connection, signal: AbortSignal): Promise<ClusterFacts> {
  const read = (path: string, query: ApiRequest['query'] = {}): Promise<JsonObject> =>
    connection.request({ method: 'GET', path, query, signal });
  const [version, apis, sccDefinition, nodes] = await Promise.all([
    read('/version'),
    read('/apis'),
    read(SCC_DEFINITION).then(originOf, whyNot),
    read('/api/v1/nodes', { limit: SOME }).catch(orEmpty),
  ]);
  return {
    server: connection.server,
    version: String(version['gitVersion']),
    groups: itemsOf(apis, 'groups').map(({ name }) => String(name)),
    sccDefinition,
    nodeLabels: [...new Set(itemsOf(nodes, 'items').flatMap((node) => Object.keys(labelsOf(node))))],
  };
}

function originOf(definition: JsonObject): ClusterFacts['sccDefinition'] {
  return labelsOf(definition)[PART_OF_LABEL] === PART_OF ? 'us' : 'others';
}

function whyNot(error: unknown): ClusterFacts['sccDefinition'] {
  if (!(error instanceof ApiError)) throw error;
  return error.status.code === 404 ? 'nobody' : 'unknown';
}

function orEmpty(error: unknown): JsonObject {
  if (error instanceof ApiError) return {};
  throw error;
}

function itemsOf(list: JsonObject, field: string): readonly JsonObject[] {
  const items = list[field];
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function labelsOf({ metadata }: JsonObject): JsonObject {
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  return isObject(labels) ? labels : {};
}

const DEFAULTS = defaultSettings(VERSION);

const installOptions = {
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
function requestOf(values: Values<typeof installOptions>): InstallRequest {
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
  return { ...text, resolve: (texts) => (texts.length === 0 ? undefined : boolean(texts.at(-1) ?? '')) };
}

function webAddress(value: string): string {
  if (/^https?:\/\/[^#\s]+$/.test(value) && URL.canParse(value)) return value;
  throw new UserError('must be the address of a page, such as https://example.com/runbook.md');
}

interface Platform {
  readonly name: string;
  isIt(facts: ClusterFacts): boolean;
  /** What somebody who installs there has to know. */
  readonly note: string;
}

const isVersioned = (pattern: RegExp) => (facts: ClusterFacts) => pattern.test(facts.version);
const isLabelled = (prefix: string) => (facts: ClusterFacts) =>
  facts.nodeLabels.some((label) => label.startsWith(prefix));

/** Clusters that others run, by what gives them away. */
const PLATFORMS: readonly Platform[] = [
  {
    name: 'Google Kubernetes Engine',
    isIt: isVersioned(/-gke\./),
    note: 'in a private cluster the firewall has to let the control plane reach TCP port 8443 of the nodes',
  },
  {
    name: 'Amazon EKS',
    isIt: isVersioned(/-eks-/),
    note: 'the security group of the nodes has to let the control plane reach TCP port 8443; with a network of pods that the control plane does not reach, run the replicas with hostNetwork',
  },
  {
    name: 'Azure Kubernetes Service',
    isIt: isLabelled('kubernetes.azure.com/'),
    note: 'the annotation admissions.enforcer/disabled keeps AKS from changing the namespace selectors',
  },
  {
    name: 'K3s or RKE2',
    isIt: isVersioned(/\+(?:k3s|rke2)/),
    note: 'defaults of Pod Security may be set in the configuration of the server, too: they count beside these',
  },
];

/** What is peculiar to the cluster, in words. */
function platformNotes(facts: ClusterFacts): readonly string[] {
  return PLATFORMS.filter(({ isIt }) => isIt(facts)).map(({ name, note }) => `this looks like ${name}: ${note}`);
}

/** What is installed, and what was taken for granted. Or why it should not be. */
type InstallPlan =
  { readonly settings: ManifestSettings; readonly notes: readonly string[] } | { readonly problem: string };

export interface InstallRequest {
  readonly defaults: ManifestSettings;
  /** Chosen instead of what the cluster looks like. */
  readonly profile: Profile | undefined;
  /** What was asked for by name. */
  readonly wanted: Partial<ManifestSettings>;
}

/** Of its other groups some may be served elsewhere, too: we define kinds of them. */
const OPENSHIFT = 'route.openshift.io';
const CERT_MANAGER = 'cert-manager.io';
const PROMETHEUS_OPERATOR = 'monitoring.coreos.com';

/** Plans for a cluster that nobody has looked at. */
export function planUnseen({ defaults, profile = 'default', wanted }: InstallRequest): InstallPlan {
  const notes = [`the profile ${profile}, for Kubernetes 1.${MINIMUM_MINOR} or newer: no cluster was looked at`];
  return { settings: { ...defaults, ...PROFILES[profile], ...wanted }, notes };
}

/** Plans for a cluster as it is. */
export function planFor(facts: ClusterFacts, { defaults, wanted }: InstallRequest): InstallPlan {
  const isOpenShift = facts.groups.includes(OPENSHIFT);
  const settings: ManifestSettings = {
    ...defaults,
    ...(isOpenShift ? PROFILES.openshift : {}),
    ...(facts.groups.includes(PROMETHEUS_OPERATOR) ? PROFILES.monitoring : {}),
    ...wanted,
  };
  const problem = problemOf(facts, settings);
  return problem === undefined ? { settings, notes: notesOf(facts, settings) } : { problem };
}

function problemOf({ server, version, groups }: ClusterFacts, settings: ManifestSettings): string | undefined {
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is needed, which has match conditions`;
  }
  if (groups.includes(OPENSHIFT) && settings.sccMode !== 'off') {
    return `--scc-mode=${settings.sccMode}: OpenShift has its own SCC admission, and two would undo what the other one does: only --scc-mode=off works there`;
  }
  if (settings.certificates === 'cert-manager' && !groups.includes(CERT_MANAGER)) {
    return `--cert-manager: ${server} does not serve ${CERT_MANAGER}: install cert-manager first, or leave the option out`;
  }
  return settings.monitoring === 'prometheus-operator' && !groups.includes(PROMETHEUS_OPERATOR)
    ? `--monitoring: ${server} does not serve ${PROMETHEUS_OPERATOR}: install the Prometheus operator first, or leave the option out`
    : undefined;
}

/** Builds from sources call themselves v0.0.0: a version that says nothing is nobody's fault. */
function isTooOld(version: string): boolean {
  const minor = /^v?1\.(\d+)/.exec(version)?.[1];
  return minor !== undefined && Number(minor) < MINIMUM_MINOR;
}

function notesOf(facts: ClusterFacts, settings: ManifestSettings): readonly string[] {
  const { server, version, groups, sccDefinition } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (groups.includes(OPENSHIFT)) notes.push('this is OpenShift: SCCs, their definitions and ranges are left to it');
  else if (settings.sccMode !== 'off') {
    if (sccDefinition === 'others')
      notes.push('there is a definition of SCCs from somebody else: it is replaced by ours');
    if (sccDefinition === 'unknown')
      notes.push('whether SCCs are defined already could not be read: ours are in the output');
  }
  if (settings.monitoring === 'prometheus-operator') {
    notes.push(
      'the Prometheus operator is there: it gets a ServiceMonitor and alerts, --monitoring=false leaves them out',
    );
  }
  if (settings.certificates === 'self-managed' && groups.includes(CERT_MANAGER)) {
    notes.push(
      'cert-manager is there: --cert-manager lets it make the serving certificate, otherwise created by the replicas',
    );
  }
  return [...notes, ...platformNotes(facts)];
}

const DETAILS = `
Prints the manifests of an installation that fits the cluster of the kubeconfig, and says on the
standard error what it takes for granted. Nothing is changed: kubectl applies what is printed. With
--profile no cluster is looked at.

Apply the webhooks last, when the replicas are ready: until then they would refuse pods. Always apply
server-side, else a webhook that a newer version leaves out stays in the cluster.

Examples:
  portcullis install --image=registry.example.com/portcullis:0.1.0 > portcullis.yaml
  kubectl apply --server-side -f portcullis.yaml -l 'app.kubernetes.io/component!=webhooks'
  kubectl -n portcullis rollout status deployment/portcullis
  kubectl apply --server-side -f portcullis.yaml

  portcullis install --profile=openshift > portcullis.yaml

Exit codes:
  0  printed
  2  wrong usage, or Portcullis does not fit the cluster or cannot look at it
`;

/** Prints what has to be applied to a cluster. */
export const command = defineCommand({
  details: DETAILS,
  options: installOptions,
  async run(options, _operands, io) {
    const request = requestOf(options);
    if (options.profile !== undefined && (options.kubeconfig !== undefined || options.context !== undefined)) {
      throw new UserError(
        '--profile prints for any cluster, --kubeconfig and --context name one: leave one of them out',
      );
    }
    const plan =
      options.profile === undefined
        ? planFor(await withCluster(options, io, (connection) => gatherFacts(connection, io.signal)), request)
        : planUnseen(request);
    if ('problem' in plan) throw new UserError(plan.problem);
    for (const note of plan.notes) io.stderr.write(`Assumed: ${printable(note)}\n`);
    io.stdout.write(printYaml(buildManifests(plan.settings)));
    return EXIT.passed;
  },
});

/** What an installation has to know of its cluster. */
export interface ClusterFacts {
  readonly server: string;
  /** As the API server tells it: `v1.36.3`. */
  readonly version: string;
  /** API groups that are served. */
  readonly groups: readonly string[];
  /** Who brought the definition of SCCs; `nobody` where there is none, `unknown` where it must not be read. */
  readonly sccDefinition: 'nobody' | 'us' | 'others' | 'unknown';
  /** Labels of a few nodes; none where they must not be read. */
  readonly nodeLabels: readonly string[];
}
