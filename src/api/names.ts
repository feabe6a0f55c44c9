/** Labels, annotations, features and object names of Portcullis. */
import { OLM_AUTO_LABELER } from '../kube/well-known.ts';

/**
 * Namespace label with a level that Portcullis enforces. The API server's PodSecurity plugin ignores this label, so
 * exceptions can apply in the namespace. The level takes effect if it is stricter than the upstream label or the
 * default.
 */
export const ENFORCE_LABEL = 'portcullis.dev/enforce';

/** Name and field manager of the controller that reports kubelet versions on nodes. */
export const NODE_REPORTER = 'kubelet-reporter';

/** Names of objects in the generated manifests. */
export const INSTALLATION = {
  namespace: 'portcullis',
  /** Name of the Service, the ServiceAccount, the Deployment and the leader election Lease. */
  name: 'portcullis',
  /** Secret that contains the generated CA and the serving certificate. */
  certificateSecret: 'portcullis-serving-certificate',
  /** ClusterRole for managing the webhook configurations, and its binding. */
  webhookRole: 'portcullis-webhook-configurations',
  /** ClusterRole for managing the floor policies, and its binding. */
  policyRole: 'portcullis-admission-policies',
  /** ValidatingAdmissionPolicy that restricts writes by the service account, and its binding. */
  accountPolicy: 'portcullis-service-account',
} as const;

/** Label on all objects that belong to Portcullis. */
export const PART_OF_LABEL = 'app.kubernetes.io/part-of';
export const PART_OF = 'portcullis';

/** Label that has the value `replica` on the Leases of replicas. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component';
export const REPLICA = 'replica';

/** Labels on webhook configurations. */
export const WEBHOOK_LABELS = {
  'app.kubernetes.io/name': INSTALLATION.name,
  [PART_OF_LABEL]: PART_OF,
  [COMPONENT_LABEL]: 'webhooks',
} as const;

/**
 * Labels on generated ValidatingAdmissionPolicies and their bindings. `kubectl apply --prune` selects objects by these
 * labels.
 */
export const POLICY_LABELS = { ...WEBHOOK_LABELS, [COMPONENT_LABEL]: 'policies' } as const;

/** The label selector for the generated policies and bindings. */
export const POLICY_SELECTOR = Object.entries(POLICY_LABELS)
  .map((label) => label.join('='))
  .join(',');

/** Labels on the policies that the leader manages. */
export const FLOOR_LABELS = { ...WEBHOOK_LABELS, [COMPONENT_LABEL]: 'floor' } as const;

/**
 * Annotation on policies of an installation without a server. Contains the settings and versions from which they were
 * generated, as JSON.
 */
export const POLICY_SETTINGS_ANNOTATION = 'portcullis.dev/policy-settings';

/** Label selector for the policies that the leader manages. */
export const FLOOR_SELECTOR = `${PART_OF_LABEL}=${PART_OF},${COMPONENT_LABEL}=floor`;

/** On a webhook configuration: `<namespace>/<name>` of the Secret that contains the CA certificates to inject. */
export const INJECT_CA_ANNOTATION = 'portcullis.dev/inject-ca-from';

/**
 * On a webhook configuration or policy: the time when break-glass was turned on. Controllers do not change objects that
 * have this annotation.
 */
export const BREAK_GLASS_ANNOTATION = 'portcullis.dev/break-glass-since';

/**
 * Label on a namespace whose enforce label break-glass set to `privileged`. The value is the previous level.
 * Controllers do not change the Pod Security labels of these namespaces.
 */
export const RELAXED_LABEL = 'portcullis.dev/break-glass-enforce';

/** On a webhook configuration: the policies of namespaces before break-glass, such as `restricted:latest=shop,web`. */
export const FORMER_LEVELS_ANNOTATION = 'portcullis.dev/break-glass-levels';

/** Field manager of the labels that break-glass sets. */
export const BREAK_GLASS_MANAGER = 'portcullis-break-glass';

/** On the certificate Secret: `ca` requests a new CA, and `serving` requests a new serving certificate. */
export const ROTATE_ANNOTATION = 'portcullis.dev/rotate';

/** On a replica's Lease: the SHA-256 fingerprint of its serving certificate, in hex. */
export const SERVING_CERTIFICATE_ANNOTATION = 'portcullis.dev/serving-certificate';

/** On a replica's Lease: the generation of the PortcullisConfiguration that the replica applies. */
export const SETTINGS_GENERATION_ANNOTATION = 'portcullis.dev/settings-generation';

/** On a replica's Lease: how many times the replica has applied each exemption since it started, as JSON. */
export const EXEMPTION_USES_ANNOTATION = 'portcullis.dev/exemption-uses';

/**
 * On the leader election Lease: the time when the previous leader last renewed it. Removed once the pods that were
 * admitted since then have been reported.
 */
export const FORMER_LEADER_ANNOTATION = 'portcullis.dev/former-leader-renewed';

/** Features that are installed by default. */
export const DEFAULT_FEATURES = ['rollout'] as const;

/**
 * Optional features, which are SCC admission, the minimum kubelet version, and the Operator Lifecycle Manager. The
 * CRDs, permissions, webhooks and controllers of a feature are installed only with that feature.
 */
