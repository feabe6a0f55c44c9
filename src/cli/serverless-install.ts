/** `install --without-server`, and `upgrade` of such an installation: prints the policies and a summary. */
import { UserError } from '../config/files.ts';
import { listSettings, settingAt, withSetting, type Setting } from '../config/setting-paths.ts';
import { printYaml } from '../config/yaml.ts';
import { decodePolicy, MINIMUM_MINOR } from '../install/index.ts';
import { objectName, RESOURCES } from '../kube/resources.ts';
import { summarizeNames } from '../kube/text.ts';
import type { JsonObject, PortcullisConfiguration } from '../kube/types.ts';
import { CONFIGURATION_NAME, INSTALLATION, POD_SECURITY_LABELS } from '../kube/well-known.ts';
import { SCC_MODE_LABEL, sccMode } from '../policy/scc/mode.ts';
import { MODES } from '../policy/psa/policy.ts';
import type { Version } from '../policy/pss/policy.ts';
import type { Io } from './command.ts';
import { newerVersionNote, policyHeader, SYSTEM_NAMESPACE } from './commands/policies-generate.ts';
import { findRemovedFeatures, findWeakenings, readObjects } from './existing-installation.ts';
import { readServer, type ClusterClient, type DryRun } from './installation.ts';
import { compareSettings, objectPathName, printDiffs } from './manifest-diff.ts';
import type { Sources } from './options.ts';
import { printable } from './output/print.ts';
import {
  deleteCommand,
  readPolicyObjects,
  readServerless,
  serverlessPolicies,
  type ServerlessSettings,
} from './serverless.ts';

/** The options of `install` and `upgrade` that need a server, with the feature that an installation without a server lacks. */
const SERVER_OPTIONS: Readonly<Record<string, string>> = {
  namespace: 'no namespace',
  image: 'no replicas',
  replicas: 'no replicas',
  scc: 'no SCC admission',
  rollout: 'no rollout of enforcement',
  kubelet: 'no minimum kubelet version',
  olm: 'no controllers for the Operator Lifecycle Manager',
  'nodes-config': 'no minimum kubelet version',
  webhooks: 'no webhooks',
  'cert-manager': 'no serving certificate',
  monitoring: 'no metrics',
  'runbook-url': 'no alerts',
  profile: 'no features',
  'output-dir': 'no certificates',
};

/** The feature that an installation without a server lacks, by the setting that needs it. */
const SERVER_SETTINGS: Readonly<Record<string, string>> = {
  scc: 'no SCC admission',
  namespaceRanges: 'no UID ranges',
  rollout: 'no rollout of enforcement',
  featureGates: 'no rollout of enforcement',
  kubelet: 'no minimum kubelet version',
  olm: 'no controllers for the Operator Lifecycle Manager',
  controllers: 'no controllers',
  webhooks: 'no webhooks',
  floor: 'no server whose outage the floor covers',
};

/** The fields of `spec.podSecurity` that policies contain. */
const POD_SECURITY_FIELDS = ['defaults', 'exemptions', 'emulationVersion'];

function isPolicySetting({ path: [part, field = ''] }: Setting): boolean {
  return part === 'defaults' || (part === 'podSecurity' && POD_SECURITY_FIELDS.includes(field));
}

interface Changes {
  readonly set: readonly Setting[];
  readonly 'allow-weaker': boolean;
}

export interface ServerlessValues extends Changes {
  readonly 'dry-run': DryRun;
}

