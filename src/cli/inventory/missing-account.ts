import { isMirrorPod } from '../../kube/controller-pod.ts';
import { quote } from '../../kube/text.ts';
import type { Pod, ServiceAccount } from '../../kube/types.ts';

type FindAccount = (name: string) => ServiceAccount | undefined;

/**
 * Why the API server refuses to create the pod, if its service account is not there.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function missingAccount(pod: Pod, namespace: string, findAccount: FindAccount): string | undefined {
  const name: unknown = pod.spec?.serviceAccountName;
  if (isMirrorPod(pod) || typeof name !== 'string' || findAccount(name) !== undefined) return undefined;
  return `error looking up service account ${namespace}/${name}: serviceaccount ${quote(name)} not found`;
}
