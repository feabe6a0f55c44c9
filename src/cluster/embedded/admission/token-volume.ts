import { objectsAt, textAt } from '../objects/read.ts';

const PREFIX = 'kube-api-access-';
const MOUNT_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The token, the cluster's CA and the name of the namespace, as the kubelet would write them. */
function tokenVolume(name: string): Record<string, unknown> {
  const sources = [
    // Seven seconds beyond the hour: kubelets tell by it the tokens that nobody asked for.
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] },
    },
  ];
  return { name, projected: { sources, defaultMode: 0o644 } };
}

/** Mounts the service account's token into every container that has nothing at its place yet. */
export function mountToken(spec: Record<string, unknown>, suffix: () => string): void {
  const existing = objectsAt(spec, 'volumes').find((volume) => textAt(volume, 'name').startsWith(PREFIX));
  const name = existing ? textAt(existing, 'name') : `${PREFIX}${suffix()}`;
  const containers = [...objectsAt(spec, 'initContainers'), ...objectsAt(spec, 'containers')];
  const without = containers.filter(
    (container) => !objectsAt(container, 'volumeMounts').some((mount) => mount['mountPath'] === MOUNT_PATH),
  );
  for (const container of without as readonly Record<string, unknown>[]) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container['volumeMounts'] = [...objectsAt(container, 'volumeMounts'), mount];
  }
  if (!existing && without.length > 0) spec['volumes'] = [...objectsAt(spec, 'volumes'), tokenVolume(name)];
}
