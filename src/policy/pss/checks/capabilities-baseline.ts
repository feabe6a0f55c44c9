import type { ContainerFields, PodFields } from '../../pod/pod.ts';
import { distinct, findContainers, forbidden, formatNames, quotedList, type Check, type Finding } from '../check.ts';

const FIELD = 'securityContext.capabilities.add';

/** The default capabilities of container runtimes. */
const DEFAULT_CAPABILITIES: ReadonlySet<string> = new Set([
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
]);

/**
 * Only default capabilities of container runtimes may be added.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  the default capabilities
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const capabilitiesBaseline: Check = {
  id: 'capabilities_baseline',
  level: 'baseline',
  fix: 'Remove capabilities from securityContext.capabilities.add that container runtimes do not grant by default.',
  versions: [{ since: 'v1.0', check: onlyDefaultCapabilities }],
};

function onlyDefaultCapabilities(pod: PodFields): Finding | undefined {
  const added = findAddedCapabilities(pod, DEFAULT_CAPABILITIES);
  return added && { reason: 'non-default capabilities', ...added };
}

/** Returns the violation of adding other capabilities than the allowed ones. Names are compared exactly. */
export function findAddedCapabilities(
  pod: PodFields,
  allowed: ReadonlySet<string>,
): Omit<Finding, 'reason'> | undefined {
  const offenders = findContainers(pod, ({ capabilities }) => capabilities?.add.some((name) => !allowed.has(name)));
  if (offenders.length === 0) return undefined;
  const forbiddenNames = ({ capabilities }: ContainerFields) =>
    capabilities?.add.filter((name) => !allowed.has(name)) ?? [];
  const names = quotedList(distinct(offenders.flatMap(forbiddenNames)));
  return {
    detail: `${formatNames('container', offenders)} must not include ${names} in securityContext.capabilities.add`,
    fields: () => offenders.map((container) => forbidden(container, FIELD, distinct(forbiddenNames(container)))),
  };
}
