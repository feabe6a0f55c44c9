/** Well-known labels, annotations and names of Kubernetes, OpenShift and this program. */

/**
 * The labels of a namespace that set its Pod Security policies.
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
 * The label of a namespace that enables (`"true"`) or disables (`"false"`) the synchronization of its Pod Security labels.
 * Other values have no effect.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
export const LABEL_SYNC_LABEL = 'security.openshift.io/scc.podSecurityLabelSync';

/**
 * The annotation of a namespace with the strictest level that admits all pods of its service accounts.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const SUFFICIENT_LEVEL_ANNOTATION = 'security.openshift.io/MinimallySufficientPodSecurityStandard';

/** The name of the label syncer, also as field manager. */
export const LABEL_SYNC_MANAGER = 'pod-security-admission-label-synchronization-controller';

/** The field manager of labels that early OpenShift releases wrote by updates. */
export const FORMER_LABEL_SYNC_MANAGER = 'cluster-policy-controller';

/** The field manager of labels of namespaces in which SCC admission is disabled. */
export const RUN_LEVEL_ZERO_MANAGER = 'privileged-namespaces-psa-label-syncer';

/** The annotation of a namespace: `"true"` if the OLM auto-labeler manages its label, `"false"` opts it out. */
export const OLM_MANAGED_ANNOTATION = 'olm.auto-labeler.managed';

/** The name of the OLM auto-labeler, also as field manager. */
export const OLM_AUTO_LABELER = 'olm-auto-labeler';

/** The name of the controller that allocates UIDs and SELinux labels, also as field manager. */
export const RANGE_ALLOCATION_MANAGER = 'namespace-security-allocation-controller';

/** The API server sets this label of a namespace to its name. */
export const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name';

/** The names of objects in the generated manifests. */
export const INSTALLATION = {
  namespace: 'portcullis',
  /** The name of the Service, the ServiceAccount, the Deployment and the Lease of the leader. */
  name: 'portcullis',
  /** The Secret with the generated authority and serving certificate. */
  certificateSecret: 'portcullis-serving-certificate',
  /** The ClusterRole with the permission to maintain the webhook configurations, and its binding. */
  webhookRole: 'portcullis-webhook-configurations',
  /** The ClusterRole with the permission to maintain the policies of the floor, and its binding. */
  policyRole: 'portcullis-admission-policies',
  /** The ClusterRole that permits maintaining the MutatingAdmissionPolicy for pod defaults, and its binding. */
  defaultsRole: 'portcullis-admission-policies-defaults',
  /** The ValidatingAdmissionPolicy that limits what the service account may write, and its binding. */
  accountPolicy: 'portcullis-service-account',
} as const;

/** The label of all objects of this program. */
export const PART_OF_LABEL = 'app.kubernetes.io/part-of';
export const PART_OF = 'portcullis';

/** The label with the value `replica` on the Leases of replicas. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component';
export const REPLICA = 'replica';

/** Labels of webhook configurations. */
export const WEBHOOK_LABELS = {
  'app.kubernetes.io/name': INSTALLATION.name,
  [PART_OF_LABEL]: PART_OF,
  [COMPONENT_LABEL]: 'webhooks',
} as const;

/** Labels of generated ValidatingAdmissionPolicies and their bindings, by which `kubectl apply --prune` selects them. */
export const POLICY_LABELS = { ...WEBHOOK_LABELS, [COMPONENT_LABEL]: 'policies' } as const;

/** Labels of the policies that the leader maintains. */
export const FLOOR_LABELS = { ...WEBHOOK_LABELS, [COMPONENT_LABEL]: 'floor' } as const;

/** The settings and versions from which the policies of an installation without a server were generated, as JSON. */
export const POLICY_SETTINGS_ANNOTATION = 'portcullis.dev/policy-settings';

/** Selects the policies that the leader maintains. */
export const FLOOR_SELECTOR = `${PART_OF_LABEL}=${PART_OF},${COMPONENT_LABEL}=floor`;

/** On a webhook configuration: `<namespace>/<name>` of the Secret whose authorities are injected. */
export const INJECT_CA_ANNOTATION = 'portcullis.dev/inject-ca-from';

/** The time since which break-glass is on for a webhook configuration or policy. Controllers do not change such an object. */
export const BREAK_GLASS_ANNOTATION = 'portcullis.dev/break-glass-since';

