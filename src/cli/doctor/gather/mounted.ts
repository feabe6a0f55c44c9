import { posix } from 'node:path';
import type { Kinds } from '../../../kube/types.ts';

type Deployment = Kinds['Deployment'];

/** A file of a replica and the object that it is mounted from. */
export interface MountedFile {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string;
  /** In the object. */
  readonly key: string;
}

/** What is given for an option on the command line of the replicas. */
export function argumentOf(deployment: Deployment | undefined, option: string): string | undefined {
  const args = containersOf(deployment).flatMap((container) => container.args ?? []);
  const index = args.findLastIndex((arg) => arg === `--${option}` || arg.startsWith(`--${option}=`));
  const arg = args[index];
  return arg === `--${option}` ? args[index + 1] : arg?.slice(option.length + 3);
}

/** Where the file of an option comes from; `undefined` if the option is not given or it is mounted from nothing known. */
export function mountedFile(deployment: Deployment | undefined, option: string): MountedFile | undefined {
  const path = argumentOf(deployment, option);
  if (path === undefined) return undefined;
  const mounts = containersOf(deployment).flatMap((container) => container.volumeMounts ?? []);
  const mount = mounts.find(({ mountPath }) => path.startsWith(posix.join(mountPath, '/')));
  const volume = deployment?.spec?.template.spec?.volumes?.find(({ name }) => name === mount?.name);
  if (!mount || !volume) return undefined;
  const file = posix.relative(mount.mountPath, path);
  const { configMap, secret } = volume;
  const source = configMap ?? secret;
  const key = source?.items?.find((item) => item.path === file)?.key ?? file;
  if (configMap?.name !== undefined) return { kind: 'ConfigMap', name: configMap.name, key };
  return secret?.secretName === undefined ? undefined : { kind: 'Secret', name: secret.secretName, key };
}

function containersOf(deployment: Deployment | undefined) {
  return deployment?.spec?.template.spec?.containers ?? [];
}
