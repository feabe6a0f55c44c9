/**
 * The kinds of the API groups that the upstream webhook can decode, by apiVersion. A request about any other kind is one
 * about an object that cannot be decoded.
 */
const KINDS: Readonly<Record<string, string>> = {
  v1: `Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node NodeProxyOptions PersistentVolume
    PersistentVolumeClaim Pod PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions
    PodStatusResult PodTemplate RangeAllocation ReplicationController ResourceQuota Secret SerializedReference Service
    ServiceAccount ServiceProxyOptions Status`,
  'apps/v1': 'ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet',
  'batch/v1': 'CronJob Job',
  'admission.k8s.io/v1': 'AdmissionReview',
};

const KNOWN = new Map(Object.entries(KINDS).map(([apiVersion, kinds]) => [apiVersion, new Set(kinds.split(/\s+/))]));

/** True if objects of that kind can be decoded, lists of them included. */
export function isKnownKind(apiVersion: string, kind: string): boolean {
  const kinds = KNOWN.get(apiVersion);
  return (
    kinds !== undefined && (kinds.has(kind) || (kind.endsWith('List') && kinds.has(kind.slice(0, -'List'.length))))
  );
}
