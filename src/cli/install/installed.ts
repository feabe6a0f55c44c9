/**
 * An installation in a cluster: its settings with their owners, its version, and the objects that it no longer needs.
 */
import { type AnyObject, type ClusterClient, DEFINITIONS, ignoreNotFound } from '../../cluster/client.ts';
import { listSettings, type Setting, settingOwners, withSetting } from '../../config/setting-paths.ts';
import { buildManifests, INITIAL_SETTINGS, type Manifest, type ManifestSettings } from '../../install/index.ts';
import type { Kind, Kinds } from '../../kube/kinds.ts';
import { getApiVersion, objectPath, RESOURCES } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject, type PortcullisConfiguration } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { CONFIGURATION_KINDS, configurationFeature, isPartOfPortcullis } from '../../kube/webhooks.ts';
import { CONFIGURATION_NAME, FEATURES, INSTALLATION, PART_OF, PART_OF_LABEL } from '../../kube/well-known.ts';
import { VERSION } from '../command.ts';
import { kubectl, type ShellCommand } from '../output/shell.ts';
import { serveOptions } from '../serve/options.ts';
import { type InstalledPolicy, readPolicyObjects, readServerless, type ServerlessSettings } from './policies.ts';
import { deploymentArgument, deploymentFeatures } from './replicas.ts';

/** Name of the CRD for the minimum kubelet version. */
export const NODES_CONFIG = 'nodes.config.openshift.io';

type Deployment = Kinds['Deployment'];

/** An installation in a cluster. */
export interface Installation {
  /** Absent if only the settings exist. */
  readonly deployment: Deployment | undefined;
  readonly configuration: PortcullisConfiguration | undefined;
  /** Settings derived from the objects. */
  readonly settings: Partial<ManifestSettings>;
  /** Settings that the leader applies. */
  readonly initial: JsonObject;
  /** Settings of the policies of a serverless installation. */
  readonly serverless: ServerlessSettings | undefined;
  /** The generated policies and bindings. */
  readonly policies: readonly InstalledPolicy[];
}

/**
 * Reads the installation in a namespace. Rejects with an ApiError if an object cannot be read, and with a UserError if
 * the installation is in another namespace or belongs to Helm.
 */
export async function readInstallation(client: ClusterClient, namespace: string): Promise<Installation> {
  const { name } = INSTALLATION;
  const [deployment, configuration, binding, policies] = await Promise.all([
    client.get(RESOURCES.Deployment, name, namespace) as Promise<Deployment | undefined>,
    client.get(RESOURCES.PortcullisConfiguration, CONFIGURATION_NAME) as Promise<PortcullisConfiguration | undefined>,
    client.get(RESOURCES.ClusterRoleBinding, name) as Promise<Kinds['ClusterRoleBinding'] | undefined>,
    readPolicyObjects(client),
  ]);
  const serverless = readServerless(policies);
  const other = binding?.subjects?.[0]?.namespace ?? namespace;
  if (!deployment && other !== namespace && (await client.get(RESOURCES.Deployment, name, other))) {
    throw new UserError(`Portcullis is installed in namespace ${other}: use --namespace=${other}`);
  }
  const labels = deployment?.metadata?.labels ?? {};
  if (labels['app.kubernetes.io/managed-by'] === 'Helm') {
    throw new UserError(`the installation in namespace ${namespace} belongs to Helm: use helm upgrade --reuse-values`);
  }
  const initial = deployment ? readInitialSettings(deployment) : {};
  const settings = deployment ? await deriveSettings(client, deployment, namespace) : {};
  const existing = configuration?.spec ?? (deployment ? initial : serverless?.spec);
  const policy = existing ? { policy: existing } : {};
  return { deployment, configuration, initial, serverless, policies, settings: { ...settings, ...policy } };
}

async function deriveSettings(
  client: ClusterClient,
  deployment: Deployment,
  namespace: string,
): Promise<Partial<ManifestSettings>> {
  const { name } = INSTALLATION;
  const monitoring = { group: 'monitoring.coreos.com', version: 'v1' };
  const { features, ...shown } = deploymentSettings(deployment);
  const [monitor, rules, nodes] = await Promise.all([
    client.get({ ...monitoring, resource: 'servicemonitors' }, name, namespace),
    client.get({ ...monitoring, resource: 'prometheusrules' }, name, namespace),
    client.get(DEFINITIONS, NODES_CONFIG),
  ]);
  const image = replicaContainer(deployment)?.image;
  const [, runbook] = /"runbook_url":"([^#"]+)/.exec(JSON.stringify(rules ?? {})) ?? [];
  return {
    replicas: deployment.spec?.replicas ?? 1,
    monitoring: monitor ? 'prometheus-operator' : 'none',
    // The CRD may remain from an installation with the feature.
    nodesConfig: features.kubelet && nodes !== undefined && isPartOfPortcullis(nodes),
    features,
    ...shown,
    ...(image == null ? {} : { image }),
    ...(runbook === undefined ? {} : { runbook }),
  };
}