/** @throws {UserError} for an option or a setting that needs a server */
export function checkServerless({ set }: Pick<Changes, 'set'>, { typed }: Pick<Sources, 'typed'>): void {
  const option = Object.keys(SERVER_OPTIONS).find((name) => typed.has(name));
  if (option !== undefined) {
    throw new UserError(`--${option}: an installation without a server has ${SERVER_OPTIONS[option]}`);
  }
  const changed = listSettings(set.reduce(withSetting, {}));
  const needing = changed.find((one) => !isPolicySetting(one));
  if (!needing) return;
  const [part = '', field] = needing.path;
  const lacks =
    part === 'podSecurity'
      ? `only spec.podSecurity.{${POD_SECURITY_FIELDS.join(',')}}`
      : Object.hasOwn(SERVER_SETTINGS, part)
        ? SERVER_SETTINGS[part]
        : 'no such setting';
  const name = part === 'podSecurity' ? `${part}.${field}` : needing.path.join('.');
  throw new UserError(`--set=${name}: an installation without a server has ${lacks}`);
}

/** Prints the policies for an API server that is not read. */
export async function printForVersion(kubernetes: Version, { set }: Changes, io: Io): Promise<void> {
  const spec = set.reduce(withSetting, {});
  const objects = serverlessPolicies(spec, kubernetes);
  await checkSystemNamespace(spec);
  const note = newerVersionNote(Number(kubernetes.slice('v1.'.length)));
  io.stderr.write(`Assumed: Kubernetes ${kubernetes} or newer; no cluster was read\n`);
  if (note !== undefined) io.stderr.write(`${note}\n`);
  io.stdout.write(`${header(kubernetes)}${printYaml(objects)}`);
}

function header(kubernetes: Version): string {
  const kubernetesMinor = Number(kubernetes.slice('v1.'.length));
  return policyHeader({ modes: MODES, kubernetesMinor, isStatic: false });
}

/** Prints the policies for a cluster, or the diff, and the summary. Settings that are not changed keep their values. */
export async function printPolicies(client: ClusterClient, values: ServerlessValues, io: Io): Promise<void> {
  const [policies, configuration, { version, minor }] = await Promise.all([
    readPolicyObjects(client),
    client.get(RESOURCES.PortcullisConfiguration, CONFIGURATION_NAME) as Promise<PortcullisConfiguration | undefined>,
    readServer(client),
  ]);
  const { server } = client.connection;
  if (minor === undefined) {
    throw new UserError(`${server} reports the version ${version}, which is unknown: use --for-kubernetes`);
  }
  if (Number(minor.slice('v1.'.length)) < MINIMUM_MINOR) {
    throw new UserError(
      `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is required for ValidatingAdmissionPolicy v1`,
    );
  }
  const installed = readServerless(policies);
  const { before, dropped } = startingSettings(installed, configuration);
  const spec = values.set.reduce(withSetting, before ?? {});
  const objects = serverlessPolicies(spec, minor);
  const ending = installed ? [] : await findEndingEnforcement(client, configuration);
  checkWeaker(before, spec, { configuration: installed ? undefined : configuration, values, ending });
  await checkSystemNamespace(spec, client);
  const live = await readObjects(client, objects);
  const all = objects.map((manifest, index) => ({ manifest, live: live[index] }));
  const dryRun = values['dry-run'];
  io.stdout.write(dryRun === 'none' ? `${header(minor)}${printYaml(objects)}` : await printDiffs(client, all, dryRun));
  const obsolete = policies.filter(
    ({ kind, metadata: { name } }) => !objects.some((one) => one.kind === kind && one.metadata.name === name),
  );
  const { kept, changed } = compareSettings({ policy: before ?? {} }, { policy: spec });
  const added = all.filter((one) => !one.live).map(({ manifest }) => objectPathName(manifest));
  const lines = [
    `Assumed: Kubernetes ${version} at ${server}`,
    ...(dropped.length === 0 ? [] : [`Not part of the policies: ${dropped.join(', ')}`]),
    ...(before ? [`kept: ${kept.join(', ') || 'nothing'}`, `changed: ${changed.join(', ') || 'nothing'}`] : []),
    `new: ${installed ? added.join(', ') || 'nothing' : `${added.length} objects`}`,
    ...obsolete.map((object) => `obsolete: ${deleteCommand(object)}`),
  ];
  for (const line of lines) io.stderr.write(`${printable(line)}\n`);
}

