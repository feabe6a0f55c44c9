import { celList } from '../../../kube/cel.ts';
import { type PodFields, SAFE_SYSCTLS, SYSCTL_REPAIR } from '../../pod/index.ts';
import { bind, type BuildCel } from '../cel.ts';
import { type Check, type Finding, forbiddenValue, type Revision } from '../check.ts';
import { compareVersions, type Version } from '../policy.ts';

const VERSIONS = [...new Set(SAFE_SYSCTLS.map(({ since }) => since))].sort(compareVersions);

/**
 * Only sysctls that are namespaced and isolated may be set.
 *
 * Fields   spec.securityContext.sysctls[*].name
 * Allowed  the sysctls that are safe at the version
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const sysctls: Check = {
  id: 'sysctls',
  level: 'baseline',
  why: 'Sysctls that are not namespaced affect all pods on the node, and some can exhaust its memory.',
  fix: 'Remove unsafe sysctls from spec.securityContext.sysctls.',
  violation: ['spec.securityContext.sysctls', [{ name: 'kernel.msgmax', value: '65536' }]],
  cis: '5.6.3',
  repairs: [SYSCTL_REPAIR],
  versions: VERSIONS.map(revision),
};

/** Creates a revision that compares names exactly, so a name that is written with slashes does not match. */
function revision(version: Version): Revision {
  const names = SAFE_SYSCTLS.filter(({ since }) => compareVersions(since, version) <= 0).map(({ name }) => name);
  const safe: ReadonlySet<string> = new Set(names);
  const cel: BuildCel = ({ spec }) => {
    const sysctls = `${spec}.?securityContext.?sysctls.orValue([])`;
    const isSafe = `sysctl.name in ${celList(names)}`;
    return {
      passes: `${sysctls}.all(sysctl, ${isSafe})`,
      // The detail is empty only if the sysctl name is empty.
      text: bind(
        { forbiddenSysctls: `${sysctls}.filter(sysctl, !(${isSafe})).map(sysctl, sysctl.name)` },
        '"forbidden sysctls" + (forbiddenSysctls == [""] ? "" : " (" + forbiddenSysctls.join(", ") + ")")',
      ),
    };
  };
  return { since: version, check: (pod) => onlySysctls(pod, safe), cel };
}

function onlySysctls(pod: PodFields, safe: ReadonlySet<string>): Finding | undefined {
  if (pod.sysctls.every((name) => safe.has(name))) return undefined;
  const unsafe = [...pod.sysctls.entries()].filter(([, name]) => !safe.has(name));
  return {
    reason: 'forbidden sysctls',
    detail: unsafe.map(([, name]) => name).join(', '),
    fields: () => unsafe.map(([index, name]) => forbiddenValue(pod, `securityContext.sysctls[${index}].name`, name)),
  };
}
