import type { PodLike } from '../../kube/types.ts';
import { evaluateUnchanged, type Evaluation } from '../pss/evaluate.ts';
import type { Policy, Version } from '../pss/types.ts';

/** Judges the pod of a request by one policy, as the emulated version of Kubernetes would if there is one. */
export function evaluate(pod: PodLike, policy: Policy, emulationVersion: Version | undefined): Evaluation {
  return evaluateUnchanged(pod, emulationVersion === undefined ? policy : { ...policy, emulationVersion });
}
