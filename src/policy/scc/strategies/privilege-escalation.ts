import { invalidValue } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { ContainerStrategy } from './types.ts';

/**
 * No process of a container gains more privileges than its parent, if the SCC forbids it. A container that says nothing
 * gets the SCC's default, unless that would contradict what it has; and false, if escalation is forbidden.
 */
export const allowPrivilegeEscalation: ContainerStrategy = {
  generate({ scc, container, values }) {
    if (values.allowPrivilegeEscalation !== undefined) return;
    const isAdministrator = values.capabilities?.add.includes('CAP_SYS_ADMIN') ?? false;
    if (!container.privileged && !isAdministrator)
      values.allowPrivilegeEscalation = scc.defaultAllowPrivilegeEscalation;
    if (scc.allowPrivilegeEscalation === false) values.allowPrivilegeEscalation ??= false;
  },
  validate({ scc, container: { path }, values: { allowPrivilegeEscalation: value } }, errors) {
    if (scc.allowPrivilegeEscalation !== false || value === false) return;
    const detail = 'Allowing privilege escalation for containers is not allowed';
    errors.push(invalidValue(pathTo(path, 'allowPrivilegeEscalation'), value, detail));
  },
};
