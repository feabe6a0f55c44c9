import { invalidValue } from '../../../kube/field-error.ts';
import type { ContainerStrategy } from './types.ts';

/** No container is privileged, unless the SCC allows it. */
export const allowPrivilegedContainer: ContainerStrategy = (scc) => {
  if (scc.allowPrivilegedContainer) return undefined;
  return {
    validate({ container: { privileged, path } }, errors) {
      if (privileged) errors.push(invalidValue(`${path}.privileged`, true, 'Privileged containers are not allowed'));
    },
  };
};
