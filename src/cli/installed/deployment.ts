/** Reads the version of an installation and the options of its replicas from the Deployment. */
import { posix } from 'node:path';
import { type ManifestSettings, parseFeatures } from '../../install/index.ts';
import type { Kinds } from '../../kube/kinds.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { VERSION } from '../command.ts';
import { serveOptions } from '../serve-options.ts';

type Deployment = Kinds['Deployment'];

/** Returns the value of an option in the replicas' arguments. */
function deploymentArgument(deployment: Deployment | undefined, option: string): string | undefined {
  return deploymentArguments(deployment, option).at(-1);
}

/** Returns all values of an option in the replicas' arguments. */
function deploymentArguments(deployment: Deployment | undefined, option: string): readonly string[] {
  const args = deploymentContainers(deployment).flatMap((container) => container.args ?? []);
  return args.flatMap((arg, index) => {
    if (arg === `--${option}`) return args[index + 1] ?? [];
    return arg.startsWith(`--${option}=`) ? arg.slice(option.length + 3) : [];
  });
}

/** Returns the features of the installation, which the Deployment passes to the replicas. */
export function deploymentFeatures(deployment: Deployment): ManifestSettings['features'] {
  return parseFeatures(deploymentArguments(deployment, 'features'));
}

/** The object whose content is mounted as a file in the replicas. */
interface FileSource {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  /** Key of the file in the object. */
  readonly key: string;
}

/** Returns the source of the file that an option names, or `undefined` if the option or mount is absent. */
export function deploymentFile(deployment: Deployment | undefined, option: string): FileSource | undefined {
  const path = deploymentArgument(deployment, option);
  if (path === undefined) return undefined;
  const mounts = deploymentContainers(deployment).flatMap((container) => container.volumeMounts ?? []);
  const mount = mounts.find(({ mountPath }) => path.startsWith(posix.join(mountPath, '/')));
  const volume = deployment?.spec?.template.spec?.volumes?.find(({ name }) => name === mount?.name);
  if (!mount || !volume) return undefined;
  const file = posix.relative(mount.mountPath, path);
  const { configMap, secret } = volume;
  const key = (configMap ?? secret)?.items?.find((item) => item.path === file)?.key ?? file;
  if (configMap?.name !== undefined) return { kind: 'ConfigMap', name: configMap.name, key };
  return secret?.secretName === undefined ? undefined : { kind: 'Secret', name: secret.secretName, key };
}

function deploymentContainers(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers ?? [];
}

/** Returns the container of the replicas. */
export function replicaContainer(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers.find(({ name }) => name === INSTALLATION.name);
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

/** Returns the version of an installation, or `undefined` if its pods have no version label. */
function installedVersion(deployment: Deployment | undefined): string | undefined {
  return deployment?.spec?.template.metadata?.labels?.['app.kubernetes.io/version'];
}

/** Returns the reason why this program cannot change an installation, or `undefined` if it can. */
export function findIncompatibility(deployment: Deployment | undefined, isUpgrade: boolean): string | undefined {
  const version = installedVersion(deployment);
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
  const unknown = (replicaContainer(deployment)?.args ?? [])
    .map((arg) => /^--(?:no-)?([^=]+)/.exec(arg)?.[1])
    .find((name) => name !== undefined && !(name in serveOptions) && !(`no-${name}` in serveOptions));
  return unknown === undefined
    ? undefined
    : `deployments/${INSTALLATION.name}: version ${VERSION} does not have the option --${unknown}: remove it from the container arguments first`;
}

function parseProgramVersion(version: string): readonly number[] {
  return /^\d+\.\d+\.\d+/.test(version) ? version.split(/[.+-]/, 3).map(Number) : [];
}
