import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import { hasName } from '../names.ts';
import { complete, type CapabilitiesFields } from '../decode/capabilities.ts';
import type { Capabilities } from '../decode/container.ts';
import type { ContainerStrategy } from './types.ts';

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