/** The settings of the policies in the cluster, else those of its server that policies contain. */
function startingSettings(
  installed: ServerlessSettings | undefined,
  configuration: PortcullisConfiguration | undefined,
) {
  if (installed || !configuration) return { before: installed?.spec, dropped: [] };
  const settings = listSettings(configuration.spec ?? {});
  const dropped = settings.filter((one) => !isPolicySetting(one)).map(({ path }) => `spec.${path.join('.')}`);
  return { before: settings.filter(isPolicySetting).reduce(withSetting, {}), dropped };
}

interface Comparison {
  /** The settings of the server that the policies replace. */
  readonly configuration: PortcullisConfiguration | undefined;
  readonly values: Changes;
  /** The enforcement of the server that policies do not support. */
  readonly ending: readonly string[];
}

/** Describes the enforcement of the server that policies do not support: SCCs, and the optional features. */
async function findEndingEnforcement(
  client: ClusterClient,
  configuration: PortcullisConfiguration | undefined,
): Promise<readonly string[]> {
  if (!configuration) return [];
  const { spec = {} } = configuration;
  const { scc } = decodePolicy({ namespace: INSTALLATION.namespace, policy: spec });
  const namespaces = await client.list(RESOURCES.Namespace, { labels: SCC_MODE_LABEL });
  const labeled = namespaces.filter((one) => scc.mode !== 'enforce' && sccMode(one, scc).mode === 'enforce');
  return [
    ...(scc.mode === 'enforce' ? ['scc.mode from enforce to off'] : []),
    ...(labeled.length === 0 ? [] : [`no SCCs in ${summarizeNames(labeled.map(objectName))}`]),
    ...findRemovedFeatures(spec, {}),
  ];
}

/** @throws {UserError} if the policies enforce less than the policies or the server of the cluster */
function checkWeaker(
  before: JsonObject | undefined,
  after: JsonObject,
  { configuration, values, ending }: Comparison,
): void {
  const { phase } = decodePolicy({ namespace: INSTALLATION.namespace, policy: configuration?.spec ?? {} }).rollout;
  const level = settingAt(after, ['podSecurity', 'defaults', 'enforce']);
  if (phase !== 'Disabled' && level === undefined) {
    throw new UserError(
      `spec.rollout.phase is ${phase}: the server sets the default level at run time, and policies contain a constant: add --set=podSecurity.defaults.enforce=restricted, or another level`,
    );
  }
  const weaker = [...(before ? findWeakenings(INSTALLATION.namespace, before, after) : []), ...ending];
  if (weaker.length === 0 || values['allow-weaker']) return;
  throw new UserError(`the enforcement would become weaker: ${weaker.join('; ')}: add --allow-weaker to accept this`);
}

/**
 * The pods of the cluster itself need privileges. Without an exemption, a default level would deny them.
 * @throws {UserError} if the namespace is neither exempt nor labelled
 */
async function checkSystemNamespace(spec: JsonObject, client?: ClusterClient): Promise<void> {
  const { defaults, exemptions } = decodePolicy({ namespace: INSTALLATION.namespace, policy: spec }).podSecurity
    .configuration;
  if (defaults.enforce === 'privileged' || exemptions.namespaces.includes(SYSTEM_NAMESPACE)) return;
  const namespace = await client?.get(RESOURCES.Namespace, SYSTEM_NAMESPACE);
  const label = POD_SECURITY_LABELS.enforce;
  if (namespace?.metadata.labels?.[label] !== undefined) return;
  const list = [...exemptions.namespaces, SYSTEM_NAMESPACE].join(', ');
  const labelled = client ? `, or label it: kubectl label namespace ${SYSTEM_NAMESPACE} ${label}=privileged` : '';
  throw new UserError(
    `podSecurity.defaults.enforce=${defaults.enforce} would deny pods of the cluster itself in the namespace ${SYSTEM_NAMESPACE}: exempt it with --set='podSecurity.exemptions.namespaces=[${list}]'${labelled}`,
  );
}
