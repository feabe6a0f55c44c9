import { invalidValue } from '../../../kube/field-error.ts';
import type { ContainerStrategy } from './types.ts';

/** Every container mounts its root file system for reading only, if the SCC demands it; that is also the default then. */
export const readOnlyRootFilesystem: ContainerStrategy = (scc) => {
  if (!scc.readOnlyRootFilesystem) return undefined;
  return {
    generate({ values }) {
      values.readOnlyRootFilesystem ??= true;
    },
    validate({ container, values: { readOnlyRootFilesystem: value } }, errors) {
      const path = `${container.path}.readOnlyRootFilesystem`;
      if (value === undefined) {
        errors.push(invalidValue(path, null, 'ReadOnlyRootFilesystem may not be nil and must be set to true'));
      } else if (!value) errors.push(invalidValue(path, false, 'ReadOnlyRootFilesystem must be set to true'));
    },
  };
};
