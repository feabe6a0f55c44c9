import type { KubeObject, Result } from './types.ts';
import type { FieldShapes, ShapeValue } from './field-shape.ts';

const STRINGS = ['string'] as const;
/** The type is `MustRunAs` or `RunAsAny`. A range of ids includes both ends; an absent end is 0. */
const GROUPS = { type: 'string', ranges: [{ min: 'int64', max: 'int64' }] } as const;

/** The fields of an SCC and their types, without those of every object, as in the schema of the API server. */
export const SCC_FIELDS = {
  /** SCCs with a higher priority come first; 0 if absent. */
  priority: 'int32',
  allowPrivilegedContainer: 'boolean',
  defaultAddCapabilities: STRINGS,
  requiredDropCapabilities: STRINGS,
  /** `*` means all. */
  allowedCapabilities: STRINGS,
  /** Overrides `hostPath` in `volumes`. */
  allowHostDirVolumePlugin: 'boolean',
  volumes: STRINGS,
  /** If empty, all drivers are allowed. */
  allowedFlexVolumes: [{ driver: 'string' }],
  allowHostNetwork: 'boolean',
  allowHostPorts: 'boolean',
  allowHostPID: 'boolean',
  allowHostIPC: 'boolean',
  /** One of `USER_NAMESPACE_LEVELS`. */
  userNamespaceLevel: 'string',
  defaultAllowPrivilegeEscalation: 'boolean',
  /** True if absent. */
  allowPrivilegeEscalation: 'boolean',
  /** The type is `MustRunAs` or `RunAsAny`. */
  seLinuxContext: {
    type: 'string',
    seLinuxOptions: { user: 'string', role: 'string', type: 'string', level: 'string' },
  },
  /** The type is `MustRunAs`, `MustRunAsRange`, `MustRunAsNonRoot` or `RunAsAny`. */
  runAsUser: { type: 'string', uid: 'int64', uidRangeMin: 'int64', uidRangeMax: 'int64' },
  supplementalGroups: GROUPS,
  fsGroup: GROUPS,
  readOnlyRootFilesystem: 'boolean',
  users: STRINGS,
  groups: STRINGS,
  /** `*` means all. If empty, pods may not set a profile. */
  seccompProfiles: STRINGS,
  /** A trailing `*` matches a prefix. */
  allowedUnsafeSysctls: STRINGS,
  forbiddenSysctls: STRINGS,
} as const satisfies FieldShapes;

export type GroupStrategyOptions = ShapeValue<typeof GROUPS>;

/**
 * The permissions of pods, and the defaults of fields that pods do not set.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
export interface SecurityContextConstraints extends KubeObject, ShapeValue<typeof SCC_FIELDS> {}

/**
 * The allocated blocks of ids. The only object is named `scc-uid`.
 * @see https://github.com/openshift/api/blob/master/securityinternal/v1/types.go
 */
export interface RangeAllocation extends KubeObject {
  /** `<start>-<end>/<block size>` */
  readonly range?: string | null;
  /** A bitmap of allocated blocks: a big-endian unsigned integer without leading zero bytes, in base64. */
  readonly data?: string | null;
}

/**
 * Annotations of pods: the SCC that admitted the pod, the type of its subject, and the SCC that the pod requires.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const POD_SCC_ANNOTATIONS = {
  scc: 'openshift.io/scc',
  subjectType: 'security.openshift.io/validated-scc-subject-type',
  requiredScc: 'openshift.io/required-scc',
} as const;

/**
 * Annotations of namespaces: their ids and SELinux level.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const NAMESPACE_RANGE_ANNOTATIONS = {
  uidRange: 'openshift.io/sa.scc.uid-range',
  supplementalGroups: 'openshift.io/sa.scc.supplemental-groups',
  mcs: 'openshift.io/sa.scc.mcs',
} as const;

/**
 * The deprecated annotations of seccomp profiles. The annotation of a container is the prefix followed by the name of
 * the container.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/annotation_key_constants.go
 */
export const SECCOMP_POD_ANNOTATION = 'seccomp.security.alpha.kubernetes.io/pod';
export const SECCOMP_CONTAINER_ANNOTATION_PREFIX = 'container.seccomp.security.alpha.kubernetes.io/';

/** A block of ids that includes both ends. It is empty if `min` is greater than `max`. */
export interface IdBlock {
  readonly min: number;
  readonly max: number;
}

/**
 * Parses a block of ids, `<start>/<size>` or `<start>-<end>`, as Go scans it: unsigned 32-bit integers, which may overflow.
 * Spaces before a number and text after the second number are ignored.
 * @see https://github.com/openshift/library-go/blob/master/pkg/security/uid/uid.go
 */
export function parseIdBlock(text: string): Result<IdBlock> {
  const isSized = text.includes('/');
  const first = scanNumber(text);
  if ('error' in first) return first;
  const { value: start, rest } = first.value;
  if (rest === '') return { error: 'unexpected EOF' };
  if (!rest.startsWith(isSized ? '/' : '-')) return { error: 'input does not match format' };
  const second = scanNumber(rest.slice(1));
  if ('error' in second) return second;
  const { value } = second.value;
  return { value: { min: start, max: isSized ? (start + value - 1) >>> 0 : value } };
}

/** Parses blocks separated by commas. Returns the first error. */
export function parseIdBlocks(text: string): Result<readonly IdBlock[]> {
  const blocks: IdBlock[] = [];
  for (const part of text.split(',')) {
    const block = parseIdBlock(part);
    if ('error' in block) return block;
    blocks.push(block.value);
  }
  return { value: blocks };
}

function scanNumber(text: string): Result<{ readonly value: number; readonly rest: string }> {
  const input = text.trimStart();
  if (input === '') return { error: 'unexpected EOF' };
  const digits = /^\d*/.exec(input)?.[0] ?? '';
  if (digits === '') return { error: 'expected integer' };
  const value = Number(digits);
  if (value > 0xffffffff) return { error: `unsigned integer overflow on token ${digits}` };
  return { value: { value, rest: input.slice(digits.length) } };
}

/** The values of `userNamespaceLevel`. The first is the default. */
export const USER_NAMESPACE_LEVELS: readonly string[] = ['AllowHostLevel', 'RequirePodLevel'];
