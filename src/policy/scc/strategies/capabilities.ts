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
export const capabilities: ContainerStrategy = (scc) => {
  const ofNone = complete(scc, undefined);
  const limits = limitsOf(scc);
  return {
    generate({ container, values }) {
      values.capabilities = container.capabilities === undefined ? ofNone : complete(scc, container.capabilities);
    },
    validate({ container: { path }, values }, errors) {
      // What is generated for a container without capabilities is just what the SCC demands.
      if (values.capabilities !== undefined && values.capabilities === ofNone) return;
      errors.push(...validateCapabilities(limits, values.capabilities, `${path}.capabilities`));
    },
  };
};

interface Limits {
  readonly isAnyAllowed: boolean;
  /** Allowed beside what is added by default. */
  readonly mayAdd: ReadonlySet<string>;
  readonly mustDrop: readonly string[];
  readonly isAnyDemanded: boolean;
}

function limitsOf(scc: SccFields): Limits {
  return {
    isAnyAllowed: scc.allowedCapabilities.includes('*'),
    mayAdd: new Set([...scc.defaultAddCapabilities, ...scc.allowedCapabilities]),
    mustDrop: scc.requiredDropCapabilities,
    isAnyDemanded: scc.defaultAddCapabilities.length > 0 || scc.requiredDropCapabilities.length > 0,
  };
}

/** Returns the container's own if they lack nothing; else both lists without repetitions and sorted. */
function complete(
  { defaultAddCapabilities, requiredDropCapabilities }: SccFields,
  own: Capabilities | undefined,
): Capabilities | undefined {
  const { add, drop } = own ?? NONE;
  const missingAdds = defaultAddCapabilities.filter((name) => !add.includes(name) && !drop.includes(name));
  const missingDrops = requiredDropCapabilities.filter((name) => !drop.includes(name));
  if (missingAdds.length === 0 && missingDrops.length === 0) return own;
  return { add: sortedSet([...add, ...missingAdds]), drop: sortedSet([...drop, ...missingDrops]) };
}

function validateCapabilities(limits: Limits, found: Capabilities | undefined, path: string): readonly FieldError[] {
  if (found === undefined) {
    if (!limits.isAnyDemanded) return [];
    return [invalidValue(path, null, 'required capabilities are not set on the securityContext')];
  }
  if (limits.isAnyAllowed) return [];
  const drop = found.drop.length === 0 ? null : found.drop;
  return [
    ...found.add
      .filter((name) => !limits.mayAdd.has(name))
      .map((name) => invalidValue(`${path}.add`, name, 'capability may not be added')),
    ...limits.mustDrop
      .filter((name) => !found.drop.includes(name))
      .map((name) => invalidValue(`${path}.drop`, drop, `${name} is required to be dropped but was not found`)),
  ];
}
