/** Replicas of an installation: the options in their Deployment, and their Leases. */
import { posix } from 'node:path';
import { type ManifestSettings, parseFeatures } from '../../install/index.ts';
import type { Kinds } from '../../kube/kinds.ts';
import type { Lease } from '../../kube/types.ts';

/** True if the holder renewed the Lease in time according to this machine's clock. */
export function isCurrentLease({ spec }: Lease, now: Date, toleranceMs = 0): boolean {
  const renewedMs = Date.parse(spec?.renewTime ?? '');
  return renewedMs + (spec?.leaseDurationSeconds ?? 0) * 1000 + toleranceMs >= now.getTime();
}

type Deployment = Kinds['Deployment'];

/** Value of an option on the replicas' command line. */
export function deploymentArgument(deployment: Deployment | undefined, option: string): string | undefined {
  return deploymentArguments(deployment, option).at(-1);
}

/** Returns all values of an option on the replicas' command line. */
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

/** Object from which a file of the replicas is mounted. */
interface FileSource {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  /** Key in the object. */
  readonly key: string;
}

/** Source of the file that an option names, or `undefined` if the option or mount is absent. */
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
