import type { KubeObject, Result } from './types.ts';
import type { FieldShape, FieldShapes } from './field-shape.ts';

/** A range of ids that includes both ends. An absent end is 0. */
interface IdRange {
  readonly min?: number | null;
  readonly max?: number | null;
}

interface SeLinuxOptions {
  readonly user?: string | null;
  readonly role?: string | null;
  readonly type?: string | null;
  readonly level?: string | null;
}

interface RunAsUserStrategyOptions {
  /** `MustRunAs`, `MustRunAsRange`, `MustRunAsNonRoot` or `RunAsAny`. */
  readonly type?: string | null;
  readonly uid?: number | null;
  readonly uidRangeMin?: number | null;
  readonly uidRangeMax?: number | null;
}

interface SeLinuxContextStrategyOptions {
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
 * The permissions of pods, and the defaults of fields that pods do not set.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
export interface SecurityContextConstraints extends KubeObject {
  /** SCCs with a higher priority come first; 0 if absent. */
  readonly priority?: number | null;
  readonly allowPrivilegedContainer?: boolean | null;
  readonly defaultAddCapabilities?: Strings;
  readonly requiredDropCapabilities?: Strings;
  /** `*` means all. */
  readonly allowedCapabilities?: Strings;
  /** Overrides `hostPath` in `volumes`. */
  readonly allowHostDirVolumePlugin?: boolean | null;
  readonly volumes?: Strings;
  /** If empty, all drivers are allowed. */
  readonly allowedFlexVolumes?: readonly { readonly driver?: string | null }[] | null;
  readonly allowHostNetwork?: boolean | null;
  readonly allowHostPorts?: boolean | null;
  readonly allowHostPID?: boolean | null;
  readonly allowHostIPC?: boolean | null;
  /** `AllowHostLevel` or `RequirePodLevel`. */
  readonly userNamespaceLevel?: string | null;
  readonly defaultAllowPrivilegeEscalation?: boolean | null;
  /** True if absent. */
  readonly allowPrivilegeEscalation?: boolean | null;
  readonly seLinuxContext?: SeLinuxContextStrategyOptions | null;
  readonly runAsUser?: RunAsUserStrategyOptions | null;
  readonly supplementalGroups?: GroupStrategyOptions | null;
  readonly fsGroup?: GroupStrategyOptions | null;
  readonly readOnlyRootFilesystem?: boolean | null;
  readonly users?: Strings;
  readonly groups?: Strings;
  /** `*` means all. If empty, pods may not set a profile. */
  readonly seccompProfiles?: Strings;
  /** A trailing `*` matches a prefix. */
  readonly allowedUnsafeSysctls?: Strings;
  readonly forbiddenSysctls?: Strings;
}

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
 * The deprecated annotations of seccomp profiles. That of a container is the prefix and the name of the container.
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

const STRINGS = ['string'] as const;
const GROUPS = { type: 'string', ranges: [{ min: 'int64', max: 'int64' }] } as const satisfies FieldShapes;

/** The fields of an SCC and their types, without those of every object, as in the schema of the API server. */
export const SCC_FIELDS: Readonly<Record<Exclude<keyof SecurityContextConstraints, keyof KubeObject>, FieldShape>> = {
  priority: 'int32',
  allowPrivilegedContainer: 'boolean',
  defaultAddCapabilities: STRINGS,
  requiredDropCapabilities: STRINGS,
  allowedCapabilities: STRINGS,
  allowHostDirVolumePlugin: 'boolean',
  volumes: STRINGS,
  allowedFlexVolumes: [{ driver: 'string' }],
  allowHostNetwork: 'boolean',
  allowHostPorts: 'boolean',
  allowHostPID: 'boolean',
  allowHostIPC: 'boolean',
  userNamespaceLevel: 'string',
  defaultAllowPrivilegeEscalation: 'boolean',
  allowPrivilegeEscalation: 'boolean',
  seLinuxContext: {
    type: 'string',
    seLinuxOptions: { user: 'string', role: 'string', type: 'string', level: 'string' },
  },
  runAsUser: { type: 'string', uid: 'int64', uidRangeMin: 'int64', uidRangeMax: 'int64' },
  supplementalGroups: GROUPS,
  fsGroup: GROUPS,
  readOnlyRootFilesystem: 'boolean',
  users: STRINGS,
  groups: STRINGS,
  seccompProfiles: STRINGS,
  allowedUnsafeSysctls: STRINGS,
  forbiddenSysctls: STRINGS,
};

/** The values of `userNamespaceLevel`. The first is the default. */
export const USER_NAMESPACE_LEVELS: readonly string[] = ['AllowHostLevel', 'RequirePodLevel'];
