import { type PodFields, VOLUME_CHOICES } from '../../pod/index.ts';
import { bind, type BuildCel, celNames } from '../cel.ts';
import { type Check, type Finding, forbiddenValue, formatNames } from '../check.ts';

const cel: BuildCel = ({ volumes }) => ({
  passes: `${volumes}.all(v, !has(v.hostPath))`,
  text: bind(
    { hostPaths: `${volumes}.filter(v, has(v.hostPath)).map(v, v.name)` },
    `"hostPath volumes (" + ${celNames('hostPaths', 'volume')} + ")"`,
  ),
});

/**
 * Pods must not mount files or directories from the host.
 *
 * Fields   spec.volumes[*].hostPath
 * Allowed  not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPathVolumes: Check = {
  id: 'hostPathVolumes',
  level: 'baseline',
  why: 'A hostPath volume exposes files on the node, such as kubelet credentials and container runtime sockets. A process with access to these can take over the node.',
  fix: 'Replace hostPath in spec.volumes with persistentVolumeClaim, emptyDir or another volume source.',
  violation: ['spec.volumes', [{ name: 'data', hostPath: { path: '/var/lib/data' } }]],
  correction: ['spec.volumes', [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]],
  cis: '5.2.11',
  repairs: [{ choices: VOLUME_CHOICES }],
  versions: [{ since: 'v1.0', check: noHostPaths, cel }],
};

function noHostPaths(pod: PodFields): Finding | undefined {
  const volumes = pod.volumes.filter(({ hostPath }) => hostPath !== undefined);
  if (volumes.length === 0) return undefined;
  return {
    reason: 'hostPath volumes',
    detail: formatNames('volume', volumes),
    fields: () => volumes.map(({ index, hostPath }) => forbiddenValue(pod, `volumes[${index}].hostPath`, hostPath)),
  };
}
