import { invalidValue } from '../../../kube/field-error.ts';
import { createLookup } from '../pod.ts';
import type { PodStrategy } from './index.ts';

/** The volume that the API server injects for the service account is allowed with `secret`. */
export const volumes: PodStrategy = {
  validate({ scc: { volumes: types }, pod, maxErrors }, errors) {
    if (pod.sccVolumes.length === 0 || types.includes('*')) return;
    const isAllowed = createLookup(types, pod.sccVolumes.length);
    const isSecretAllowed = types.includes('secret');
    for (const [index, { type, isServiceAccountVolume, unknownText }] of pod.sccVolumes.entries()) {
      if (errors.length >= maxErrors) return;
      if (isAllowed(type) || (isSecretAllowed && isServiceAccountVolume)) continue;
      const detail =
        type === '' ? `unknown volume type for volume: ${unknownText}` : `${type} volumes are not allowed to be used`;
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
