import { isMirrorPod } from '../../kube/controller-pod.ts';
import { compareBytes } from '../../kube/order.ts';
import type { Pod } from '../../kube/types.ts';
import { auditGrants } from './user-namespace-audit/audit-grants.ts';
import { auditNodes } from './user-namespace-audit/audit-nodes.ts';
import { auditPod } from './user-namespace-audit/audit-pod.ts';
import { auditSource } from './user-namespace-audit/audit-source.ts';
import { guardedSccsOf } from './user-namespace-audit/guarded-sccs.ts';
import type { AuditFinding, AuditInput } from './user-namespace-audit/types.ts';

export { AUDIT_RULES } from './user-namespace-audit/types.ts';
export type { AuditCode, AuditFinding, AuditInput, AuditSource, Severity } from './user-namespace-audit/types.ts';

/**
 * Finds everything whose safety depends on user namespaces, before a cluster goes where they do not count: to a release or
 * a set of features in which SCCs have no `userNamespaceLevel`. Sorted by namespace, kind, name and code; objects of the
 * cluster come first.
 * @see https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
 */
export function auditUserNamespaces(input: AuditInput): readonly AuditFinding[] {
  const guarded = guardedSccsOf(input.sccs);
  const namespaces = new Map(input.namespaces.map((namespace) => [namespace.metadata?.name, namespace]));
  const pods = input.pods.filter((pod) => isIncluded(pod, input));
  return [
    ...pods.flatMap((pod) => auditPod(pod, { guarded, namespace: namespaces.get(pod.metadata?.namespace) })),
    ...input.sources
      .filter(({ kind, object }) => kind !== 'Pod' || isIncluded(object, input))
      .flatMap((source) => auditSource(source, guarded)),
    ...auditGrants(guarded, input.rbac),
    ...auditNodes(input.nodes, input.namespaces),
  ].sort(compareFindings);
}

function isIncluded(pod: Pod, { include }: AuditInput): boolean {
  const { phase } = pod.status ?? {};
  const isCompleted = phase === 'Succeeded' || phase === 'Failed';
  return (!isCompleted || include.includes('completed')) && (!isMirrorPod(pod) || include.includes('mirror'));
}

function compareFindings(a: AuditFinding, b: AuditFinding): number {
  return (
    compareBytes(a.namespace ?? '', b.namespace ?? '') ||
    compareBytes(a.kind, b.kind) ||
    compareBytes(a.name, b.name) ||
    compareBytes(a.code, b.code)
  );
}
