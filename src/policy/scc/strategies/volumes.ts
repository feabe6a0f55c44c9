import { invalidValue } from '../../../kube/field-error.ts';
import { isServiceAccountVolume } from '../service-account-volume.ts';
import type { PodStrategy } from './types.ts';

/** The pod has volumes of those types only that the SCC lists; what the API server injects passes with `secret`. */
export const volumes: PodStrategy = (scc) => {
  const types = new Set(scc.volumes);
  if (types.has('*')) return undefined;
  return {
    validate({ pod }, errors) {
      for (const { index, type, json } of pod.volumes) {
        if (types.has(type)) continue;
        if (type === 'projected' && types.has('secret') && isServiceAccountVolume(json)) continue;
        const detail =
          type === ''
            ? `unknown volume type for volume: ${JSON.stringify(json)}`
            : `${type} volumes are not allowed to be used`;
        errors.push(invalidValue(`.spec.volumes[${index}]`, type, detail));
      }
    },
  };
};

/** Flex volumes are driven by a listed driver, if the SCC lists any and allows flex volumes at all. */
export const allowedFlexVolumes: PodStrategy = (scc) => {
  const drivers = new Set(scc.allowedFlexVolumes);
  const isAllowed = scc.volumes.includes('flexVolume') || scc.volumes.includes('*');
  if (drivers.size === 0 || !isAllowed) return undefined;
  return {
    validate({ pod }, errors) {
      for (const { index, driver } of pod.volumes) {
        if (driver === undefined || drivers.has(driver)) continue;
        const detail = 'Flexvolume driver is not allowed to be used';
        errors.push(invalidValue(`.spec.volumes[${index}].flexVolume.driver`, driver, detail));
      }
    },
  };
};
