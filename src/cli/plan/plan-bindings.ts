import { canUseScc } from '../../cluster/select.ts';
import type { Store } from '../../cluster/store.ts';
import { podSourcesOf } from '../../cluster/workloads.ts';
import { compareBytes } from '../../kube/order.ts';
import type { CanUse } from '../../policy/scc/types.ts';
import { planWorkload, type PlanInput } from './plan-workload.ts';
import { isGrantable } from './summary.ts';
import type { PlannedGrant, PlannedNamespace, WorkloadName } from './types.ts';

/**
 * What to grant for the pods that are refused, and what becomes of others that share their service account; sorted by
 * namespace, service account and SCC.
 */
export function grantsFor(namespaces: readonly PlannedNamespace[], input: PlanInput): readonly PlannedGrant[] {
  return namespaces.flatMap((namespace) => {
    const grants = neededIn(namespace);
    return grants.length === 0 ? [] : withMoves(grants, namespace, input);
  });
}

interface Needed extends Omit<PlannedGrant, 'moves'> {
  readonly workloads: WorkloadName[];
}

function neededIn({ name: namespace, workloads }: PlannedNamespace): readonly Needed[] {
  const needed = new Map<string, Needed>();
  for (const workload of workloads) {
    const { kind, name, serviceAccount, result } = workload;
    if (!isGrantable(workload) || result.outcome !== 'refused') continue;
    const { grantable: scc } = result;
    if (serviceAccount === undefined || scc === undefined) continue;
    const key = `${serviceAccount}/${scc}`;
    const grant = needed.get(key) ?? { namespace, serviceAccount, scc, workloads: [] };
    grant.workloads.push({ kind, name });
    needed.set(key, grant);
  }
  return [...needed.values()].sort(
    (a, b) => compareBytes(a.serviceAccount, b.serviceAccount) || compareBytes(a.scc, b.scc),
  );
}

/** Only what was admitted under another SCC, and shares the account, can move. */
function withMoves(
  grants: readonly Needed[],
  { name, workloads }: PlannedNamespace,
  input: PlanInput,
): readonly PlannedGrant[] {
  const namespace = input.store.get('Namespace', name);
  const accounts = new Set(grants.map(({ serviceAccount }) => serviceAccount));
  const canUse = withGrants(input.store, grants);
  const sources = podSourcesOf(input.store, name);
  const moves = workloads.flatMap(({ kind, name: workload, serviceAccount = '', result }, index) => {
    if (namespace === undefined || result.outcome !== 'admitted' || !accounts.has(serviceAccount)) return [];
    const source = sources[index];
    const after = source && planWorkload(source, namespace, { ...input, canUse }).result;
    if (after?.outcome !== 'admitted' || after.scc === result.scc) return [];
    return [{ serviceAccount, to: after.scc, move: { kind, name: workload, from: result.scc } }];
  });
  return grants.map((grant) => ({
    ...grant,
    moves: moves
      .filter(({ serviceAccount, to }) => serviceAccount === grant.serviceAccount && to === grant.scc)
      .map(({ move }) => move),
  }));
}

/** Who may use which SCC once these are granted. */
function withGrants(store: Store, grants: readonly Needed[]): CanUse {
  const before = canUseScc(store);
  const granted = new Set(
    grants.map(({ namespace, serviceAccount, scc }) =>
      keyOf(`system:serviceaccount:${namespace}:${serviceAccount}`, scc, namespace),
    ),
  );
  return (subject, scc, namespace) =>
    granted.has(keyOf(subject.username, scc, namespace)) || before(subject, scc, namespace);
}

function keyOf(username: string, scc: string, namespace: string): string {
  return JSON.stringify([username, scc, namespace]);
}
