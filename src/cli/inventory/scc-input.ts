/**
 * Builds the input for SCC decisions from an inventory, which consists of the SCCs with their grants and the workloads
 * of a namespace.
 */
import type { Kind } from '../../kube/kinds.ts';
import { objectName } from '../../kube/resources.ts';
import { finishSteps } from '../../kube/steps.ts';
import type { Namespace } from '../../kube/types.ts';
import { RBAC_KINDS } from '../../policy/rbac/index.ts';
import {
  type AdmissionPlan,
  type AdmissionPlanInput,
  planAdmission,
  sccMode,
  type SccSettings,
  type WorkloadContext,
} from '../../policy/scc/index.ts';
import { blockAnnotations, DEFAULT_RANGES } from '../../policy/uid-range/index.ts';
import { sccAccess } from '../../views/access.ts';
import { listPodCreators } from '../../views/workloads.ts';
import type { Inventory } from './inventory.ts';

/** Kinds on which SCC decisions about pods depend. */
export const SCC_INPUT_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  ...RBAC_KINDS,
];

/** Returns the part of the input for SCC decisions that is the same for all pods. */
export function sccInput(store: Inventory['store'], { compatibility, preferUserNamespaces }: SccSettings) {
  const sccs = store.list('SecurityContextConstraints');
  return { sccs, access: sccAccess(store), compatibility, preferUserNamespaces };
}

/** Returns the decision input for workloads in a namespace. Their service accounts must exist. */
export function workloadContext(
  store: Inventory['store'],
  settings: SccSettings,
  namespace: Namespace,
): Omit<WorkloadContext, 'creator'> {
  const name = objectName(namespace);
  return {
    ...sccInput(store, settings),
    namespace,
    findAccount: (account) => store.get('ServiceAccount', account, name),
  };
}

/** Returns the decision input for all workloads of a namespace. */
export function planInput(
  namespace: Namespace,
  { store, customSources }: Pick<Inventory, 'store' | 'customSources'>,
  settings: SccSettings,
): AdmissionPlanInput {
  return {
    ...workloadContext(store, settings, namespace),
    mode: sccMode(namespace, settings).mode,
    sources: finishSteps(listPodCreators(store, objectName(namespace), customSources)),
  };
}

/** Evaluates the workloads of a namespace with the ranges that the namespace has or would get. */
export function planSccs(
  namespace: Namespace,
  objects: Pick<Inventory, 'store' | 'customSources'>,
  settings: SccSettings,
): AdmissionPlan {
  const ranges = blockAnnotations(0, namespace, DEFAULT_RANGES);
  const metadata = { ...namespace.metadata, annotations: { ...namespace.metadata?.annotations, ...ranges } };
  return planAdmission(planInput({ ...namespace, metadata }, objects, settings));
}
