import type { FieldShapes, ShapeValue } from './field-shape.ts';
import type { KubeObject, Result } from './types.ts';

const STRINGS = ['string'] as const;
/**
 * The options of a group strategy. The type is `MustRunAs` or `RunAsAny`. ID ranges are inclusive, and an absent bound
 * is 0.
 */
const GROUPS = { type: 'string', ranges: [{ min: 'int64', max: 'int64' }] } as const;

/**
 * The fields of an SCC and their types, except the fields that every object has. They match the API server's schema.
 */
export const SCC_FIELDS = {
  /** SCCs that have a higher priority are tried first. Defaults to 0. */
  priority: 'int32',
  allowPrivilegedContainer: 'boolean',
  defaultAddCapabilities: STRINGS,
  requiredDropCapabilities: STRINGS,
  /** `*` allows all capabilities. */
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
  /** Defaults to true. */
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
  /** `*` allows all profiles. If empty, pods must not set a profile. */
  seccompProfiles: STRINGS,
  /** A trailing `*` matches any suffix. */
  allowedUnsafeSysctls: STRINGS,
  forbiddenSysctls: STRINGS,
} as const satisfies FieldShapes;

export type GroupStrategyOptions = ShapeValue<typeof GROUPS>;

/**
 * Restricts what pods may do, and provides defaults for fields that pods do not set.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
export interface SecurityContextConstraints extends KubeObject, ShapeValue<typeof SCC_FIELDS> {}

/**
 * The allocated ID blocks. The only object of this kind is named `scc-uid`.
 * @see https://github.com/openshift/api/blob/master/securityinternal/v1/types.go
 */
export interface RangeAllocation extends KubeObject {
  /** `<start>-<end>/<block size>` */
  readonly range?: string | null;
  /** Bitmap of the allocated blocks, encoded as a base64 big-endian unsigned integer without leading zero bytes. */
  readonly data?: string | null;
}

/**
 * Pod annotations with the SCC that admitted the pod, the type of the subject that may use that SCC, and the SCC that
 * the pod requires.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const POD_SCC_ANNOTATIONS = {
  scc: 'openshift.io/scc',
  subjectType: 'security.openshift.io/validated-scc-subject-type',
  requiredScc: 'openshift.io/required-scc',
} as const;

/**
 * Namespace annotations that contain the ID ranges and the SELinux level.
 * @see https://github.com/openshift/api/blob/master/security/v1/consts.go
 */
export const NAMESPACE_RANGE_ANNOTATIONS = {
  uidRange: 'openshift.io/sa.scc.uid-range',
  supplementalGroups: 'openshift.io/sa.scc.supplemental-groups',
  mcs: 'openshift.io/sa.scc.mcs',
} as const;

/**
 * Deprecated seccomp profile annotations. The key of a container annotation is the prefix followed by the container
 * name.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/annotation_key_constants.go
 */
export const SECCOMP_POD_ANNOTATION = 'seccomp.security.alpha.kubernetes.io/pod';
export const SECCOMP_CONTAINER_ANNOTATION_PREFIX = 'container.seccomp.security.alpha.kubernetes.io/';

/** An inclusive block of IDs. It is empty if `min` is greater than `max`. */
export interface IdBlock {
  readonly min: number;
  readonly max: number;
}

/**
 * Parses an ID block in the form `<start>/<size>` or `<start>-<end>`, as Go's `Sscanf` does. The numbers are unsigned
 * 32-bit integers, and their sum may overflow. Spaces before a number and text after the second number are ignored.
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

/** Parses comma-separated blocks. If there are several errors, returns only the first one. */
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

/** Values of `userNamespaceLevel`. The first value is the default. */
export const USER_NAMESPACE_LEVELS: readonly string[] = ['AllowHostLevel', 'RequirePodLevel'];
