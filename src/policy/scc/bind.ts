import type { Found } from '../../kube/types.ts';
import type { RunAsUserFields, SccFields, SeLinuxContextFields } from './decode/scc.ts';
import type { NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
import type { Bound } from './strategies/types.ts';

/**
 * Fills in what an SCC leaves to the namespace; an error says why the SCC cannot work there.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccmatching/matcher.go
 */
export function bindScc(scc: PreparedScc, namespace: NamespaceRanges): Found<Bound> {
  const error = bindingError(scc, namespace);
  if (error !== undefined) return { error };
  const { fields, needs } = scc;
  return {
    value: {
      runAsUser: needs.uidRange ? bindRunAsUser(fields, namespace) : fields.runAsUser,
      seLinuxContext: needs.seLinuxLevel ? bindSeLinuxContext(fields, namespace) : fields.seLinuxContext,
      fsGroup: needs.fsGroup ? bindFsGroup(fields, namespace) : fields.fsGroup,
      supplementalGroups: needs.supplementalGroups
        ? { type: fields.supplementalGroups.type, ranges: valueOf(namespace.groupRanges, []) }
        : fields.supplementalGroups,
    },
  };
}

/** Why an SCC cannot work in the namespace; `undefined` if it can. */
export function bindingError({ name, needs }: PreparedScc, namespace: NamespaceRanges): string | undefined {
  const missing =
    (needs.uidRange ? lackOf('uid', namespace.uidRange) : undefined) ??
    (needs.seLinuxLevel ? lackOf('mcs', namespace.seLinuxLevel) : undefined) ??
    (needs.fsGroup || needs.supplementalGroups ? lackOf('group', namespace.groupRanges) : undefined);
  if (missing) {
    const where = `for namespace ${namespace.name} while trying to configure SCC ${name}`;
    return `unable to find pre-allocated ${missing.what} annotation ${where}: ${missing.why}`;
  }
  if (needs.defect === undefined) return undefined;
  return `error creating provider for SCC ${name} in namespace ${namespace.name}: ${needs.defect}`;
}

function bindRunAsUser({ runAsUser }: SccFields, namespace: NamespaceRanges): RunAsUserFields {
  const range = valueOf(namespace.uidRange, undefined);
  return { type: runAsUser.type, uid: runAsUser.uid, uidRangeMin: range?.min, uidRangeMax: range?.max };
}

function bindSeLinuxContext({ seLinuxContext }: SccFields, namespace: NamespaceRanges): SeLinuxContextFields {
  const { role = '', type = '', user = '' } = seLinuxContext.seLinuxOptions ?? {};
  const level = valueOf(namespace.seLinuxLevel, '');
  return { type: seLinuxContext.type, seLinuxOptions: { level, role, type, user } };
}

/** Only the first id of the first block. */
function bindFsGroup({ fsGroup }: SccFields, namespace: NamespaceRanges): Bound['fsGroup'] {
  const [first] = valueOf(namespace.groupRanges, []);
  return { type: fsGroup.type, ranges: first ? [{ min: first.min, max: first.min }] : [] };
}

interface Lack {
  readonly what: string;
  readonly why: string;
}

function lackOf(what: string, found: Found<unknown>): Lack | undefined {
  return 'error' in found ? { what, why: found.error } : undefined;
}

function valueOf<T, Otherwise>(found: Found<T>, otherwise: Otherwise): T | Otherwise {
  return 'error' in found ? otherwise : found.value;
}
