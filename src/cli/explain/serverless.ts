/** Explains which pods of an object the policies in the API server admit, in a cluster without SCC admission. */
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { createPod } from '../../kube/controller-pod.ts';
import { decodePod } from '../../policy/pod/pod.ts';
import { completeTemplate } from '../../policy/psa/defaults.ts';
import { DEFAULT_LIMITS } from '../../policy/psa/input.ts';
import { reviewPodSecurity } from '../../policy/psa/review.ts';
import { findNamespace } from '../inventory/inventory.ts';
import type { Workload } from '../inventory/workloads.ts';
import { type Creation, describeWorkload, type Explanation, printExplanation } from './workload.ts';

interface PolicyContext extends Creation {
  readonly store: Store;
  readonly settings: Pick<Settings, 'podSecurity' | 'emulationVersion' | 'defaults' | 'scc'>;
}

const PODS = { group: '', version: 'v1', resource: 'pods' };

/**
 * Explains the decision on the pods of an object. Returns `undefined` for objects without pods.
 * @throws {UserError} for a namespace that does not exist
 */
export function explainPolicies(workload: Workload, context: PolicyContext): Explanation | undefined {
  const { source, namespace } = workload;
  const { store, settings, creator } = context;
  const findAccount = (account: string) => context.findAccount(account, namespace);
  const created = createPod(source, { namespace, creator, findAccount });
  if (created === undefined) return undefined;
  const { pod, requester: userInfo, serviceAccount, denial } = created;
  const found = findNamespace(store, namespace);
  const decoded = decodePod(pod).pod;
  const object = decoded ? completeTemplate(decoded, found, settings).json : pod;
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const { decision } = reviewPodSecurity({
    request: { uid: '', operation: 'CREATE', kind, resource: PODS, namespace, userInfo, object },
    podSecurity: settings.podSecurity,
    emulationVersion: settings.emulationVersion ?? store.emulationVersion,
    findNamespace: () => found,
    listPods: () => [],
    limits: DEFAULT_LIMITS,
    now: () => 0,
  });
  const { exempt, 'enforce-policy': policy } = decision.auditAnnotations ?? {};
  // The pod does not have a name yet.
  const refusal = decision.allowed
    ? undefined
    : decision.status.message?.replace(/^pods (?:"[^"]*" )?is forbidden: /, '');
  const message = denial ?? refusal;
  const data = {
    ...describeWorkload(workload, userInfo, serviceAccount),
    /** The enforced policy. Absent for exempt pods. */
    policy,
    /** Reason for the exemption: `namespace`, `user` or `runtimeClass`. */
    exempt,
    allowed: message === undefined,
    /** The message of a denial. */
    message,
    warnings: decision.warnings ?? [],
  };
  const verdict = exempt === undefined ? (data.allowed ? 'admitted by' : 'denied by') : `exempt (${exempt}) from`;
  const text = {
    result: `${verdict} the policies in the API server`,
    facts: [['Policy', policy] as const, ['Denied because', message] as const],
    warnings: data.warnings,
  };
  return {
    outcome: data.allowed ? (exempt === undefined ? 'admitted' : 'ignored') : 'denied',
    data,
    print: (style) => printExplanation(data, text, style),
  };
}
