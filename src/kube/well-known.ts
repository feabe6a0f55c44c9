/** Well-known labels, annotations and names of Kubernetes and OpenShift. */

/**
 * Namespace labels that set the Pod Security policies.
 * @see
 * https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces
 */
export const POD_SECURITY_LABELS = {
  enforce: 'pod-security.kubernetes.io/enforce',
  enforceVersion: 'pod-security.kubernetes.io/enforce-version',
  audit: 'pod-security.kubernetes.io/audit',
  auditVersion: 'pod-security.kubernetes.io/audit-version',
  warn: 'pod-security.kubernetes.io/warn',
  warnVersion: 'pod-security.kubernetes.io/warn-version',
} as const;

/**
 * Namespace label that enables (`"true"`) or disables (`"false"`) synchronization of the Pod Security labels. Other
 * values are ignored.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
export const LABEL_SYNC_LABEL = 'security.openshift.io/scc.podSecurityLabelSync';

/**
 * Namespace annotation with the strictest level that admits all pods that the namespace's service accounts may run.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const SUFFICIENT_LEVEL_ANNOTATION = 'security.openshift.io/MinimallySufficientPodSecurityStandard';

/** Name and field manager of the label syncer. */
export const LABEL_SYNC_MANAGER = 'pod-security-admission-label-synchronization-controller';

/** Field manager of the labels that early OpenShift releases wrote with plain updates instead of server-side apply. */
export const PREVIOUS_LABEL_SYNC_MANAGER = 'cluster-policy-controller';

/** Field manager of the labels on namespaces that SCC admission skips. */
export const RUN_LEVEL_ZERO_MANAGER = 'privileged-namespaces-psa-label-syncer';

/**
 * Namespace annotation that is `"true"` if the OLM auto-labeler manages the label, and `"false"` to opt the namespace
 * out.
 */
export const OLM_MANAGED_ANNOTATION = 'olm.auto-labeler.managed';

/** Name and field manager of the OLM auto-labeler. */
export const OLM_AUTO_LABELER = 'olm-auto-labeler';

/** Name and field manager of the controller that allocates UIDs and SELinux labels. */
export const RANGE_ALLOCATION_MANAGER = 'namespace-security-allocation-controller';

/** Namespace label that the API server sets to the namespace's name. */
export const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name';

/** Namespace of the Kubernetes controllers, whose service accounts can grant any permission. */
export const KUBE_SYSTEM = 'kube-system';
