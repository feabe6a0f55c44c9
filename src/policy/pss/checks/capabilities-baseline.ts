import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { allIn, forbidden } from '../offenders.ts';
import { containersText, distinct, quotedSet } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.capabilities.add';
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
 * Only capabilities that container runtimes give by default may be added.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  the default set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const capabilitiesBaseline: Check = {
  id: 'capabilities_baseline',
  level: 'baseline',
  remedy: 'Remove capabilities from securityContext.capabilities.add that container runtimes do not give by default.',
  passesUnlessSet: ['capabilitiesAdd'],
  versions: [{ since: 'v1.0', check: onlyDefaultCapabilities }],
};

function onlyDefaultCapabilities(pod: PodFields): Finding | undefined {
  const containers = containersText(pod, addsMore);
  if (containers === '') return undefined;
  const added = allIn(pod.containers, notDefault);
  return {
    reason: 'non-default capabilities',
    detail: `${containers} must not include ${quotedSet(added)} in securityContext.capabilities.add`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers
    .filter(addsMore)
    .map((container) => forbidden(container, FIELD, distinct(notDefault(container))));
}

function addsMore(container: ContainerFields): boolean {
  return !container.capabilitiesAdd.every(isDefault);
}

function notDefault(container: ContainerFields): readonly string[] {
  return container.capabilitiesAdd.filter((name) => !isDefault(name));
}

function isDefault(name: string): boolean {
  return DEFAULT_CAPABILITIES.has(name);
}
