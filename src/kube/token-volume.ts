import { partsAt, type Part } from './default-pod.ts';
import type { JsonObject } from './types.ts';

const PREFIX = 'kube-api-access-';
const MOUNT_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';
/** 0644, as JSON has no octal numbers. */
const FILE_MODE = 420;

/** The token, the cluster's CA and the name of the namespace, as the kubelet would write them. */
function tokenVolume(name: string): Part {
  const sources = [
    // Seven seconds beyond the hour: kubelets tell by it the tokens that nobody asked for.
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] },
    },
  ];
  return { name, projected: { sources, defaultMode: FILE_MODE } };
}

/** True if a pod gets the token of its service account: the pod's wish counts first, then that of the account. */
export function mountsToken(spec: JsonObject, account: JsonObject | undefined): boolean {
  const wish = spec['automountServiceAccountToken'] ?? account?.['automountServiceAccountToken'];
  return wish == null || wish === true;
}

/**
 * Mounts the service account's token, in place, into every container of a pod spec that has nothing at its place yet.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function mountToken(spec: Part, suffix: () => string): void {
  const volumes = partsAt(spec, 'volumes');
  const existing = volumes.map(nameOf).find((name) => name.startsWith(PREFIX));
  const containers = [...partsAt(spec, 'initContainers'), ...partsAt(spec, 'containers')];
  const without = containers.filter(
    (container) => !partsAt(container, 'volumeMounts').some((mount) => mount['mountPath'] === MOUNT_PATH),
  );
  if (without.length === 0) return;
  const name = existing ?? `${PREFIX}${suffix()}`;
  for (const container of without) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container['volumeMounts'] = [...partsAt(container, 'volumeMounts'), mount];
  }
  if (existing === undefined) spec['volumes'] = [...volumes, tokenVolume(name)];
}

function nameOf(part: Part): string {
  const { name } = part;
  return typeof name === 'string' ? name : '';
}
