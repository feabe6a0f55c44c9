import { findKindError, formatFieldError, notSupported } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { DEFAULT_CAPABILITIES, RESTRICTED_SOURCES, SAFE_SYSCTLS, SE_LINUX_TYPES } from '../pod/index.ts';
import { compareVersions, type Level, type Version } from '../pss/index.ts';
import { decodeScc, type NamespaceRanges, readNamespaceRanges, type SccFields, VOLUME_TYPES } from '../scc/index.ts';

const PROFILES = ['upstream', 'accurate'] as const;

/**
 * `upstream` computes levels as OpenShift does, using the Pod Security Standards at v1.0. `accurate` uses the newest
 * standards and takes default capabilities and user namespaces into account.
 */
export type SccLevelProfile = (typeof PROFILES)[number];

export interface SccLevelOptions {
  readonly profile: SccLevelProfile;
  /**
   * With `aware`, pods under an SCC that requires user namespaces may run as any user and with SELinux type
   * `container_engine_t`, which the standards allow as of v1.35. Use it only if all kubelets are version 1.30 or newer,
   * because older kubelets ignore the user namespace setting. Defaults to `aware` for the `accurate` profile and to
   * `ignore` for `upstream`.
   */
  readonly userNamespaces?: 'aware' | 'ignore';
  /** Pod Security Standards version for the `accurate` profile. Defaults to the newest version. */
  readonly version?: Version | undefined;
}

export interface SccLevel {
  /** The strictest level that all pods under the SCC satisfy, based only on the fields that SCCs control. */
  readonly level?: Level;
  /** The reason why the SCC cannot be evaluated. If set, the level is `privileged`. */
  readonly error?: string;
}

/**
 * Computes the Pod Security Standards level that all pods under an SCC satisfy in a namespace.
 * @example
 * const scc = {
 *   metadata: { name: 'host-network' },
 *   allowHostNetwork: true,
 *   runAsUser: { type: 'MustRunAsNonRoot' },
 *   seLinuxContext: { type: 'MustRunAs' },
 *   fsGroup: { type: 'RunAsAny' },
 *   supplementalGroups: { type: 'RunAsAny' },
 *   volumes: ['emptyDir', 'secret'],
 * };
 * psaLevel(scc, { metadata: { name: 'shop' } }, { profile: 'accurate' }); // { level: 'privileged' }
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/scctopsamapping.go
 */
export function psaLevel(
  scc: unknown,
  namespace: unknown,
  { profile, userNamespaces = profile === 'accurate' ? 'aware' : 'ignore', version = 'latest' }: SccLevelOptions,
): SccLevel {
  const { fields, error: decodeError } = decodeScc(scc);
  const error =
    findKindError(scc, 'SecurityContextConstraints', 'scc') ??
    findKindError(namespace, 'Namespace', 'namespace') ??
    (PROFILES.includes(profile) ? decodeError : notSupported('options.profile', profile, PROFILES));
  if (error !== undefined) return { level: 'privileged', error: formatFieldError(error) };
  const isAware = userNamespaces === 'aware' && compareVersions(version, 'v1.35') >= 0;
  const hasUserNamespaces = isAware && fields.userNamespaceLevel === 'RequirePodLevel';
  const input = { scc: fields, namespace: readNamespaceRanges(namespace), profile, version, hasUserNamespaces };
  const results = EVALUATIONS.map((evaluate) => evaluate(input));
  const failure = results.find((result) => typeof result === 'object');
  if (failure) return { level: 'privileged', error: failure.error };
  return { level: (['privileged', 'baseline'] as const).find((level) => results.includes(level)) ?? 'restricted' };
}

interface Input {
  readonly scc: SccFields;
  readonly namespace: NamespaceRanges;
  readonly profile: SccLevelProfile;
  readonly version: Version;
  /** True if pods have user namespaces and the level takes these into account. */
  readonly hasUserNamespaces: boolean;
}

type Result = Level | { readonly error: string };

/** Volume types in SCCs that the restricted level allows. */
const RESTRICTED_TYPES: ReadonlySet<string> = new Set([...RESTRICTED_SOURCES, 'none', 'serviceAccountToken']);

