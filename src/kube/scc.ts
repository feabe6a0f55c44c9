import type { KubeObject } from './types.ts';

/** A closed range of ids; a bound that is absent is 0. */
export interface IdRange {
  readonly min?: number | null;
  readonly max?: number | null;
}

export interface SeLinuxOptions {
  readonly user?: string | null;
  readonly role?: string | null;
  readonly type?: string | null;
  readonly level?: string | null;
}

export interface RunAsUserStrategyOptions {
  /** `MustRunAs`, `MustRunAsRange`, `MustRunAsNonRoot` or `RunAsAny`. */
  readonly type?: string | null;
  readonly uid?: number | null;
  readonly uidRangeMin?: number | null;
  readonly uidRangeMax?: number | null;
}

export interface SeLinuxContextStrategyOptions {
  /** `MustRunAs` or `RunAsAny`. */
  readonly type?: string | null;
  readonly seLinuxOptions?: SeLinuxOptions | null;
}

export interface GroupStrategyOptions {
  /** `MustRunAs` or `RunAsAny`. */
  readonly type?: string | null;
  readonly ranges?: readonly IdRange[] | null;
}

type Strings = readonly string[] | null;

/**
 * What pods may ask for, and what they get where they ask for nothing.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
export interface SecurityContextConstraints extends KubeObject {
  /** Higher comes first; absent is 0. */
  readonly priority?: number | null;
  readonly allowPrivilegedContainer?: boolean | null;
  readonly defaultAddCapabilities?: Strings;
  readonly requiredDropCapabilities?: Strings;
  /** `*` stands for all. */
  readonly allowedCapabilities?: Strings;
  /** Overrides what `volumes` says of `hostPath`. */
  readonly allowHostDirVolumePlugin?: boolean | null;
  readonly volumes?: Strings;
  /** Empty: every driver. */
  readonly allowedFlexVolumes?: readonly { readonly driver?: string | null }[] | null;
  readonly allowHostNetwork?: boolean | null;
  readonly allowHostPorts?: boolean | null;
  readonly allowHostPID?: boolean | null;
  readonly allowHostIPC?: boolean | null;
  /** `AllowHostLevel` or `RequirePodLevel`. */
  readonly userNamespaceLevel?: string | null;
  readonly defaultAllowPrivilegeEscalation?: boolean | null;
  /** Absent: true. */
  readonly allowPrivilegeEscalation?: boolean | null;
  readonly seLinuxContext?: SeLinuxContextStrategyOptions | null;
  readonly runAsUser?: RunAsUserStrategyOptions | null;
  readonly supplementalGroups?: GroupStrategyOptions | null;
  readonly fsGroup?: GroupStrategyOptions | null;
  readonly readOnlyRootFilesystem?: boolean | null;
  readonly users?: Strings;
  readonly groups?: Strings;
  /** `*` stands for all; empty: pods may not set a profile. */
  readonly seccompProfiles?: Strings;
  /** A trailing `*` makes a prefix. */
  readonly allowedUnsafeSysctls?: Strings;
  readonly forbiddenSysctls?: Strings;
}

/**
 * Which blocks of ids are taken; the only one is named `scc-uid`.
 * @see https://github.com/openshift/api/blob/master/securityinternal/v1/types.go
 */
export interface RangeAllocation extends KubeObject {
  /** `<start>-<end>/<size of a block>` */
  readonly range?: string | null;
  /** In base64 a big-endian unsigned integer without leading zero bytes: a bit that is set is a block that is taken. */
  readonly data?: string | null;
}

/**
 * Annotations of pods: the SCC that admitted it, who was allowed to use that SCC, and the only one that may be used.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const POD_SCC_ANNOTATIONS = {
  scc: 'openshift.io/scc',
  subjectType: 'security.openshift.io/validated-scc-subject-type',
  requiredScc: 'openshift.io/required-scc',
} as const;

/**
 * Annotations of namespaces: the ids and the SELinux level that are theirs.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const NAMESPACE_RANGE_ANNOTATIONS = {
  uidRange: 'openshift.io/sa.scc.uid-range',
  supplementalGroups: 'openshift.io/sa.scc.supplemental-groups',
  mcs: 'openshift.io/sa.scc.mcs',
} as const;

/**
 * The annotations that seccomp profiles had before they became fields; a container's has its name behind the prefix.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/annotation_key_constants.go
 */
export const SECCOMP_POD_ANNOTATION = 'seccomp.security.alpha.kubernetes.io/pod';
export const SECCOMP_CONTAINER_ANNOTATION_PREFIX = 'container.seccomp.security.alpha.kubernetes.io/';
