import { invalidValue } from '../../../kube/field-error.ts';
import type { VolumeFields } from '../decode/volume.ts';
import { isServiceAccountVolume } from '../service-account-volume.ts';
import { MAX_ERRORS, type PodStrategy } from './types.ts';

/** The pod has volumes of those types only that the SCC lists; what the API server injects passes with `secret`. */
export const volumes: PodStrategy = {
  validate({ scc: { volumes: types }, pod }, errors) {
    if (pod.volumes.length === 0 || types.includes('*')) return;
    for (const volume of pod.volumes) {
      if (errors.length >= MAX_ERRORS) return;
      if (types.includes(volume.type) || (types.includes('secret') && isInjected(volume))) continue;
      const detail =
        volume.type === ''
          ? `unknown volume type for volume: ${volume.unknownText}`
          : `${volume.type} volumes are not allowed to be used`;
      errors.push(invalidValue(`.spec.volumes[${volume.index}]`, volume.type, detail));
    }
  },
};

/** Flex volumes are driven by a listed driver, if the SCC lists any and allows flex volumes at all. */
export const allowedFlexVolumes: PodStrategy = {
  validate({ scc, pod }, errors) {
    if (scc.allowedFlexVolumes.length === 0) return;
    if (!scc.volumes.includes('flexVolume') && !scc.volumes.includes('*')) return;
    for (const { index, driver } of pod.volumes) {
      if (errors.length >= MAX_ERRORS) return;
      if (driver === undefined || scc.allowedFlexVolumes.includes(driver)) continue;
      const detail = 'Flexvolume driver is not allowed to be used';
      errors.push(invalidValue(`.spec.volumes[${index}].flexVolume.driver`, driver, detail));
    }
  },
};

function isInjected({ type, json }: VolumeFields): boolean {
  return type === 'projected' && isServiceAccountVolume(json);
}
