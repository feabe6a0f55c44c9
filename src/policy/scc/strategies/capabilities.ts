import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { sortedSet } from '../../../kube/order.ts';
import type { Capabilities } from '../decode/container.ts';
import type { SccFields } from '../decode/scc.ts';
import type { ContainerStrategy } from './types.ts';

const NONE: Capabilities = { add: [], drop: [] };

/**
 * Each container adds no capability that is not allowed and drops all that must be dropped. Names are compared as they
 * stand: neither case nor `CAP_` nor `ALL` is understood.
 */
export const capabilities: ContainerStrategy = {
  generate({ scc, values }) {
    values.capabilities = complete(scc, values.capabilities);
  },
  validate({ scc, container, values: { capabilities: found } }, errors) {
    const path = `${container.path}.capabilities`;
    if (found !== undefined) validateCapabilities(scc, found, { path, errors });
    else if (scc.defaultAddCapabilities.length > 0 || scc.requiredDropCapabilities.length > 0) {
      errors.push(invalidValue(path, null, 'required capabilities are not set on the securityContext'));
    }
  },
};

/** Returns the container's own if they lack nothing; else both lists without repetitions and sorted. */
function complete(scc: SccFields, own: Capabilities | undefined): Capabilities | undefined {
  const { add, drop } = own ?? NONE;
  const lacksAdd = scc.defaultAddCapabilities.some((name) => !add.includes(name) && !drop.includes(name));
  const lacksDrop = scc.requiredDropCapabilities.some((name) => !drop.includes(name));
  if (!lacksAdd && !lacksDrop) return own;
  const wanted = scc.defaultAddCapabilities.filter((name) => !drop.includes(name));
  return { add: union(add, wanted), drop: union(drop, scc.requiredDropCapabilities) };
}

function union(a: readonly string[], b: readonly string[]): readonly string[] {
  return a.length + b.length < 2 ? [...a, ...b] : sortedSet([...a, ...b]);
}

function validateCapabilities(
  scc: SccFields,
  { add, drop }: Capabilities,
  { path, errors }: { readonly path: string; readonly errors: FieldError[] },
): void {
  if (scc.allowedCapabilities.includes('*')) return;
  for (const name of add) {
    if (scc.defaultAddCapabilities.includes(name) || scc.allowedCapabilities.includes(name)) continue;
    errors.push(invalidValue(`${path}.add`, name, 'capability may not be added'));
  }
  for (const name of scc.requiredDropCapabilities) {
    if (drop.includes(name)) continue;
    const value = drop.length === 0 ? null : drop;
    errors.push(invalidValue(`${path}.drop`, value, `${name} is required to be dropped but was not found`));
  }
}
