/** Reads the version and the command-line options of the replicas from the Deployment. */
import { posix } from 'node:path';
import { INSTALLATION, PART_OF, PART_OF_LABEL } from '../../api/names.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import { CERTIFICATE, type ManifestSettings, parseFeatures } from '../../install/index.ts';
import type { Kinds } from '../../kube/kinds.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { VERSION } from '../command.ts';
import { serveOptions } from '../serve-options.ts';

type Deployment = Kinds['Deployment'];

/**
 * Returns the other namespaces that contain a Deployment of Portcullis. Such a Deployment uses the same cluster roles
 * and webhooks.
 */
export async function findOtherInstallations(client: ClusterClient, namespace: string): Promise<readonly string[]> {
  const deployments = await client.list(RESOURCES.Deployment, { labels: `${PART_OF_LABEL}=${PART_OF}` });
  return deployments.flatMap(({ metadata: { name, namespace: other = namespace } }) =>
    name === INSTALLATION.name && other !== namespace ? other : [],
  );
}

export function replicaContainer(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers.find(({ name }) => name === INSTALLATION.name);
}

/** Returns all values of an option in the replicas' arguments or, without arguments, in their environment variables. */
function deploymentArguments(deployment: Deployment | undefined, option: keyof typeof serveOptions): readonly string[] {
  const { args = [], env = [] } = replicaContainer(deployment) ?? {};
  const values = args.flatMap((arg, index) => {
    if (arg === `--${option}`) return args[index + 1] ?? [];
    return arg.startsWith(`--${option}=`) ? arg.slice(option.length + 3) : [];
  });
  const variable = env.find(({ name }) => name === serveOptions[option].env)?.value;
  return values.length > 0 || variable === undefined ? values : [variable];
}

/** Returns the features of the installation, which the Deployment passes to the replicas. */
export function deploymentFeatures(deployment: Deployment): ManifestSettings['features'] {
  return parseFeatures(deploymentArguments(deployment, 'features'));
}

/**
 * Returns the Secret and the key from which the replicas' serving certificate is mounted, if it comes from a Secret.
 */
export function certificateSecret(deployment: Deployment | undefined) {
  const path = deploymentArguments(deployment, 'tls-cert-file').at(-1) ?? '';
  const mounts = replicaContainer(deployment)?.volumeMounts ?? [];
  const mount = mounts.find(({ mountPath }) => path.startsWith(posix.join(mountPath, '/')));
  const volume = deployment?.spec?.template.spec?.volumes?.find(({ name }) => name === mount?.name);
  const { secretName: name, items } = volume?.secret ?? {};
  if (!mount || name === undefined) return undefined;
  const file = posix.relative(mount.mountPath, path);
  return { name, key: items?.find((item) => item.path === file)?.key ?? file };
}

/** Returns the settings in the replicas' arguments. */
export function deploymentSettings(deployment: Deployment) {
  const url = deploymentArguments(deployment, 'webhook-url').at(-1);
  return {
    features: deploymentFeatures(deployment),
    certificates: certificateSource(deployment),
    ...(url === undefined ? {} : { webhooks: { url } }),
  } satisfies Partial<ManifestSettings>;
}

/** Returns `cert-manager` only for the Certificate in the manifests, because users may have their own Certificate. */
function certificateSource(deployment: Deployment): ManifestSettings['certificates'] {
  if (deploymentArguments(deployment, 'tls-cert-file').length === 0) return 'self-managed';
  const annotations = deploymentArguments(deployment, 'webhook-annotations').join();
  return annotations.includes(`/${CERTIFICATE}`) ? 'cert-manager' : 'others';
}

/** Returns the reason why this program cannot change an installation, or `undefined` if it can. */
export function findIncompatibility(deployment: Deployment | undefined, isUpgrade: boolean): string | undefined {
  const version = deployment?.spec?.template.metadata?.labels?.['app.kubernetes.io/version'];
  const [major = 0, minor = 0, patch = 0] = parseProgramVersion(version ?? VERSION);
  const [ownMajor = 0, ownMinor = 0, ownPatch = 0] = parseProgramVersion(VERSION);
  const skew = ownMajor - major || ownMinor - minor;
  if (skew < 0 || (skew === 0 && ownPatch < patch)) {
    return `version ${version} is installed, but this program has version ${VERSION}: use version ${version} of the program`;
  }
  if (ownMajor !== major || skew > 1) {
    return `version ${version} is installed, and its replicas cannot run together with replicas of ${VERSION}: upgrade one minor version at a time`;
  }
  if (!isUpgrade && version !== undefined && version !== VERSION) {
    return `version ${version} is installed, but this program has version ${VERSION}: use portcullis upgrade`;
  }
  return undefined;
}

function parseProgramVersion(version: string): readonly number[] {
  return /^\d+\.\d+\.\d+/.test(version) ? version.split(/[.+-]/, 3).map(Number) : [];
}
