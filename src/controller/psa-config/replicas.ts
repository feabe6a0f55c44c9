import { defaultLevelOf, generationOf, type RolloutView } from '../../cluster/rollout.ts';
import type { Lease } from '../../kube/types.ts';
import type { DefaultLevel } from '../../policy/psa/enforcement.ts';

/**
 * The default in force anywhere: that of what is published, and of a replica that has not yet said that it knows it. What
 * has never been raised is in force nowhere.
 */
export function currentOf(view: RolloutView, leases: readonly Lease[], hasBeenRaised: boolean): DefaultLevel {
  if (view.published === 'restricted') return 'restricted';
  const isBehind = (lease: Lease): boolean =>
    defaultLevelOf(lease) === 'restricted' || generationOf(lease) < view.generation;
  return hasBeenRaised && (view.generation === 0 || leases.some(isBehind)) ? 'restricted' : 'privileged';
}

/** True if replicas are there, and every one has said that it holds namespaces to what is published. */
export function areAllRaised(view: RolloutView, leases: readonly Lease[]): boolean {
  return (
    leases.length > 0 &&
    leases.every((lease) => defaultLevelOf(lease) === 'restricted' && generationOf(lease) >= view.generation)
  );
}
