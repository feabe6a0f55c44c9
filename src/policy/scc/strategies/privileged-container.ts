import { invalidValue } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy } from './types.ts';

/** No container is privileged, unless the SCC allows it. */
export const allowPrivilegedContainer: ContainerStrategy = {
  validate({ scc, container: { privileged, path } }, errors) {
    if (!privileged || scc.allowPrivilegedContainer) return;
    errors.push(invalidValue(pathTo(path, 'privileged'), true, 'Privileged containers are not allowed'));
  },
};
