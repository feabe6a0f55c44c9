import type { KubeObject, Result } from './types.ts';
import type { FieldShape, FieldShapes } from './field-shape.ts';

/** A closed range of ids; a bound that is absent is 0. */
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

/** Ids in a row, both ends included; there are none if `min` is above `max`. */
export interface IdBlock {
  readonly min: number;
  readonly max: number;
}

/**
 * A block of ids, written as `<start>/<size>` or `<start>-<end>`, as Go scans it: in 32 bits without a sign, which may
 * wrap; blanks before a number and anything behind the second one do not count.
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

/** Blocks joined by commas; the first that is wrong is told. */
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

/** All fields of an SCC beside those that every object has, with their types: what the schema of the API server says. */
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

/** The values of `userNamespaceLevel`; the first is the default of the schema. */
export const USER_NAMESPACE_LEVELS: readonly string[] = ['AllowHostLevel', 'RequirePodLevel'];
