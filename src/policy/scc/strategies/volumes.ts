import { invalidValue } from '../../../kube/field-error.ts';
import { printJson, truncate } from '../../../kube/text.ts';
import { VOLUME_CHOICES } from '../../pod/index.ts';
import { isServiceAccountVolume, sccVolumeType } from '../volume-types.ts';
import { createLookup, type PodStrategy } from './strategy.ts';

/** An SCC that allows `secret` volumes also allows the volume that the API server injects for the service account. */
export const volumes: PodStrategy = {
  repairs: [{ field: /^spec\.volumes\[/, choices: VOLUME_CHOICES }],
  validate({ scc: { volumes: types }, pod, maxErrors }, errors) {
    if (pod.volumes.length === 0 || types.includes('*')) return;
    const isAllowed = createLookup(types, pod.volumes.length);
    const isSecretAllowed = types.includes('secret');
    for (const [index, volume] of pod.volumes.entries()) {
      if (errors.length >= maxErrors) return;
      const type = sccVolumeType(volume);
      if (isAllowed(type) || (isSecretAllowed && isServiceAccountVolume(volume))) continue;
      const detail =
        type === ''
          ? `unknown volume type for volume: ${truncate(printJson(volume.json))}`
          : `${type} volumes are not allowed to be used`;
      errors.push(invalidValue(`.spec.volumes[${index}]`, type, detail));
    }
  },
};

/** The list of drivers applies only if flex volumes are allowed and the list is not empty. */
export const allowedFlexVolumes: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    if (scc.allowedFlexVolumes.length === 0) return;
    if (!scc.volumes.includes('flexVolume') && !scc.volumes.includes('*')) return;
    const isAllowed = createLookup(scc.allowedFlexVolumes, pod.volumes.length);
    for (const [index, { flexDriver }] of pod.volumes.entries()) {
      if (errors.length >= maxErrors) return;
      if (flexDriver === undefined || isAllowed(flexDriver)) continue;
      const detail = 'Flexvolume driver is not allowed to be used';
      errors.push(invalidValue(`.spec.volumes[${index}].flexVolume.driver`, flexDriver, detail));
    }
  },
};
