import { celList } from '../../../kube/cel.ts';
import { plural } from '../../../kube/text.ts';
import { type PodFields, RESTRICTED_SOURCES, VOLUME_CHOICES, VOLUME_SOURCES } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, celPlural, celQuotedList, celSortedSet } from '../cel.ts';
import { type Check, distinct, type Finding, forbiddenValue, formatNames, quotedList } from '../check.ts';

const VOLUME_PASSES = `v.exists(field, field in ${celList(RESTRICTED_SOURCES)})`;
const DENIED_SOURCES = VOLUME_SOURCES.filter((source) => !RESTRICTED_SOURCES.has(source));
const cel: BuildCel = ({ volumes }) => ({
  passes: `${volumes}.all(v, ${VOLUME_PASSES})`,
  text: bind(
    {
      restrictedVolumesNames: `${volumes}.filter(v, !${VOLUME_PASSES}).map(v, v.name)`,
      restrictedVolumesTypes: celSortedSet(
        `[${volumes}.filter(v, !${VOLUME_PASSES}).map(v, (${celList(DENIED_SOURCES)}.filter(source, source in v) + ["unknown"])[0])]`,
      ),
    },
    `"restricted volume types (" + ${celNames('restrictedVolumesNames', 'volume')} + ${celPlural('restrictedVolumesNames', ' uses ', ' use ')} + ${celPlural('restrictedVolumesTypes', 'restricted volume type ', 'restricted volume types ')} + ${celQuotedList('restrictedVolumesTypes')} + ")"`,
  ),
});

/**
 * Only certain volume sources may be used. A volume that has an allowed source passes even if it also has other
 * sources.
 *
 * Fields   spec.volumes[*]
 * Allowed  configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected, secret
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const restrictedVolumes: Check = {
  id: 'restrictedVolumes',
  level: 'restricted',
  why: 'Volume types that the level does not allow give a pod direct access to storage outside the cluster, without the access checks of a PersistentVolume.',
  fix: 'Use configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret in spec.volumes.',
  violation: ['spec.volumes', [{ name: 'data', nfs: { server: 'nfs.example', path: '/data' } }]],
  correction: ['spec.volumes', [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]],
  repairs: [{ choices: VOLUME_CHOICES }],
  versions: [{ since: 'v1.0', check: onlyAllowedSources, cel, overrides: ['hostPathVolumes'] }],
};

function onlyAllowedSources(pod: PodFields): Finding | undefined {
  const volumes = pod.volumes.filter(({ sources }) => !sources.some((source) => RESTRICTED_SOURCES.has(source)));
  if (volumes.length === 0) return undefined;
  const types = distinct(volumes.map(({ sources }) => sources[0] ?? 'unknown'));
  const verb = plural(volumes.length, 'uses', 'use');
  const noun = plural(types.length, 'type');
  return {
    reason: 'restricted volume types',
    detail: `${formatNames('volume', volumes)} ${verb} restricted volume ${noun} ${quotedList(types)}`,
    fields: () =>
      volumes.map(({ index, sources: [source] }) =>
        forbiddenValue(pod, source === undefined ? `volumes[${index}]` : `volumes[${index}].${source}`),
      ),
  };
}
