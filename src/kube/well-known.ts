/** Names that Kubernetes gives a meaning: labels, annotations, users, groups; each with its source. */

/**
 * The labels of a namespace that set its policies.
 * @see https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces
 */
export const POD_SECURITY_LABELS = {
  enforce: 'pod-security.kubernetes.io/enforce',
  enforceVersion: 'pod-security.kubernetes.io/enforce-version',
  audit: 'pod-security.kubernetes.io/audit',
  auditVersion: 'pod-security.kubernetes.io/audit-version',
  warn: 'pod-security.kubernetes.io/warn',
  warnVersion: 'pod-security.kubernetes.io/warn-version',
} as const;
