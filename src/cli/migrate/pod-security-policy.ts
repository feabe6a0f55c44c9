/**
 * Converts PodSecurityPolicies to SCCs, which have the same structure.
 * @see https://v1-24.docs.kubernetes.io/docs/concepts/security/pod-security-policy/
 */
import { typeMeta } from '../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { isObject, type JsonObject, objectMember, objectsIn, stringsIn } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { hasContent, type Remainder } from './policies.ts';

/** Fields with the same name and meaning in SCCs. */
const SAME: readonly string[] = [
  ...['allowedCapabilities', 'requiredDropCapabilities', 'defaultAddCapabilities', 'allowedFlexVolumes'],
  ...['allowPrivilegeEscalation', 'defaultAllowPrivilegeEscalation', 'readOnlyRootFilesystem'],
  ...['allowedUnsafeSysctls', 'forbiddenSysctls'],
];

/** SCC fields that have other names in a PodSecurityPolicy. */
const RENAMED: Readonly<Record<string, string>> = {
  privileged: 'allowPrivilegedContainer',
  hostNetwork: 'allowHostNetwork',
  hostPID: 'allowHostPID',
  hostIPC: 'allowHostIPC',
};

/** Fields without a counterpart in SCCs. */
const WITHOUT_COUNTERPART: readonly string[] = [
  'allowedHostPaths',
  'allowedCSIDrivers',
  'allowedProcMountTypes',
  'runAsGroup',
  'runtimeClass',
];

const SECCOMP = 'seccomp.security.alpha.kubernetes.io/allowedProfileNames';
const APP_ARMOR = 'apparmor.security.beta.kubernetes.io/allowedProfileNames';

interface ConvertedPolicy {
  readonly scc: SecurityContextConstraints;
  readonly remainders: readonly Remainder[];
}

/**
 * Converts a PodSecurityPolicy, and lists its fields that an SCC cannot express.
 * @throws {UserError} if it has no name
 */
export function convertPodSecurityPolicy(policy: JsonObject): ConvertedPolicy {
  const { name, annotations } = objectMember(policy, 'metadata');
  const spec = objectMember(policy, 'spec');
  if (typeof name !== 'string' || name === '') {
    throw new UserError('a PodSecurityPolicy has no metadata.name: set it, because it becomes the name of the SCC');
  }
  const source = `PodSecurityPolicy/${name}`;
  const remainders: Remainder[] = [];
  const add = (field: string, reason: string): void => void remainders.push({ source, reason: `${field}: ${reason}` });
  for (const field of WITHOUT_COUNTERPART) if (hasContent(spec[field])) add(field, 'SCCs have no such field');
  const ports = objectsIn(spec['hostPorts']);
  if (ports.length > 0 && !ports.every(({ min, max }) => min === 0 && max === 65_535)) {
    add('hostPorts', 'SCCs allow all host ports or none, and this SCC allows all');
  }
  const profiles = isObject(annotations) ? annotations : {};
  if (hasContent(profiles[APP_ARMOR])) add(APP_ARMOR, 'SCCs do not restrict AppArmor profiles');
  const scc = {
    ...typeMeta('SecurityContextConstraints'),
    metadata: { name },
    ...Object.fromEntries(SAME.flatMap((field) => (spec[field] === undefined ? [] : [[field, spec[field]]]))),
    ...Object.fromEntries(Object.entries(RENAMED).map(([field, renamed]) => [renamed, spec[field] === true])),
    // The list is always set, because without it a PodSecurityPolicy allows no volumes, but an SCC allows most.
    volumes: stringsIn(spec['volumes']),
    allowHostPorts: ports.length > 0,
    allowHostDirVolumePlugin: stringsIn(spec['volumes']).some((volume) => volume === '*' || volume === 'hostPath'),
    runAsUser: convertUser(objectMember(spec, 'runAsUser'), add),
    seLinuxContext: convertSeLinux(objectMember(spec, 'seLinux')),
    fsGroup: convertGroup(objectMember(spec, 'fsGroup'), 'fsGroup', add),
    supplementalGroups: convertGroup(objectMember(spec, 'supplementalGroups'), 'supplementalGroups', add),
    ...(hasContent(profiles[SECCOMP]) ? { seccompProfiles: String(profiles[SECCOMP]).split(',') } : {}),
  };
  return { scc, remainders };
}

type Add = (field: string, reason: string) => void;

function convertUser({ rule, ranges }: JsonObject, add: Add): JsonObject {
  if (rule === 'RunAsAny' || rule === 'MustRunAsNonRoot') return { type: rule };
  const [range, ...others] = objectsIn(ranges);
  if (others.length > 0) add('runAsUser.ranges', 'SCCs have one range of user IDs, and this SCC has the first one');
  if (range === undefined) return { type: 'MustRunAsRange' };
  return { type: 'MustRunAsRange', uidRangeMin: range['min'], uidRangeMax: range['max'] };
}

function convertSeLinux({ rule, seLinuxOptions }: JsonObject): JsonObject {
  return rule === 'MustRunAs' ? { type: 'MustRunAs', seLinuxOptions } : { type: 'RunAsAny' };
}

function convertGroup({ rule, ranges }: JsonObject, field: string, add: Add): JsonObject {
  if (rule === 'MustRunAs') return { type: 'MustRunAs', ranges };
  if (rule === 'MayRunAs') add(field, 'SCCs have no MayRunAs, and this SCC allows all groups');
  return { type: 'RunAsAny' };
}
