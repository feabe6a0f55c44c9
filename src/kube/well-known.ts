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

/**
 * The label of a namespace that asks for its Pod Security labels to be kept by the program (`"true"`) or to be left alone
 * (`"false"`); any other value says nothing.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
export const LABEL_SYNC_LABEL = 'security.openshift.io/scc.podSecurityLabelSync';

/**
 * The annotation of a namespace that holds the strictest level which all pods satisfy that its service accounts may run.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const SUFFICIENT_LEVEL_ANNOTATION = 'security.openshift.io/MinimallySufficientPodSecurityStandard';

/** Under this name labels are kept: the name of the controller, and the owner of the fields it applies. */
export const LABEL_SYNC_MANAGER = 'pod-security-admission-label-synchronization-controller';

/** The owner of the labels that early releases wrote by plain updates. */
export const FORMER_LABEL_SYNC_MANAGER = 'cluster-policy-controller';

/** Keeps the labels of the namespaces where SCCs never count. */
export const RUN_LEVEL_ZERO_MANAGER = 'privileged-namespaces-psa-label-syncer';

/** The names of an installation of this program in a cluster, as its manifests have them. */
export const INSTALLATION = {
  namespace: 'portcullis',
  /** Of the service, the service account, the Deployment, and the Lease by which one replica leads. */
  name: 'portcullis',
  /** Holds the authority and the serving certificate where the program makes them itself. */
  certificateSecret: 'portcullis-serving-certificate',
} as const;

/** Marks all that belongs to this program, configurations of webhooks among them. */
export const PART_OF_LABEL = 'app.kubernetes.io/part-of';
export const PART_OF = 'portcullis';

/** `replica` on the Leases in which each replica says what it serves. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component';
export const REPLICA = 'replica';

/** On a configuration of webhooks: `<namespace>/<name>` of the Secret whose authorities its webhooks are to trust. */
export const INJECT_CA_ANNOTATION = 'portcullis.dev/inject-ca-from';

/** On the Secret of the certificates: `ca` or `serving`, for a new authority or serving certificate before its time. */
export const ROTATE_ANNOTATION = 'portcullis.dev/rotate';

/** On the Lease of a replica: SHA-256 of the certificate that it serves, in hex. */
export const SERVING_CERTIFICATE_ANNOTATION = 'portcullis.dev/serving-certificate';

/** `fail-open` on a namespace whose pods must start while nobody answers reviews: networking, DNS, storage. */
export const TIER_LABEL = 'portcullis.dev/admission';
export const FAIL_OPEN = 'fail-open';

/** The ConfigMap with the configuration of Pod Security that follows from the rollout. */
export const POD_SECURITY_CONFIG_MAP = 'portcullis-pod-security';

/**
 * On that ConfigMap the level that namespaces without a label are to be held to, on the Lease of a replica the one that it
 * holds them to.
 */
export const POD_SECURITY_DEFAULT_ANNOTATION = 'portcullis.dev/pod-security-default';

/**
 * On the PSAEnforcementConfig: a time (RFC 3339) at which somebody wants all namespaces to be evaluated. One that is later
 * than the last evaluation has them evaluated at once.
 */
export const EVALUATE_ANNOTATION = 'portcullis.dev/evaluate';

/** On both: the number of that configuration; it rises with each change. */
export const POD_SECURITY_GENERATION_ANNOTATION = 'portcullis.dev/pod-security-generation';

/** On the ConfigMap what becomes of labels that enforce: `Enforce`, `Hold` or `Advise`; and when the level was last raised. */
export const LABEL_SYNC_MODE_ANNOTATION = 'portcullis.dev/label-sync-mode';
export const RAISED_AT_ANNOTATION = 'portcullis.dev/raised-at';
