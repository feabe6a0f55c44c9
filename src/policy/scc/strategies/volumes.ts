import { invalidValue } from '../../../kube/field-error.ts';
import { unknownTextOf, type VolumeFields } from '../decode/volume.ts';
import { hasName } from '../names.ts';
import { isServiceAccountVolume } from '../service-account-volume.ts';
import type { PodStrategy } from './types.ts';

/** The pod has volumes of those types only that the SCC lists; what the API server injects passes with `secret`. */
export const volumes: PodStrategy = {
  validate({ scc: { volumes: types }, pod, maxErrors }, errors) {
    if (pod.volumes.length === 0 || types.includes('*')) return;
    const isSecretAllowed = types.includes('secret');
    for (const volume of pod.volumes) {
      if (errors.length >= maxErrors) return;
      if (hasName(types, volume.type, pod.volumes.length) || (isSecretAllowed && isInjected(volume))) continue;
      const detail =
        volume.type === ''
          ? `unknown volume type for volume: ${unknownTextOf(volume)}`
          : `${volume.type} volumes are not allowed to be used`;
      errors.push(invalidValue(`.spec.volumes[${volume.index}]`, volume.type, detail));
    }
  },
};

/** Flex volumes are driven by a listed driver, if the SCC lists any and allows flex volumes at all. */
export const allowedFlexVolumes: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    if (scc.allowedFlexVolumes.length === 0) return;
    if (!scc.volumes.includes('flexVolume') && !scc.volumes.includes('*')) return;
    for (const { index, driver } of pod.volumes) {
      if (errors.length >= maxErrors) return;
      if (driver === undefined || hasName(scc.allowedFlexVolumes, driver, pod.volumes.length)) continue;
      const detail = 'Flexvolume driver is not allowed to be used';
      errors.push(invalidValue(`.spec.volumes[${index}].flexVolume.driver`, driver, detail));
    }
  },
};

/** Every SCC asks for it; a volume may have many sources. */
function isInjected(volume: VolumeFields): boolean {
  return (volume.isInjected ??= volume.type === 'projected' && isServiceAccountVolume(volume.json));
}
