import { defaultLevelOf, generationOf, type RolloutView } from '../../cluster/rollout.ts';
import type { Lease } from '../../kube/types.ts';
import { currentDefault, type DefaultLevel } from '../../policy/rollout/enforcement.ts';

/**
 * The default in force anywhere: that of what is published, and of a replica that has not yet said that it knows it. What
 * has never been raised is in force nowhere.
 */
export function currentOf(view: RolloutView, leases: readonly Lease[], hasBeenRaised: boolean): DefaultLevel {
  if (!hasBeenRaised) return view.published;
  const saidBy = (lease: Lease): DefaultLevel =>
    generationOf(lease) < view.generation ? 'restricted' : defaultLevelOf(lease);
  return currentDefault([view.generation === 0 ? 'restricted' : view.published, ...leases.map(saidBy)]);
}

/** True if replicas are there, and every one has said that it holds namespaces to what is published. */
export function areAllRaised(view: RolloutView, leases: readonly Lease[]): boolean {
  return (
    leases.length > 0 &&
    leases.every((lease) => defaultLevelOf(lease) === 'restricted' && generationOf(lease) >= view.generation)
  );
}
