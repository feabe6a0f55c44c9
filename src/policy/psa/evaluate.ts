import type { PodLike } from '../../kube/types.ts';
import { evaluatePod, type Evaluation } from '../pss/evaluate.ts';
import type { Policy, Version } from '../pss/types.ts';

/** Judges a pod by one policy, as the emulated version of Kubernetes would if there is one. */
export function evaluate(pod: PodLike, policy: Policy, emulationVersion: Version | undefined): Evaluation {
  return evaluatePod(pod, emulationVersion === undefined ? policy : { ...policy, emulationVersion });
}
