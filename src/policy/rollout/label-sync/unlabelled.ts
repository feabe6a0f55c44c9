import { NAMESPACE_RANGE_ANNOTATIONS } from '../../../kube/scc.ts';
import { readTimestamp } from '../../../kube/timestamp.ts';
import type { Namespace } from '../../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { isTerminating } from './terminating.ts';

/** What is known of a namespace and its label. */
export interface LabelState {
  readonly namespace: Namespace;
  readonly isManaged: boolean;
  readonly serviceAccounts: readonly string[];
}

/** Younger namespaces are not waited for. */
const GRACE_MS = 60_000;

/**
 * True for a managed namespace that must have its label before the default may be raised, and has none from anybody. Where
 * nothing can run nothing can break.
 */
export function isAwaitingLabel({ namespace, isManaged, serviceAccounts }: LabelState, nowMs: number): boolean {
  const { labels, annotations, creationTimestamp } = namespace.metadata ?? {};
  if (!isManaged || labels?.[POD_SECURITY_LABELS.enforce] !== undefined) return false;
  if (isTerminating(namespace)) return false;
  const canRun = serviceAccounts.length > 0 && (annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') !== '';
  return canRun && nowMs - (readTimestamp(creationTimestamp) ?? 0) >= GRACE_MS;
}
