/**
 * Implements `install --without-server`, and `upgrade` of such an installation. Both print the policies and a summary.
 */
import { CONFIGURATION_NAME, INSTALLATION, POLICY_SELECTOR } from '../../api/names.ts';
import { type ClusterClient, readServer } from '../../cluster/client.ts';
import { listSettings, type Setting, withSetting } from '../../config/setting-paths.ts';
import { printYaml } from '../../config/yaml.ts';
import { decodePolicy } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { shellQuote } from '../../kube/text.ts';
import { type JsonObject, type PortcullisConfiguration, valueAt } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { MIN_POLICY_MINOR, renamePolicy } from '../../policy/psa/index.ts';
import { minorVersion, newestVersion, type Version } from '../../policy/pss/index.ts';
import type { clusterOptions } from '../cluster.ts';
import { type Io, printPage, PROGRAM, VERSION } from '../command.ts';
import {
  comparePolicies,
  deleteCommand,
  readPolicyObjects,
  readAnnotatedSettings,
  servedKinds,
  buildPolicies,
  type AnnotatedSettings,
} from '../installation/policies.ts';
import { findLostEnforcement, checkWeakenings, findWeakenings } from '../installation/weakening.ts';
import type { Sources, Values } from '../options.ts';
import { printable } from '../output/print.ts';
import { getClusterFlags, kubectl, printCommand } from '../output/shell.ts';
import type { OutputFile } from './output-files.ts';

/** Options of `install` and `upgrade` that are also valid without a server. */
const OPTIONS = [
  'without-server',
  'for-kubernetes',
  'static',
  'output-dir',
  'kubeconfig',
  'context',
  'allow-weaker',
  'set',
];

/** `spec.podSecurity` fields that policies contain. */
const POD_SECURITY_FIELDS = ['defaults', 'exemptions', 'emulationVersion'];

function isPolicySetting({ path: [part, field = ''] }: Setting): boolean {
  return part === 'defaults' || part === 'guard' || (part === 'podSecurity' && POD_SECURITY_FIELDS.includes(field));
}

interface Changes extends Values<typeof clusterOptions> {
  readonly set: readonly Setting[];
  readonly 'allow-weaker': boolean;
}

/**
 * Checks that an installation without a server supports the options.
 * @throws {UserError} for an option or a setting that requires a server
 */
export function checkPolicyOptions({ set }: Pick<Changes, 'set'>, { typed }: Pick<Sources, 'typed'>): void {
  const option = [...typed.keys()].find((name) => !OPTIONS.includes(name));
  if (option !== undefined) throw new UserError(`--${option}: not supported by an installation without a server`);
  const unsupported = listSettings(set.reduce(withSetting, {})).find((setting) => !isPolicySetting(setting));
  if (!unsupported) return;
  throw new UserError(
    `--set=${unsupported.path.join('.')}: an installation without a server supports only spec.defaults, spec.guard and spec.podSecurity.{${POD_SECURITY_FIELDS.join(',')}}`,
  );
}

/** Parses a Kubernetes minor version such as `1.36` or `v1.36.2`. */
export function kubernetesVersion(value: string): Version {
  const minor = Number(/^v?1\.(\d{1,4})(?:\.\d+)?$/.exec(value)?.[1] ?? NaN);
  if (minor >= MIN_POLICY_MINOR) return `v1.${minor}`;
  const older = Number.isNaN(minor) ? '' : ', because older API servers reject functions in the policies';
  throw new UserError(`must be a Kubernetes version such as 1.36, and at least 1.${MIN_POLICY_MINOR}${older}`);
}

/** Prints the policies without reading an API server. */
export async function printForVersion(kubernetes: Version, changes: Changes, io: Io): Promise<void> {
  const objects = await createPolicies(kubernetes, changes, io);
  io.stdout.write(`${printHeader(kubernetes)}${printYaml(objects)}`);
}

/** Oldest Kubernetes 1.x minor version that reads policies from files by default. */
const MIN_STATIC_MINOR = 37;

/** Directory on each control plane node for the static files. */
const FOLDER = '/etc/kubernetes/admission';

/** Plugins that load policies and bindings from files, each with the name of its directory. */
const PLUGINS = [
  { plugin: 'ValidatingAdmissionPolicy', folder: 'validating' },
  { plugin: 'MutatingAdmissionPolicy', folder: 'mutating' },
] as const;

