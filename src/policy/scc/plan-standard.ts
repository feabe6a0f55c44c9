import { semanticEqual } from '../../kube/equality.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding, KubeObject } from '../../kube/types.ts';
import { defaultScc } from './default-scc.ts';
import type { StandardScc } from './standard.ts';

/** How an object is to be written: made, set right, or made anew, since it cannot be changed into what it should be. */
export interface Write<T> {
  readonly verb: 'create' | 'update' | 'replace';
  readonly object: T;
  /** What differed; empty for a new object. */
  readonly fields: readonly string[];
}

/** Clusters with an SCC of this name have had their own reasons for it; what it should be was never settled. */
const KEPT_AS_FOUND = 'nested-container';

/**
 * Says what is to be written so that a standard SCC is as it should be; `undefined` if nothing.
 * @see https://github.com/openshift/cluster-version-operator/blob/main/lib/resourcemerge/security.go
 */
export function planStandardScc(
  { scc, upkeep }: StandardScc,
  existing: SecurityContextConstraints | undefined,
): Write<SecurityContextConstraints> | undefined {
  if (!existing) return { verb: 'create', object: scc, fields: [] };
  if (upkeep === 'create' || scc.metadata?.name === KEPT_AS_FOUND) return undefined;
  return planUpdate(scc, defaultScc(existing));
}

/** Says what is to be written so that a standard ClusterRole is as it should be; `undefined` if nothing. */
export function planClusterRole(role: ClusterRole, existing: ClusterRole | undefined): Write<ClusterRole> | undefined {
  return existing ? planUpdate(role, existing) : { verb: 'create', object: role, fields: [] };
}

/** Says what is to be written so that a standard ClusterRoleBinding is as it should be; `undefined` if nothing. */
export function planClusterRoleBinding(
  binding: ClusterRoleBinding,
  existing: ClusterRoleBinding | undefined,
): Write<ClusterRoleBinding> | undefined {
  if (!existing) return { verb: 'create', object: binding, fields: [] };
  const update = planUpdate(binding, existing);
  // The API server lets nobody change the role of a binding.
  return update?.fields.includes('roleRef') ? { ...update, verb: 'replace', object: binding } : update;
}

/** Sets right all fields but the metadata: labels and annotations stay as somebody has set them. */
function planUpdate<T extends KubeObject>(wanted: T, existing: T): Write<T> | undefined {
  const fields = differences(wanted, existing);
  const { metadata = {} } = existing;
  return fields.length === 0 ? undefined : { verb: 'update', object: { ...wanted, metadata }, fields };
}

const NOT_COMPARED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

function differences(wanted: KubeObject, existing: KubeObject): readonly string[] {
  const before = new Map<string, unknown>(Object.entries(existing));
  const after = new Map<string, unknown>(Object.entries(wanted));
  const fields = new Set([...before.keys(), ...after.keys()]);
  return [...fields].filter((field) => !NOT_COMPARED.has(field) && !semanticEqual(before.get(field), after.get(field)));
}