/** Returns the settings in the replicas' arguments. */
export function deploymentSettings(deployment: Deployment) {
  const url = deploymentArgument(deployment, 'webhook-url');
  return {
    features: deploymentFeatures(deployment),
    certificates: certificateSource(deployment),
    ...(url === undefined ? {} : { webhooks: { url } }),
  } satisfies Partial<ManifestSettings>;
}

function certificateSource(deployment: Deployment): ManifestSettings['certificates'] {
  if (deploymentArgument(deployment, 'tls-cert-file') === undefined) return 'self-managed';
  const annotations = deploymentArgument(deployment, 'webhook-annotations') ?? '';
  return annotations.includes('cert-manager.io/') ? 'cert-manager' : 'others';
}

function readInitialSettings(deployment: Deployment): JsonObject {
  const text = replicaContainer(deployment)?.env?.find(({ name }) => name === INITIAL_SETTINGS)?.value ?? '{}';
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    throw new UserError(`deployments/${INSTALLATION.name}: ${INITIAL_SETTINGS} is not JSON: ${quote(text)}`);
  }
}

function replicaContainer(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers.find(({ name }) => name === INSTALLATION.name);
}

/** Image of the replicas. */
export function installedImage({ deployment }: Installation): string | undefined {
  return replicaContainer(deployment)?.image ?? undefined;
}

/** Version of an installation, or `undefined` if its pods have no version label. */
function installedVersion({ deployment }: Pick<Installation, 'deployment'>): string | undefined {
  return deployment?.spec?.template.metadata?.labels?.['app.kubernetes.io/version'];
}

/** Returns the reason why this program cannot change an installation, or `undefined` if it can. */
export function findIncompatibility(
  installation: Pick<Installation, 'deployment'>,
  isUpgrade: boolean,
): string | undefined {
  const version = installedVersion(installation);
  const [major = 0, minor = 0, patch = 0] = parseProgramVersion(version ?? VERSION);
  const [ownMajor = 0, ownMinor = 0, ownPatch = 0] = parseProgramVersion(VERSION);
  const skew = ownMajor - major || ownMinor - minor;
  if (skew < 0 || (skew === 0 && ownPatch < patch)) {
    return `version ${version} is installed, but this program has version ${VERSION}: use version ${version} of the program`;
  }
  if (ownMajor !== major || skew > 1) {
    return `version ${version} is installed: replicas of ${version} and ${VERSION} cannot run at the same time: upgrade one minor version at a time`;
  }
  if (!isUpgrade && version !== undefined && version !== VERSION) {
    return `version ${version} is installed, but this program has version ${VERSION}: use portcullis upgrade`;
  }
  const unknown = (replicaContainer(installation.deployment)?.args ?? [])
    .map((arg) => /^--(?:no-)?([^=]+)/.exec(arg)?.[1])
    .find((name) => name !== undefined && !(name in serveOptions) && !(`no-${name}` in serveOptions));
  return unknown === undefined
    ? undefined
    : `deployments/${INSTALLATION.name}: version ${VERSION} does not have the option --${unknown}: remove it from the container arguments first`;
}

function parseProgramVersion(version: string): readonly number[] {
  return /^\d+\.\d+\.\d+/.test(version) ? version.split(/[.+-]/, 3).map(Number) : [];
}

/** Stored versions of a CRD that its manifest no longer contains. */
export function lostVersions(manifest: Manifest, live: AnyObject | undefined): readonly string[] {
  if (manifest.kind !== 'CustomResourceDefinition' || !live) return [];
  const { status } = live as { readonly status?: { readonly storedVersions?: readonly string[] } };
  const { spec } = manifest as Manifest & {
    readonly spec: { readonly versions: readonly { readonly name: string }[] };
  };
  return (status?.storedVersions ?? []).filter((stored) => !spec.versions.some(({ name }) => name === stored));
}

/** Reads the objects in manifests, in the same order. Absent objects are `undefined`. */
export async function readObjects(
  { send }: ClusterClient,
  manifests: readonly Manifest[],
): Promise<readonly (AnyObject | undefined)[]> {
  const responses = manifests.map((manifest) => ignoreNotFound(send({ method: 'GET', path: manifestPath(manifest) })));
  return (await Promise.all(responses)) as unknown as readonly (AnyObject | undefined)[];
}