/**
 * The label of a namespace whose enforce label break-glass set to `privileged`: the former level. Controllers do not change
 * the Pod Security labels of these namespaces.
 */
export const RELAXED_LABEL = 'portcullis.dev/break-glass-enforce';

/** The field manager of the labels that break-glass sets. */
export const BREAK_GLASS_MANAGER = 'portcullis-break-glass';

/** On the Secret of the certificates: `ca` or `serving` requests a new authority or serving certificate. */
export const ROTATE_ANNOTATION = 'portcullis.dev/rotate';

/** On the Lease of a replica: the SHA-256 fingerprint of its serving certificate, in hex. */
export const SERVING_CERTIFICATE_ANNOTATION = 'portcullis.dev/serving-certificate';

/** On the Lease of a replica: the generation of the PortcullisConfiguration that it applies. */
export const SETTINGS_GENERATION_ANNOTATION = 'portcullis.dev/settings-generation';

/** On the Lease of a replica: how often it applied each exemption since its start, in JSON. */
export const EXEMPTION_USES_ANNOTATION = 'portcullis.dev/exemption-uses';

/** On the Lease of the leader: the time of the last renewal by the former leader. */
export const FORMER_LEADER_ANNOTATION = 'portcullis.dev/former-leader-renewed';

/** The features that an installation has by default. */
export const DEFAULT_FEATURES = ['scc', 'rollout'] as const;

/** The optional features. Without them, an installation lacks their permissions, webhooks and controllers. */
export const OPTIONAL_FEATURES = ['kubelet', 'olm'] as const;
export type OptionalFeature = (typeof OPTIONAL_FEATURES)[number];

/** All features of installations. The replicas receive the installed ones by `--features`. */
export const FEATURES = [...DEFAULT_FEATURES, ...OPTIONAL_FEATURES] as const;
export type Feature = (typeof FEATURES)[number];

/** On the PortcullisConfiguration: a digest of the initial settings that the leader last applied. */
export const INITIAL_SETTINGS_ANNOTATION = 'portcullis.dev/initial-settings';

/** The name of the only PortcullisConfiguration. */
export const CONFIGURATION_NAME = 'cluster';

/** The label with the value `fail-open` on namespaces whose pods must start without webhooks: networking, DNS, storage. */
export const TIER_LABEL = 'portcullis.dev/admission';
export const FAIL_OPEN = 'fail-open';

/** The ConfigMap with the Pod Security configuration that the rollout publishes. */
export const POD_SECURITY_CONFIG_MAP = 'portcullis-pod-security';

/**
 * On that ConfigMap: the desired default level. On the Lease of a replica: the default level that it enforces.
 */
export const POD_SECURITY_DEFAULT_ANNOTATION = 'portcullis.dev/pod-security-default';

/**
 * On the PSAEnforcementConfig: a time (RFC 3339) that requests an evaluation of all namespaces, if it is later than the
 * last evaluation.
 */
export const EVALUATE_ANNOTATION = 'portcullis.dev/evaluate';

/** On both: the generation of that configuration, which increases with each change. */
export const POD_SECURITY_GENERATION_ANNOTATION = 'portcullis.dev/pod-security-generation';

/** On the ConfigMap: the handling of enforce labels (`Enforce`, `Hold` or `Advise`), and the time of the last raise. */
export const LABEL_SYNC_MODE_ANNOTATION = 'portcullis.dev/label-sync-mode';
export const RAISED_AT_ANNOTATION = 'portcullis.dev/raised-at';

/** The condition of nodes whose kubelet is below the minimum version. */
export const KUBELET_CONDITION = 'KubeletVersionBelowMinimum';

/** On a node whose status cannot be written, in place of the condition: `ok`, `outdated` or `unknown`. */
export const KUBELET_STATE_ANNOTATION = 'portcullis.dev/kubelet-version-state';

/** The optional taint of nodes whose kubelet is below the minimum version. */
export const KUBELET_TAINT = 'portcullis.dev/kubelet-outdated';

/**
 * The rendered minimum, or `none`. On a node: its kubelet was configured for it. On the PortcullisConfiguration: a kubelet of
 * each pool was.
 */
export const RENDERED_MINIMUM_ANNOTATION = 'portcullis.dev/rendered-minimum-kubelet-version';