/**
 * Returns the files from which API servers load the policies when they start. API requests cannot change these
 * policies. API servers reject a directory with objects of the other plugin.
 * @see https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5793-manifest-based-admission-control-config
 * @throws {UserError} if the API servers are too old
 */
export async function createStaticFiles(kubernetes: Version, changes: Changes, io: Io): Promise<readonly OutputFile[]> {
  if (minorVersion(kubernetes) < MIN_STATIC_MINOR) {
    throw new UserError(
      `--static requires --for-kubernetes=1.${MIN_STATIC_MINOR} or newer, because older API servers do not read policies from files`,
    );
  }
  const objects = (await createPolicies(kubernetes, changes, io)).map((object) =>
    renamePolicy(object, (name) => `${name}.static.k8s.io`),
  );
  const used = PLUGINS.map((plugin) => ({
    ...plugin,
    own: objects.filter(({ kind }) => kind.startsWith(plugin.plugin)),
  })).filter(({ own }) => own.length > 0);
  const configuration: JsonObject = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: used.map(({ plugin, folder }) => ({
      name: plugin,
      configuration: {
        apiVersion: 'apiserver.config.k8s.io/v1',
        kind: `${plugin}Configuration`,
        staticManifestsDir: `${FOLDER}/${folder}`,
      },
    })),
  };
  return [
    ...used.map(({ folder, own }) => ({
      path: `admission/${folder}/portcullis.yaml`,
      purpose: `for ${FOLDER}/${folder} of each control plane node`,
      text: `${printSource(kubernetes)}${printYaml(own)}`,
    })),
    {
      path: 'admission/admission.yaml',
      purpose: `for ${FOLDER}: the --admission-control-config-file of kube-apiserver`,
      text: printYaml([configuration]),
    },
  ];
}

/** Generates the policies, and prints the assumed version. */
async function createPolicies(
  kubernetes: Version,
  { set }: Changes,
  io: Io,
): Promise<ReturnType<typeof buildPolicies>> {
  const spec = set.reduce(withSetting, {});
  const objects = buildPolicies(spec, kubernetes);
  await checkSystemNamespace(spec);
  io.stderr.write(`Assuming Kubernetes ${kubernetes.slice(1)} or newer, because no cluster was read\n`);
  if (minorVersion(kubernetes) > minorVersion(newestVersion)) {
    const [version, newest] = [kubernetes, newestVersion].map((name) => name.slice(1));
    io.stderr.write(
      `Kubernetes ${version} is newer than ${newest}, the newest supported version: the checks for ${newest} apply\n`,
    );
  }
  return objects;
}

/** Returns the comment that precedes the policies in every output. */
function printSource(kubernetes: Version): string {
  return `# Pod Security Standards in the API server, generated by ${PROGRAM} v${VERSION} for Kubernetes ${kubernetes} and newer.
# Differences from the PodSecurity plugin: ${printPage('how-to/policies.md#what-users-see')}
`;
}

/** Returns the comment that precedes the policies, with the command that applies them. */
function printHeader(kubernetes: Version, clusterFlags: readonly string[] = []): string {
  const kinds = servedKinds(kubernetes).map((kind) => `--prune-allowlist=admissionregistration.k8s.io/v1/${kind}`);
  const flags = [...kinds, ...clusterFlags.map(shellQuote)].join(' ');
  return `${printSource(kubernetes)}# To apply them and to delete policies that the settings no longer require:
#   kubectl apply -f - --prune -l ${POLICY_SELECTOR} \\
#     ${printable(flags)}
`;
}

