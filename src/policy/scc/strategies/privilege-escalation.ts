import { invalidValue } from '../../../kube/field-error.ts';
import type { ContainerStrategy } from './types.ts';

/**
 * No process of a container gains more privileges than its parent, if the SCC forbids it. A container that says nothing
 * gets the SCC's default, unless that would contradict what it has; and false, if escalation is forbidden.
 */
export const allowPrivilegeEscalation: ContainerStrategy = (scc) => {
  const isForbidden = scc.allowPrivilegeEscalation === false;
  const byDefault = scc.defaultAllowPrivilegeEscalation;
  if (!isForbidden && byDefault === undefined) return undefined;
  return {
    generate({ container, values }) {
      if (values.allowPrivilegeEscalation !== undefined) return;
      const isAdministrator = values.capabilities?.add.includes('CAP_SYS_ADMIN') ?? false;
      if (!container.privileged && !isAdministrator) values.allowPrivilegeEscalation = byDefault;
      if (isForbidden) values.allowPrivilegeEscalation ??= false;
    },
    validate({ container: { path }, values: { allowPrivilegeEscalation: value } }, errors) {
      if (!isForbidden || value === false) return;
      const detail = 'Allowing privilege escalation for containers is not allowed';
      errors.push(invalidValue(`${path}.allowPrivilegeEscalation`, value, detail));
    },
  };
};
