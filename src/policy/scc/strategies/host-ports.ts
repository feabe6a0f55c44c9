import { invalidValue } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy } from './types.ts';

/**
 * No container takes a port of the node, unless the SCC allows it. As in the original, each container is charged with the
 * ports of all.
 */
export const allowHostPorts: ContainerStrategy = {
  validate({ scc, pod: { hostPorts }, container, maxErrors }, errors) {
    if (scc.allowHostPorts) return;
    for (const { place, port } of hostPorts) {
      if (errors.length >= maxErrors) return;
      const path = pathTo(pathTo(container.path, place), 'hostPort');
      errors.push(invalidValue(path, port, 'Host ports are not allowed to be used'));
    }
  },
};
