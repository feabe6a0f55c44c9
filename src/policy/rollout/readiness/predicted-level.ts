import { SUFFICIENT_LEVEL_ANNOTATION } from '../../../kube/label-sync.ts';
import { metadataOwnersOf } from '../../../kube/managed-fields.ts';
import type { Namespace } from '../../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { isLevel, type Level } from '../../pss/types.ts';
import type { Exemptions } from '../../psa/exemptions.ts';
import type { LabelSyncPlan } from '../label-sync.ts';
import { isTerminating } from '../label-sync/terminating.ts';
import { ownFieldsOf } from '../label-sync/ownership.ts';
import { isStricter } from '../../psa/policy.ts';

/** True for a namespace that enforcement would change something for: one that has no level of its own. */
export function isSelected(namespace: Namespace, exemptions: Pick<Exemptions, 'namespace'>): boolean {
  const { name, labels } = namespace.metadata ?? {};
  if (labels?.[POD_SECURITY_LABELS.enforce] !== undefined) return false;
  return !isTerminating(namespace) && !exemptions.namespace(name);
}

/**
 * The level that enforcement would hold a namespace to: what the syncer plans for it, where it knows; else what the syncer
 * wrote earlier; else the default to come. What others wrote does not count; `undefined` if nobody can tell who wrote what.
 */
export function predictedLevelOf(
  namespace: Namespace,
  plan?: Pick<LabelSyncPlan, 'isManaged' | 'need'>,
): Level | undefined {
  if (plan?.isManaged === false) return 'restricted';
  if (plan?.need !== undefined) return plan.need.level;
  const owners = metadataOwnersOf(namespace.metadata);
  if (owners === undefined) return undefined;
  const own = ownFieldsOf(owners);
  const { labels, annotations } = namespace.metadata ?? {};
  const annotation = own.annotations.has(SUFFICIENT_LEVEL_ANNOTATION)
    ? annotations?.[SUFFICIENT_LEVEL_ANNOTATION]
    : undefined;
  if (isLevel(annotation)) return annotation;
  const values = [POD_SECURITY_LABELS.warn, POD_SECURITY_LABELS.audit]
    .filter((key) => own.labels.has(key))
    .map((key) => labels?.[key])
    .filter(isLevel);
  return (
    values.reduce<Level | undefined>((a, b) => (a === undefined || isStricter(b, a) ? b : a), undefined) ?? 'restricted'
  );
}
