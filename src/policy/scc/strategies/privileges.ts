import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import { hasName, complete, type CapabilitiesFields } from '../scc.ts';
import type { Capabilities } from '../decode/container.ts';
import type { ContainerStrategy } from './index.ts';

/**
 * Each container adds no capability that is not allowed and drops all that must be dropped. Names are compared as they
 * stand: neither case nor `CAP_` nor `ALL` is understood.
 */
export const capabilities: ContainerStrategy = {
  generate({ scc, values }) {
    const own = values.capabilities;
    values.capabilities = own === undefined ? scc.capabilities.ofNone : complete(scc.capabilities, own);
  },
  validate({ scc, container, values: { capabilities: found }, maxErrors }, errors) {
    const path = pathTo(container.path, 'capabilities');
    if (found !== undefined) validateCapabilities(scc.capabilities, found, { path, errors, maxErrors });
    else if (scc.capabilities.ofNone !== undefined) {
      errors.push(invalidValue(path, null, 'required capabilities are not set on the securityContext'));
    }
  },
};

/** Each error repeats the whole list. */
const MAX_SHOWN = 100;

/** Where errors lie and where they go. */
interface Check {
  readonly path: string;
  readonly errors: FieldError[];
  readonly maxErrors: number;
}

function validateCapabilities(
  { defaultAdd, requiredDrop, allowed }: CapabilitiesFields,
  { add, drop }: Capabilities,
  { path, errors, maxErrors }: Check,
): void {
  if (hasName(allowed, '*', add.length)) return;
  for (const name of add) {
    if (errors.length >= maxErrors) return;
    if (hasName(defaultAdd, name, add.length) || hasName(allowed, name, add.length)) continue;
    errors.push(invalidValue(pathTo(path, 'add'), name, 'capability may not be added'));
  }
  for (const name of requiredDrop) {
    if (errors.length >= maxErrors) return;
    if (hasName(drop, name, requiredDrop.length)) continue;
    const value = drop.length === 0 ? null : drop.slice(0, MAX_SHOWN);
    errors.push(invalidValue(pathTo(path, 'drop'), value, `${name} is required to be dropped but was not found`));
  }
}

/** No container is privileged, unless the SCC allows it. */
export const allowPrivilegedContainer: ContainerStrategy = {
  validate({ scc, container: { privileged, path } }, errors) {
    if (!privileged || scc.allowPrivilegedContainer) return;
    errors.push(invalidValue(pathTo(path, 'privileged'), true, 'Privileged containers are not allowed'));
  },
};

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
