/** Describes the permissions of an SCC that Kubernetes does not grant by default. */
import { plural } from '../../../kube/text.ts';
import type { SccFields } from '../scc-fields.ts';
import type { PreparedScc } from '../scc.ts';
import { formatValues } from './warning-text.ts';

/** The permission of an SCC that allows privileged containers. */
export const FULL_CONTROL = 'full control of their nodes';

/**
 * Returns the permissions as noun phrases, such as `host ports`. An SCC that allows privileged containers permits
 * everything.
 */
export function describePermissions({ fields }: PreparedScc): readonly string[] {
  if (fields.allowPrivilegedContainer) return [FULL_CONTROL];
  const { runAsUser, volumes, allowedCapabilities, defaultAddCapabilities, seccompProfiles } = fields;
  const capabilities = [...new Set([...allowedCapabilities, ...defaultAddCapabilities])].filter(
    (name) => name !== 'NET_BIND_SERVICE',
  );
  const isAny = volumes.includes('*');
  return [
    [fields.allowHostNetwork, 'the host network'],
    [fields.allowHostPorts, 'host ports'],
    [fields.allowHostPID, 'the host PID namespace'],
    [fields.allowHostIPC, 'the host IPC namespace'],
    [isAny || volumes.includes('hostPath'), 'files of the node (hostPath)'],
    [allowsRoot(runAsUser), 'the root user'],
    [runAsUser.type === 'MustRunAsNonRoot', 'any user except root'],
    [fields.seLinuxContext.type === 'RunAsAny', 'any SELinux label'],
    [capabilities.includes('*'), 'all capabilities'],
    [
      capabilities.length > 0 && !capabilities.includes('*'),
      `the ${plural(capabilities.length, 'capability', 'capabilities')} ${formatValues(capabilities)}`,
    ],
    [fields.allowsAnySeccompProfile || seccompProfiles.includes('unconfined'), 'no seccomp profile'],
    [fields.allowedUnsafeSysctls.length > 0, 'unsafe sysctls'],
    [fields.allowPrivilegeEscalation !== false, 'privilege escalation'],
  ].flatMap(([isPermitted, phrase]) => (isPermitted ? [String(phrase)] : []));
}

/** Returns true if the SCC itself allows user 0. The range of a namespace does not count. */
function allowsRoot({ type, uid, uidRangeMin, uidRangeMax = 0 }: SccFields['runAsUser']): boolean {
  if (type === 'MustRunAsRange') return uidRangeMin !== undefined && uidRangeMin <= 0 && uidRangeMax >= 0;
  return type === 'RunAsAny' || (type === 'MustRunAs' && uid === 0);
}