export const OPTIONAL_FEATURES = ['scc', 'kubelet', 'olm'] as const;
export type OptionalFeature = (typeof OPTIONAL_FEATURES)[number];

/** Names and field managers of the controllers that write the status of an optional feature. */
export const FEATURE_STATUS_CONTROLLERS = {
  scc: [],
  kubelet: ['kubelet-minimum-controller', 'kubelet-enforcement-controller'],
  olm: [OLM_AUTO_LABELER],
} as const satisfies Readonly<Record<OptionalFeature, readonly string[]>>;

/** All features. The `--features` flag passes the installed features to the replicas. */
export const FEATURES = [...DEFAULT_FEATURES, ...OPTIONAL_FEATURES] as const;
export type Feature = (typeof FEATURES)[number];

/** On the PortcullisConfiguration: a digest of the initial settings that the leader last applied. */
export const INITIAL_SETTINGS_ANNOTATION = 'portcullis.dev/initial-settings';

/**
 * On the PortcullisConfiguration: `"true"` permits the deletion of the object, after which the initial settings take
 * effect.
 */
export const ALLOW_DELETION_ANNOTATION = 'portcullis.dev/allow-deletion';

/** On the leader election Lease: `"true"` once the PortcullisConfiguration has existed. */
export const SETTINGS_EXISTED_ANNOTATION = 'portcullis.dev/settings-existed';

/** Name of the only PortcullisConfiguration. */
export const CONFIGURATION_NAME = 'cluster';

/**
 * Label on namespaces. The value `fail-open` means that pods must be able to start without webhooks, as for networking,
 * DNS and storage.
 */
export const TIER_LABEL = 'portcullis.dev/admission';
export const FAIL_OPEN = 'fail-open';

/** ConfigMap with the Pod Security configuration that the rollout publishes. */
export const POD_SECURITY_CONFIG_MAP = 'portcullis-pod-security';

/**
 * On the Pod Security ConfigMap: the desired default level. On a replica's Lease: the default level that the replica
 * enforces.
 */
export const POD_SECURITY_DEFAULT_ANNOTATION = 'portcullis.dev/pod-security-default';

/**
 * On the PSAEnforcementConfig: requests an evaluation of all namespaces if this time (RFC 3339) is later than the last
 * evaluation.
 */
export const EVALUATE_ANNOTATION = 'portcullis.dev/evaluate';

/**
 * On the Pod Security ConfigMap and on a replica's Lease: the generation of the Pod Security configuration, which
 * increases with each change.
 */
export const POD_SECURITY_GENERATION_ANNOTATION = 'portcullis.dev/pod-security-generation';

/**
 * On the Pod Security ConfigMap: how the syncer handles enforce labels (`Enforce`, `Hold` or `Advise`), and the time
 * when the default level was last raised.
 */
export const LABEL_SYNC_MODE_ANNOTATION = 'portcullis.dev/label-sync-mode';
export const RAISED_AT_ANNOTATION = 'portcullis.dev/raised-at';

/** Condition on nodes whose kubelet is older than the minimum version. */
export const KUBELET_CONDITION = 'KubeletVersionBelowMinimum';

/** On a node: `ok`, `outdated` or `unknown`. Used instead of the condition if the node's status cannot be written. */
export const KUBELET_STATE_ANNOTATION = 'portcullis.dev/kubelet-version-state';

/** Optional taint on nodes whose kubelet is older than the minimum version. */
export const KUBELET_TAINT = 'portcullis.dev/kubelet-outdated';

/**
 * The rendered minimum, or `none`. On a node, it means that the kubelet was configured for this minimum. On the
 * PortcullisConfiguration, it means that at least one kubelet in each pool was configured for it.
 */
export const RENDERED_MINIMUM_ANNOTATION = 'portcullis.dev/rendered-minimum-kubelet-version';

/** Time between the event that announces the expiry of an exception or a grant, and the expiry itself. */
export const EXPIRY_NOTICE_MS = 7 * 24 * 3_600_000;

/** Annotation on a binding with the time at which the leader deletes the binding. */
export const GRANT_EXPIRY_ANNOTATION = 'portcullis.dev/grant-expires-at';

/** Name prefix of the bindings of temporary grants. The SCC and the expiry time follow it. */
export const TEMPORARY_GRANT_PREFIX = 'portcullis:scc-until:';

/**
 * Annotation on a namespace with the periods of the temporary SCC grants in that namespace, as JSON. The annotation of
 * `kube-system` also contains cluster-wide grants.
 */
export const TEMPORARY_GRANTS_ANNOTATION = 'portcullis.dev/temporary-grants';

/**
 * On a PodSecurityException: the users who created the exception or changed its spec, as a JSON list. Only the webhook
 * writes it.
 */
export const AUTHORS_ANNOTATION = 'portcullis.dev/authors';

/**
 * Annotations with an approval that a trusted deployer applies together with an exception, instead of
 * `status.approval`. They contain the approver, the person who proposed the exception, and the hash of the approved
 * spec. The webhook adds the deployer and the time.
 */
export const APPROVAL_ANNOTATIONS = {
  by: 'portcullis.dev/approved-by',
  proposedBy: 'portcullis.dev/proposed-by',
  specHash: 'portcullis.dev/approved-spec-hash',
  through: 'portcullis.dev/approved-through',
  at: 'portcullis.dev/approved-at',
} as const;
