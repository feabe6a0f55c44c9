import { type FieldError, invalidValue } from '../../../kube/field-error.ts';
import { sortedSet } from '../../../kube/text.ts';
import { type Capabilities, LOST } from '../../pod/index.ts';
import type { SccFields } from '../scc-fields.ts';
import { type ContainerStrategy, createLookup } from './strategy.ts';

export const allowPrivilegedContainer: ContainerStrategy = {
  repairs: [{ field: /\.privileged$/, set: false, note: LOST.privileged, explicit: true }],
  validate({ scc, container: { privileged, location } }, errors) {
    if (!privileged || scc.allowPrivilegedContainer) return;
    errors.push(invalidValue(`.${location}.privileged`, true, 'Privileged containers are not allowed'));
  },
};

const NO_CAPABILITIES: Capabilities = { add: [], drop: [] };

/** Compares capability names literally. Case matters, and the `CAP_` prefix and `ALL` have no special meaning. */
export const capabilities: ContainerStrategy = {
  repairs: [{ field: /\.capabilities\.add$/, remove: 'values', note: LOST.capabilities, explicit: true }],
  generate({ scc, values }) {
    values.capabilities = completeCapabilities(scc, values.capabilities);
  },
  validate({ scc, container, values: { capabilities: actual }, maxErrors }, errors) {
    const path = `.${container.location}.capabilities`;
    if (actual !== undefined) validateCapabilities(scc, actual, { path, errors, maxErrors });
    else if (scc.defaultAddCapabilities.length + scc.requiredDropCapabilities.length > 0) {
      errors.push(invalidValue(path, null, 'required capabilities are not set on the securityContext'));
    }
  },
};

/**
 * Returns the capabilities with the defaults and the required drops. Returns the same object if nothing is missing.
 * Otherwise, sorts and deduplicates both lists.
 */
function completeCapabilities(scc: SccFields, own: Capabilities | undefined): Capabilities | undefined {
  const { defaultAddCapabilities: defaults, requiredDropCapabilities: required } = scc;
  if (defaults.length === 0 && required.length === 0) return own;
  const { add, drop } = own ?? NO_CAPABILITIES;
  const isDropped = createLookup(drop, defaults.length + required.length);
  const isAdded = createLookup(add, defaults.length);
  const added = defaults.filter((name) => !isDropped(name));
  if (own && added.every(isAdded) && required.every(isDropped)) return own;
  return { add: sortedSet([...add, ...added]), drop: sortedSet([...drop, ...required]) };
}

/** Maximum number of capabilities in an error. Each missing capability has its own error that contains the list. */
const MAX_REPEATED = 100;

interface CapabilityErrors {
  readonly path: string;
  readonly errors: FieldError[];
  readonly maxErrors: number;
}

function validateCapabilities(
  { defaultAddCapabilities: defaults, requiredDropCapabilities: required, allowedCapabilities: allowed }: SccFields,
  { add, drop }: Capabilities,
  { path, errors, maxErrors }: CapabilityErrors,
): void {
  if (allowed.includes('*')) return;
  const isAllowed = createLookup(allowed, add.length);
  const isDefault = createLookup(defaults, add.length);
  for (const name of add) {
    if (errors.length >= maxErrors) return;
    if (isAllowed(name) || isDefault(name)) continue;
    errors.push(invalidValue(`${path}.add`, name, 'capability may not be added'));
  }
  const isDropped = createLookup(drop, required.length);
  // Defaulting adds the required drops, so there are no errors for a defaulted list.
  for (const name of required) {
    if (isDropped(name)) continue;
    const value = drop.length === 0 ? null : drop.slice(0, MAX_REPEATED);
    errors.push(invalidValue(`${path}.drop`, value, `${name} is required to be dropped but was not found`));
  }
}

export const readOnlyRootFilesystem: ContainerStrategy = {
  repairs: [{ field: /\.readOnlyRootFilesystem$/, set: true }],
  generate({ scc, values }) {
    if (scc.readOnlyRootFilesystem) values.readOnlyRootFilesystem ??= true;
  },
  validate({ scc, container, values: { readOnlyRootFilesystem: value } }, errors) {
    if (!scc.readOnlyRootFilesystem || value === true) return;
    const detail = `ReadOnlyRootFilesystem ${value === undefined ? 'may not be nil and ' : ''}must be set to true`;
    errors.push(invalidValue(`.${container.location}.readOnlyRootFilesystem`, value, detail));
  },
};

/** The SCC default does not apply to containers that are privileged or add `CAP_SYS_ADMIN`. */
export const allowPrivilegeEscalation: ContainerStrategy = {
  repairs: [{ field: /\.allowPrivilegeEscalation$/, set: false }],
  generate({ scc, container, values }) {
    if (values.allowPrivilegeEscalation !== undefined) return;
    const isAdministrator = values.capabilities?.add.includes('CAP_SYS_ADMIN') ?? false;
    if (!container.privileged && !isAdministrator) {
      values.allowPrivilegeEscalation = scc.defaultAllowPrivilegeEscalation;
    }
    if (scc.allowPrivilegeEscalation === false) values.allowPrivilegeEscalation ??= false;
  },
  validate({ scc, container: { location }, values: { allowPrivilegeEscalation: value } }, errors) {
    if (scc.allowPrivilegeEscalation !== false || value === false) return;
    const detail = 'Allowing privilege escalation for containers is not allowed';
    errors.push(invalidValue(`.${location}.allowPrivilegeEscalation`, value, detail));
  },
};
