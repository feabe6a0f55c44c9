import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import type { Kind, KubeObject, Namespace, Node, Pod } from '../../../kube/types.ts';
import type { RbacObjects } from '../../rbac/types.ts';

/** What is found, by code; the higher the severity, the more is lost with user namespaces. */
export const AUDIT_RULES = {
  UN001: { severity: 'high', remedy: 'Delete the pod, or run it under another SCC.' },
  UN002: {
    severity: 'high',
    remedy: 'Remove the annotation openshift.io/required-scc from the template, or scale the workload to nothing.',
  },
  UN003: { severity: 'medium', remedy: 'Remove the grant.' },
  UN004: { severity: 'medium', remedy: 'Delete the pod, or take these rights from it.' },
  UN005: { severity: 'medium', remedy: 'Delete the pod, or change it such that it keeps the level without them.' },
  UN006: { severity: 'high', remedy: 'Upgrade the kubelet, or drain the node.' },
  UN007: { severity: 'info', remedy: 'Nothing has to be done.' },
  UN008: { severity: 'info', remedy: 'Nothing has to be done.' },
} as const satisfies Readonly<Record<string, { readonly severity: Severity; readonly remedy: string }>>;

export type AuditCode = keyof typeof AUDIT_RULES;
export type Severity = 'high' | 'medium' | 'info';

/** One thing whose safety depends on user namespaces. */
export interface AuditFinding {
  readonly code: AuditCode;
  readonly severity: Severity;
  readonly kind: string;
  /** Absent for objects of the cluster. */
  readonly namespace?: string;
  readonly name: string;
  /** What was found, naming fields and values. */
  readonly message: string;
}

/** An object with a pod template, or a pod that no controller made. */
export interface AuditSource {
  readonly kind: Kind;
  readonly object: KubeObject;
}

/** All that the audit reads. */
export interface AuditInput {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly namespaces: readonly Namespace[];
  readonly pods: readonly Pod[];
  readonly sources: readonly AuditSource[];
  readonly nodes: readonly Node[];
  readonly rbac: RbacObjects;
  /** Pods that are left out otherwise: those that have ended, and those that the kubelet shows of static pods. */
  readonly include: readonly ('completed' | 'mirror')[];
}

/** A finding with the severity of its code. */
export function finding(
  code: AuditCode,
  { kind, object, message }: { readonly kind: string; readonly object: KubeObject; readonly message: string },
): AuditFinding {
  const { name = '', namespace } = object.metadata ?? {};
  const { severity } = AUDIT_RULES[code];
  return { code, severity, kind, ...(namespace === undefined ? {} : { namespace }), name, message };
}
