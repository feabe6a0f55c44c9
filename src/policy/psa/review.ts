import { reviewNamespace } from './review-namespace.ts';
import { reviewPod } from './review-pod.ts';
import { reviewWorkload } from './review-workload.ts';
import type { PodSecurityInput, PodSecurityReview } from './types.ts';

/** Answers an admission request as Pod Security Admission does; what is neither a namespace nor a pod is a workload. */
export function reviewPodSecurity(input: PodSecurityInput): PodSecurityReview {
  const { group, resource } = input.request.resource;
  // Not only `''`: an absent group is the core group as well.
  if (!group && resource === 'namespaces') return reviewNamespace(input);
  return !group && resource === 'pods' ? reviewPod(input) : reviewWorkload(input);
}