/** Evaluates each part of an SCC and returns its level. */
const EVALUATIONS: readonly ((input: Input) => Result)[] = [
  ({ scc }) => privilegedIf(scc.allowHostDirVolumePlugin || scc.allowPrivilegedContainer),
  ({ scc }) => privilegedIf(scc.allowHostIPC || scc.allowHostNetwork || scc.allowHostPID || scc.allowHostPorts),
  ({ scc }) => (scc.allowPrivilegeEscalation === false ? 'restricted' : 'baseline'),
  (input) => privilegedIf(input.scc.allowedUnsafeSysctls.some((name) => !isBaselineSysctl(name, input))),
  capabilitiesLevel,
  volumesLevel,
  seLinuxLevel,
  seccompLevel,
  userLevel,
];

function privilegedIf(isPrivileged: boolean): Level {
  return isPrivileged ? 'privileged' : 'restricted';
}

function isBaselineSysctl(sysctl: string, { profile, version }: Input): boolean {
  const newest = profile === 'upstream' ? 'v1.0' : version;
  return SAFE_SYSCTLS.some(({ name, since }) => name === sysctl && compareVersions(since, newest) <= 0);
}

function capabilitiesLevel({ scc, profile }: Input): Level {
  const added = profile === 'accurate' ? scc.defaultAddCapabilities : [];
  const allowed = [...scc.allowedCapabilities, ...added];
  if (allowed.some((name) => !DEFAULT_CAPABILITIES.has(name))) return 'privileged';
  const isRestricted = allowed.every((name) => name === 'NET_BIND_SERVICE');
  return isRestricted && scc.requiredDropCapabilities.includes('ALL') ? 'restricted' : 'baseline';
}

function volumesLevel({ scc: { volumes }, profile }: Input): Result {
  if (volumes.includes('*') || volumes.includes('hostPath')) return 'privileged';
  const others = volumes.filter((type) => !RESTRICTED_TYPES.has(type));
  const unknown = others.find((type) => !VOLUME_TYPES.includes(type));
  if (unknown !== undefined && profile === 'upstream') return { error: `unknown volume type ${quote(unknown)}` };
  return others.length === 0 ? 'restricted' : 'baseline';
}

function seLinuxLevel({ scc: { seLinuxContext }, profile, version, hasUserNamespaces }: Input): Level {
  if (seLinuxContext.type !== 'MustRunAs') return 'privileged';
  const { type = '', user = '', role = '' } = seLinuxContext.seLinuxOptions ?? {};
  const isNew = hasUserNamespaces || (profile === 'accurate' && compareVersions(version, 'v1.31') >= 0);
  const types = SE_LINUX_TYPES[isNew ? 'v1.31' : 'v1.0'];
  return privilegedIf(!types.includes(type) || user !== '' || role !== '');
}

function seccompLevel({ scc: { seccompProfiles, allowsAnySeccompProfile } }: Input): Level {
  if (allowsAnySeccompProfile || !seccompProfiles.every(isConfined)) return 'privileged';
  return seccompProfiles.length === 0 ? 'baseline' : 'restricted';
}

function isConfined(profile: string): boolean {
  return profile === 'runtime/default' || profile === 'docker/default' || profile.startsWith('localhost/');
}

/** Returns the level of the user strategy. As of v1.35, the standards do not restrict users in user namespaces. */
function userLevel({ scc, namespace, profile, hasUserNamespaces }: Input): Result {
  if (hasUserNamespaces) return 'restricted';
  const { type, uid, uidRangeMin, uidRangeMax } = scc.runAsUser;
  switch (type) {
    case 'MustRunAsNonRoot':
      return 'restricted';
    case 'MustRunAs':
      return lowestUserLevel(uid ?? 0);
    case 'MustRunAsRange':
      if (uidRangeMin !== undefined && uidRangeMax !== undefined) return lowestUserLevel(uidRangeMin);
      if ('value' in namespace.uidRange) return lowestUserLevel(namespace.uidRange.value.min);
      if (profile === 'accurate') return 'baseline';
      return { error: `namespace ${quote(namespace.name)}: ${namespace.uidRange.error}` };
    case 'RunAsAny':
      return 'baseline';
    default:
      return profile === 'accurate' ? 'baseline' : { error: `unknown strategy ${quote(type)} for runAsUser` };
  }
}

function lowestUserLevel(uid: number): Level {
  return uid > 0 ? 'restricted' : 'baseline';
}