/** Prints the policies for a cluster and the summary. Settings that the options do not change keep their values. */
export async function printPolicies(client: ClusterClient, values: Changes, io: Io): Promise<void> {
  const [policies, configuration, { version, minor }] = await Promise.all([
    readPolicyObjects(client),
    client.get(RESOURCES.PortcullisConfiguration, CONFIGURATION_NAME) as Promise<PortcullisConfiguration | undefined>,
    readServer(client),
  ]);
  const { server } = client.connection;
  if (minor === undefined) {
    throw new UserError(`${server} reports version ${version}, which is unknown: use --for-kubernetes`);
  }
  if (minorVersion(minor) < MIN_POLICY_MINOR) {
    throw new UserError(
      `${server} runs Kubernetes ${version}: v1.${MIN_POLICY_MINOR} or newer is required for functions in the policies`,
    );
  }
  const installed = readAnnotatedSettings(policies);
  const { before, dropped } = startingSettings(installed, configuration);
  const spec = values.set.reduce(withSetting, before ?? {});
  const objects = buildPolicies(spec, minor);
  checkWeakenings(await findWeaker(client, installed, configuration, spec), values['allow-weaker']);
  const clusterFlags = getClusterFlags(values);
  await checkSystemNamespace(spec, { client, clusterFlags });
  const { obsolete } = comparePolicies(objects, policies);
  io.stdout.write(`${printHeader(minor, clusterFlags)}${printYaml(objects)}`);
  const lines = [
    `Note: Kubernetes ${version} at ${server}`,
    ...(dropped.length === 0 ? [] : [`Not included in the policies: ${dropped.join(', ')}`]),
    ...obsolete.map((object) => `obsolete: ${printCommand(deleteCommand(object), clusterFlags)}`),
  ];
  for (const line of lines) io.stderr.write(`${printable(line)}\n`);
}

/**
 * Returns the settings of the policies in the cluster or, without policies, the server settings that policies support.
 */
function startingSettings(
  installed: AnnotatedSettings | undefined,
  configuration: PortcullisConfiguration | undefined,
) {
  if (installed || !configuration) return { before: installed?.spec, dropped: [] };
  const settings = listSettings(configuration.spec ?? {});
  const dropped = settings.filter((setting) => !isPolicySetting(setting)).map(({ path }) => `spec.${path.join('.')}`);
  return { before: settings.filter(isPolicySetting).reduce(withSetting, {}), dropped };
}

/**
 * Describes the settings that policies with the given spec would enforce less strictly than the cluster's policies or
 * server.
 * @throws {UserError} if the server's default level changes at run time
 */
async function findWeaker(
  client: ClusterClient,
  installed: AnnotatedSettings | undefined,
  configuration: PortcullisConfiguration | undefined,
  after: JsonObject,
): Promise<readonly string[]> {
  const { namespace } = INSTALLATION;
  if (installed) return findWeakenings({ namespace, policy: installed.spec }, { namespace, policy: after });
  if (!configuration) return [];
  const spec = configuration.spec ?? {};
  const { phase } = decodePolicy({ namespace, policy: spec }).rollout;
  if (phase !== 'Disabled' && valueAt(after, ['podSecurity', 'defaults', 'enforce']) === undefined) {
    throw new UserError(
      `spec.rollout.phase is ${phase}, so the server changes the default level at run time, but policies contain a constant level: add --set=podSecurity.defaults.enforce=restricted, or another level`,
    );
  }
  const namespaces = await client.list(RESOURCES.Namespace);
  return findLostEnforcement(namespace, spec, { namespaces, policies: after });
}

/**
 * Checks that the default level does not deny the privileged pods in kube-system.
 * @throws {UserError} if the namespace is neither exempt nor labelled
 */
async function checkSystemNamespace(
  spec: JsonObject,
  cluster?: { readonly client: ClusterClient; readonly clusterFlags: readonly string[] },
): Promise<void> {
  const { defaults, exemptions } = decodePolicy({ namespace: INSTALLATION.namespace, policy: spec }).podSecurity
    .configuration;
  if (defaults.enforce === 'privileged' || exemptions.namespaces.includes(KUBE_SYSTEM)) return;
  const namespace = await cluster?.client.get(RESOURCES.Namespace, KUBE_SYSTEM);
  const label = POD_SECURITY_LABELS.enforce;
  if (namespace?.metadata.labels?.[label] !== undefined) return;
  const list = [...exemptions.namespaces, KUBE_SYSTEM].join(', ');
  const command = kubectl('label', 'namespace', KUBE_SYSTEM, `${label}=privileged`);
  const labelled = cluster ? `, or label it: ${printCommand(command, cluster.clusterFlags)}` : '';
  throw new UserError(
    `podSecurity.defaults.enforce=${defaults.enforce} would deny system pods in namespace ${KUBE_SYSTEM}: exempt it with --set='podSecurity.exemptions.namespaces=[${list}]'${labelled}`,
  );
}
