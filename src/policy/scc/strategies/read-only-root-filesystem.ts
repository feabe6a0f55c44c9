import { invalidValue } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy } from './types.ts';

/** Every container mounts its root file system for reading only, if the SCC demands it; that is also the default then. */
export const readOnlyRootFilesystem: ContainerStrategy = {
  generate({ scc, values }) {
    if (scc.readOnlyRootFilesystem) values.readOnlyRootFilesystem ??= true;
  },
  validate({ scc, container, values: { readOnlyRootFilesystem: value } }, errors) {
    if (!scc.readOnlyRootFilesystem || value === true) return;
    const detail = `ReadOnlyRootFilesystem ${value === undefined ? 'may not be nil and ' : ''}must be set to true`;
    errors.push(invalidValue(pathTo(container.path, 'readOnlyRootFilesystem'), value, detail));
  },
};