const ROLE_KINDS = ['ClusterRoleBinding', 'ClusterRole', 'RoleBinding', 'Role'] as const;

/**
 * Returns roles, bindings and webhook configurations that the settings do not require, such as
 * `clusterroles/portcullis-olm`, in deletion order. Without its roles, the leader cannot restore webhooks.
 */
export async function findObsolete(client: ClusterClient, settings: ManifestSettings): Promise<readonly string[]> {
  const names = new Set(buildManifests(settings).map(({ kind, metadata: { name } }) => `${kind} ${name}`));
  const isNeeded = (kind: Kind, name: string): boolean => {
    if (!CONFIGURATION_KINDS.some((one) => one === kind)) return names.has(`${kind} ${name}`);
    const feature = FEATURES.find((one) => one === configurationFeature(name));
    return feature === undefined || settings.features[feature];
  };
  const lists = [...ROLE_KINDS, ...CONFIGURATION_KINDS].map(async (kind) => {
    const { namespace } = settings;
    const objects = await client.list(RESOURCES[kind], { namespace, labels: `${PART_OF_LABEL}=${PART_OF}` });
    const obsolete = objects.filter(({ metadata: { name } }) => !isNeeded(kind, name));
    return obsolete.map(({ metadata: { name } }) => `${RESOURCES[kind].resource}/${name}`);
  });
  return (await Promise.all(lists)).flat();
}

/** Returns the command that deletes obsolete objects. The leader may already have deleted some of them. */
export function deleteObsolete(namespace: string, obsolete: readonly string[]): ShellCommand {
  const scope = obsolete.some((one) => one.startsWith('role')) ? ['-n', namespace] : [];
  return kubectl(...scope, 'delete', '--ignore-not-found', ...obsolete);
}

/** API path of the object in a manifest. The plurals of its kinds are regular. */
function manifestPath({ apiVersion, kind, metadata: { name, namespace } }: Manifest): string {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  const resource = `${kind.toLowerCase()}s`.replace(/ys$/, 'ies');
  return objectPath({ group, version, resource }, name, namespace);
}

// Changes to the settings.

/** The field manager of `kubectl apply --server-side`. */
const KUBECTL = 'kubectl';

/** How changed settings take effect. */
interface DividedSettings {
  /** Settings that the leader applies because they have no other owner. */
  readonly initial: JsonObject;
  /** The object with changed settings that other clients own, for `kubectl apply`. */
  readonly object: Manifest | undefined;
  /** Changed settings that kubectl replaces only with `--force-conflicts`. */
  readonly conflicts: readonly string[];
  /** Command that removes settings owned by other clients, which server-side apply cannot do. */
  readonly removal: ShellCommand | undefined;
}

/**
 * Divides settings by owner, because the leader does not overwrite other managers' fields. The object keeps all fields
 * that kubectl applied, because server-side apply removes omitted fields.
 */
export function divideSettings(
  { configuration, initial }: Pick<Installation, 'configuration' | 'initial'>,
  changes: readonly Setting[],
): DividedSettings {
  const ownersAt = (path: readonly string[]): readonly string[] =>
    configuration ? settingOwners(configuration, path) : [];
  const own = listSettings(changes.reduce(withSetting, initial)).filter(
    ({ path, value }) => value !== null && ownersAt(path).length === 0,
  );
  const owned = changes.filter(({ path }) => ownersAt(path).length > 0);
  const foreign = owned.filter(({ value }) => value !== null);
  const removed = owned.filter(({ value }) => value === null);
  const applied = listSettings(configuration?.spec ?? {}).filter(({ path }) => ownersAt(path).includes(KUBECTL));
  const object = {
    apiVersion: getApiVersion('PortcullisConfiguration'),
    kind: 'PortcullisConfiguration',
    metadata: { name: CONFIGURATION_NAME },
    spec: [...applied, ...foreign].reduce(withSetting, {}),
  };
  return {
    initial: own.reduce(withSetting, {}),
    object: foreign.length === 0 ? undefined : object,
    conflicts: foreign.flatMap(({ path }) => {
      const others = ownersAt(path).filter((owner) => owner !== KUBECTL);
      return others.length === 0 ? [] : [`spec.${path.join('.')} belongs to ${others.join(', ')}`];
    }),
    removal: removed.length === 0 ? undefined : patchSettings(removed),
  };
}

/** Returns the command that changes settings regardless of their owner. A `null` value removes a setting. */
export function patchSettings(settings: readonly Setting[]): ShellCommand {
  const patch = JSON.stringify({ spec: settings.reduce(withSetting, {}) });
  return kubectl('patch', 'portcullisconfiguration', CONFIGURATION_NAME, '--type=merge', '-p', patch);
}
