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
